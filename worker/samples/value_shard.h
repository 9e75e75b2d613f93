// One value of one program on this rank: a local tensor made of boxes of a field's samples.
//
//   ADJOIN_ASSIGN_OR_RETURN(ValueShard shard, ValueShard::Create(dataset, field, value, rank));
//   if (shard.reads()) shard.SetSource(source);
//   ADJOIN_ASSIGN_OR_RETURN(at::Tensor tensor, shard.Read(positions, stop, &finding));
//
// The tensor is the rank's part of ValuePlan.layout; or, where ValuePlan.read names a movement that fetches the value
// with its halo, the destination of that movement: its pieces are read, the rest is its fill, which no mean or std
// changes. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_VALUE_SHARD_H_
#define ADJOIN_WORKER_SAMPLES_VALUE_SHARD_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/samples/cell_rules.h"
#include "worker/samples/field_source.h"
#include "worker/samples/sample_positions.h"
#include "worker/samples/sample_scaling.h"

namespace adjoin {

class ValueShard {
 public:
  // Errors: kInvalidArgument (a plan that does not fit the field); as LayoutFromProto, DistributionsOf,
  // CellRules::Create.
  static absl::StatusOr<ValueShard> Create(const Dataset& dataset, const Field& field, const ValuePlan& value,
                                           int rank);

  // The shape of a whole sample in the files, which is larger than this value's where the data set has blocks; with -1
  // where Field.shape has.
  const std::vector<int64_t>& sample_shape() const { return whole_; }
  // True where this rank holds any cell of the field, so that it needs a source.
  bool reads() const;
  // Both must outlive this.
  void SetSource(FieldSource* source, SampleScaling* scaling) {
    source_ = source;
    scaling_ = scaling;
  }
  void Bound(const ClassBound& bound) { rules_.Bound(bound); }

  // `positions`: the whole batch's, on all ranks. `not_finite` gets the first value of this rank's own cells (not of
  // its halo or of another rank's copy) that is not a number or infinite: "sample 3, position [0, 4]: nan". May be
  // null.
  // Errors: kInvalidArgument (a value that the field may not have: names sample and position); kCancelled once `stop`
  // is set; as FieldSource::Read, SampleScaling::Apply.
  absl::StatusOr<at::Tensor> Read(const std::vector<SamplePosition>& positions, const std::atomic<bool>& stop,
                                  std::optional<std::string>* not_finite);

 private:
  // A box of `count` samples that follow each other in the batch and in the file.
  struct Run {
    int64_t position;            // the first one's, in the batch
    const SamplePosition* from;  // the first one's, in the file
    int64_t count;
    Box box;  // within a sample
  };

  explicit ValueShard(CellRules rules) : rules_(std::move(rules)) {}
  DimPosition PositionOf(const SamplePosition& position, int dim) const;
  absl::Status ReadPiece(const Piece& piece, const std::vector<SamplePosition>& positions,
                         const std::atomic<bool>& stop, at::Tensor& tensor, std::optional<std::string>* not_finite);
  absl::Status ReadRun(const Run& run, const Piece& piece, const std::atomic<bool>& stop, at::Tensor& tensor,
                       std::optional<std::string>* not_finite);
  std::optional<BoxCut> CutOf(const Run& run) const;
  absl::Status FetchRun(const Run& run);
  std::string WhereIs(const Run& run, int64_t cell) const;
  void LookForNotFinite(const Run& run, std::optional<std::string>* not_finite) const;

  std::vector<int64_t> whole_;
  bool varies_ = false;           // each sample in the files has extents of its own
  std::vector<int64_t> sample_;   // the extents of a block where the data set has them, else `whole_`
  int spatial_ = 0;               // the number of a sample's last dims that SamplePosition::dims is about
  std::vector<int64_t> strides_;  // of the field's grid, in these dims
  LocalView view_;
  Box own_;  // this rank's box of the global tensor; empty where another rank before this one holds it too
  DType dtype_ = DType::kFloat32;
  double fill_ = 0;
  CellRules rules_;
  FieldSource* source_ = nullptr;
  SampleScaling* scaling_ = nullptr;
  std::vector<double> cells_;    // one run's
  std::vector<double> fetched_;  // one run's as they are in the file, where they have to be mirrored or filled up
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_VALUE_SHARD_H_
