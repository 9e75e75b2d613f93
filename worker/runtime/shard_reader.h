// This rank's part of every batch of a data set.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto reader, ShardReader::Create(plan, "train", "/srv/data", rank));
//   ADJOIN_ASSIGN_OR_RETURN(auto fields, reader->Read(program, /*epoch=*/0, /*first=*/128));
//   network->Forward(fields, tape);
//
// A batch is `program.batch()` samples from place `first` of the epoch's order: a permutation from the job's seed,
// the same on every rank, where the data set is shuffled and the program trains; else the file's order. Of each field
// only the box of the value's layout is read and held: the samples of this rank's part of the batch, and of them its
// features. Values are read, scaled, (x * scale - mean) / std, in double, then cast to the layout's type. One thread.
#ifndef ADJOIN_WORKER_RUNTIME_SHARD_READER_H_
#define ADJOIN_WORKER_RUNTIME_SHARD_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/runtime/idx_samples.h"

namespace adjoin {

class ShardReader {
 public:
  // Opens what `rank` needs for every program of the plan that reads `dataset`.
  // Errors: kInvalidArgument (no such data set or field, a source that is not IDX, a number of means that is neither
  // 1 nor that of the channels); as IdxSamples::Open; kFailedPrecondition where a field does not have the number of
  // samples that the plan was made for.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Create(const Plan& plan, const std::string& dataset,
                                                             const std::string& data_root, int rank);

  int64_t samples() const { return samples_; }

  // By ValuePlan::name; shape (0, ..., 0) where this rank holds nothing. `program` is one of the plan's.
  // Errors: kOutOfRange where the batch goes beyond the data set; as IdxSamples::Read.
  absl::StatusOr<std::map<std::string, torch::Tensor>> Read(const ProgramPlan& program, int64_t epoch, int64_t first);

 private:
  // One value of one program.
  struct Shard {
    Layout layout;
    Box box;                           // of this rank: samples of the batch, then features
    IdxSamples* source = nullptr;      // null where the rank holds nothing
    const Field* field = nullptr;
  };

  ShardReader() = default;
  absl::Status AddShard(const ProgramPlan& program, const ValuePlan& value, const std::string& data_root, int rank);
  absl::StatusOr<torch::Tensor> ReadShard(const Shard& shard, const std::vector<int64_t>* order, int64_t first);
  const std::vector<int64_t>* OrderOf(int64_t epoch);

  Dataset dataset_;
  uint64_t seed_ = 0;
  int64_t samples_ = 0;
  // By field and box of features: programs of other batch sizes share what was read.
  std::map<std::pair<std::string, std::string>, std::unique_ptr<IdxSamples>> sources_;
  std::map<std::string, std::map<std::string, Shard>> shards_;  // by program and value
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_SHARD_READER_H_
