// The operators that the benchmark measures, each on this rank's tensor of so many bytes.
//
//   OperatorCases cases(&communicator, /*autograd=*/false);
//   ADJOIN_ASSIGN_OR_RETURN(const OperatorCase broadcast, cases.Make("broadcast", 1 << 20));
//   at::Tensor y = broadcast.run(0);    // collective; equals broadcast.expected(0)
//
// Tensors are on the communicator's device. All ranks make and run the same cases in the same order; a case lives no
// longer than what made it. One thread.
#ifndef ADJOIN_BENCH_OPERATOR_CASES_H_
#define ADJOIN_BENCH_OPERATOR_CASES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct OperatorCase {
  std::function<at::Tensor(int64_t i)> run;       // the i-th execution; roots rotate with i
  std::function<at::Tensor(int64_t i)> expected;  // its result on this rank
  double messages = 1;                            // run's time divided by this is what is reported
};

class OperatorCases {
 public:
  // With `autograd` operators run by Apply, each on a tape of its own, else by Forward.
  OperatorCases(Communicator* communicator, bool autograd) : communicator_(communicator), autograd_(autograd) {}

  // `op` is one of Names(). `bytes` is the size of the tensor that goes in on each rank; of the one that comes out for
  // "all_gather", of each message for "ping_pong".
  // Errors: kInvalidArgument (no such operator, bytes that do not divide among the ranks, that no image patch has,
  // ranks that do not pair up); as Movement::Create.
  absl::StatusOr<OperatorCase> Make(const std::string& op, int64_t bytes);
  static const std::vector<std::string>& Names();

  // The halo of a 1 x 8 x 512 x 512 image cut by rows; into a fresh padded tensor, and in one that stays (HaloRefresh).
  absl::StatusOr<OperatorCase> MakeImageHalo();
  absl::StatusOr<OperatorCase> MakeImageRefresh();

 private:
  absl::StatusOr<OperatorCase> PingPong(int64_t cells);
  absl::StatusOr<OperatorCase> Rooted(const std::string& op, int64_t cells);
  absl::StatusOr<OperatorCase> Collective(const std::string& op, int64_t cells);
  absl::StatusOr<OperatorCase> Halo(int64_t channels, int64_t rows, int64_t columns);
  absl::StatusOr<Layout> ImageLayout(int64_t channels, int64_t rows, int64_t columns) const;
  // This rank's part with a ring of neighbours' cells and zeros, where each rank's cells are its number from 1 on.
  at::Tensor PaddedPart(const Layout& image) const;
  at::Tensor Call(Movement& movement, const at::Tensor& x) const;
  c10::Device device() const;
  // Every cell written, so that reading it reads memory: a fresh page of zeros may be one that all share.
  at::Tensor Filled(const std::vector<int64_t>& shape, double value) const;
  Movement::Options NextOptions(const std::string& name) { return {.id = next_id_++, .name = name}; }
  int ranks() const { return communicator_->size(); }
  std::vector<int> AllRanks() const;

  Communicator* communicator_;
  bool autograd_;
  int64_t next_id_ = 1;
};

}  // namespace adjoin

#endif  // ADJOIN_BENCH_OPERATOR_CASES_H_
