// This rank's part of every batch of a data set.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto reader, ShardReader::Create(plan, "train", "/srv/data", rank));
//   ADJOIN_ASSIGN_OR_RETURN(auto fields, reader->Read(program, /*epoch=*/0, /*first=*/128));
//   network->Forward(fields, tape);
//
// A batch is `program.batch()` samples from position `first` of the epoch on. Which samples these are, and which blocks
// of them, mirrored and shifted how, is the same on every rank (sample_positions.h). The rank reads and holds only its
// box of each field's layout, with its halo where the plan has one: its part of the batch's samples and of their
// features. Values are read as doubles, clipped and normalised by their sample (sample_scaling.h), remapped,
// (x * scale - mean) / std, then cast to the layout's type.
//
// While a batch is in use, another thread reads the next one. One thread may call.
#ifndef ADJOIN_WORKER_SAMPLES_SHARD_READER_H_
#define ADJOIN_WORKER_SAMPLES_SHARD_READER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/samples/batch_order.h"
#include "worker/samples/field_source.h"
#include "worker/samples/label_cells.h"
#include "worker/samples/read_ahead.h"
#include "worker/samples/sample_extents.h"
#include "worker/samples/sample_positions.h"
#include "worker/samples/sample_scaling.h"
#include "worker/samples/value_shard.h"

namespace adjoin {

class ShardReader {
 public:
  // Opens the sources that `rank` needs for every program of the plan that reads `dataset`; of a data set with whole
  // volumes (planner/spec/whole_volumes.h), all that the programs read, which come one after the other with UseFor.
  // Errors: kInvalidArgument (no such data set or field; as OpenFieldSource, ValueShard::Create,
  // SamplePositions::Create); kFailedPrecondition where a field does not have the number of samples, or the samples
  // the extents, that the plan was made for.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Create(const Plan& plan, const std::string& dataset,
                                                             const DataFolder& data, int rank,
                                                             at::Device device = at::kCPU);

  int64_t samples() const { return samples_; }
  // Those of all samples, where they have their own; else empty.
  const SampleExtents& extents() const { return extents_; }

  // From now on Read is for `program`, which takes one whole volume, and for `samples`, which all have `extents`: it
  // reads ahead in their order. Only of a data set with whole volumes. Errors: as ValueShard::Create.
  absl::Status UseFor(const ProgramPlan& program, const std::vector<int64_t>& extents, std::vector<int64_t> samples);

  // Returns tensors by ValuePlan::name, on `device`, of shape (0, ..., 0) where this rank holds nothing. `program` is
  // one of the plan's. DataFolder::warn gets a field's first value that is not a number or infinite, once: "data set
  // "train", field "image": sample 3, position [0, 4]: nan". Only the rank that holds its cell reports it, so no value
  // is reported twice. Errors: kOutOfRange where the batch goes beyond the data set; as ValueShard::Read, with the
  // names of data set and field.
  absl::StatusOr<std::map<std::string, at::Tensor>> Read(const ProgramPlan& program, int64_t epoch, int64_t first);

  // Bytes of files, for the batches that Read returned.
  int64_t bytes_read() const { return bytes_read_; }

  // Ends what is being read ahead.
  ~ShardReader() {
    for (const auto& [field, source] : sources_) {
      if (source != nullptr) source->Stop();  // else it could not be opened
    }
  }

 private:
  struct Batch {
    std::map<std::string, at::Tensor> values;
    std::map<std::string, std::string> not_finite;  // by field
    int64_t bytes = 0;
  };
  struct NamedShard {
    std::string name;
    std::string field;
    bool first_of_field = false;  // in its program; the others hold copies
    ValueShard shard;
  };
  struct Program {
    bool training = false;
    int64_t batch = 0;
    std::vector<NamedShard> shards;
  };

  ShardReader() = default;
  absl::Status AddProgram(const ProgramPlan& program, const DataFolder& data);
  absl::Status AddShards(const Dataset& dataset, const ProgramPlan& program, const DataFolder& data, Program& added);
  absl::Status OpenWholeVolumes(const ProgramPlan& program, const DataFolder& data);
  void ReadInThread();
  std::optional<BatchKey> After(const BatchKey& key) const;
  // Opens the field's files unless they are open.
  absl::StatusOr<FieldSource*> SourceOf(const Field& field, const std::vector<int64_t>& sample_shape,
                                        const DataFolder& data);
  absl::Status OpenForPositions(const DataFolder& data);
  absl::Status CountSamples(const DatasetSize& planned);
  absl::StatusOr<SampleExtents> FindExtents(const DatasetSize& planned) const;
  absl::Status At(const std::string& field, const absl::Status& status) const;
  absl::StatusOr<Batch> ReadBatch(const BatchKey& key, const std::atomic<bool>& stop);

  Dataset dataset_;
  int rank_ = 0;
  std::optional<DataFolder> data_;  // of a data set with whole volumes, for later programs
  uint64_t seed_ = 0;
  at::Device device_ = at::kCPU;
  std::function<void(const std::string&)> warn_;
  std::map<std::string, std::unique_ptr<FieldSource>> sources_;     // by field; empty where this rank reads none
  std::map<std::string, std::unique_ptr<SampleScaling>> scalings_;  // by field
  std::map<std::string, Program> programs_;
  int64_t samples_ = 0;
  std::unique_ptr<LabelCells> labels_;          // null without Blocks.foreground
  std::unique_ptr<SamplePositions> positions_;  // null where this rank reads nothing
  BatchOrder order_;
  SampleExtents extents_;
  std::vector<int64_t> in_use_;   // the samples of UseFor
  std::set<std::string> warned_;  // fields
  int64_t bytes_read_ = 0;
  std::unique_ptr<ReadAhead<BatchKey, Batch>> ahead_;  // last: it uses the others
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SHARD_READER_H_
