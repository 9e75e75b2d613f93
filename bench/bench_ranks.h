// The ranks of a benchmark: this program once more for each of them, connected by UCX over shared memory.
//
//   if (const auto rank = ThisBenchRank()) return Report(RunRank(*rank));    // one of the processes started below
//   absl::Status status = RunBenchRanks(argv, /*ranks=*/2, Deadline::After(absl::Minutes(5)));
//
//   absl::Status RunRank(BenchRank rank) {
//     ADJOIN_ASSIGN_OR_RETURN(const auto transport, ConnectBenchRank(rank, absl::Minutes(5)));
//     Communicator communicator(transport.get(), &memory, {0, absl::Minutes(5)});
//     ADJOIN_ASSIGN_OR_RETURN(const SlowestTime slowest, SlowestTime::Create(&communicator, /*id=*/65000));
//     times = bench::Measure(counts, run, slowest);
#ifndef ADJOIN_BENCH_BENCH_RANKS_H_
#define ADJOIN_BENCH_BENCH_RANKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "primitives/comm/communicator.h"
#include "primitives/device/device.h"
#include "primitives/movement.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_options.h"

namespace adjoin {

struct BenchRank {
  int rank = 0;
  int size = 1;
};
// Absent in the process that a user starts.
std::optional<BenchRank> ThisBenchRank();

// Starts this program so often, with the same arguments, and waits for all. Errors: kDeadlineExceeded; kAborted where a
// rank failed; kUnavailable.
absl::Status RunBenchRanks(char** argv, int ranks, Deadline deadline);

// With `device`, also the messages from its memory. `shared_channels` as in TransportOptions: a rank may have one
// transport of each kind. Errors: as ConnectThroughFolder.
absl::StatusOr<std::unique_ptr<Transport>> ConnectBenchRank(BenchRank rank, absl::Duration timeout,
                                                            std::shared_ptr<Device> device = nullptr,
                                                            GpuDirect gpu_direct = GpuDirect::kAuto,
                                                            bool shared_channels = true);

// The largest of all ranks' times, and a barrier. Throws StatusException.
class SlowestTime {
 public:
  // Errors: as Movement::Create.
  static absl::StatusOr<SlowestTime> Create(Communicator* communicator, int64_t id);
  double operator()(double time) const;

 private:
  SlowestTime(std::shared_ptr<Movement> gather, c10::Device device) : gather_(std::move(gather)), device_(device) {}
  std::shared_ptr<Movement> gather_;
  c10::Device device_;
};

}  // namespace adjoin

#endif  // ADJOIN_BENCH_BENCH_RANKS_H_
