// One value of one program on this rank: a local tensor made of boxes of a field's samples.
//
//   ADJOIN_ASSIGN_OR_RETURN(ValueShard shard, ValueShard::Create(dataset, field, value, rank));
//   if (shard.reads()) shard.SetSource(source);
//   ADJOIN_ASSIGN_OR_RETURN(at::Tensor tensor, shard.Read(places, stop, &finding));
//
// The tensor is the rank's part of ValuePlan.layout; or, where ValuePlan.read says what is fetched with its halo, the
// destination of that operator: its pieces are read, the rest is its fill, which no mean or std changes. One thread.
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
#include "worker/samples/sample_places.h"

namespace adjoin {

class ValueShard {
 public:
  // Errors: kInvalidArgument (a plan that does not fit the field); as LayoutFromProto, DistributionsOf, CellRules::Create.
  static absl::StatusOr<ValueShard> Create(const Dataset& dataset, const Field& field, const ValuePlan& value, int rank);

  // Of a whole sample in the files, which is larger than this value's where the data set has blocks.
  const std::vector<int64_t>& sample_shape() const { return whole_; }
  // Whether this rank holds any cell of the field, so that it needs a source.
  bool reads() const;
  // Outlives this.
  void SetSource(FieldSource* source) { source_ = source; }
  void Bound(const ClassBound& bound) { rules_.Bound(bound); }

  // `places`: of the whole batch, on all ranks. `not_finite` gets the first value of this rank's own cells (not of its halo
  // or of another rank's copy) that is not a number or infinite: "sample 3, position [0, 4]: nan". May be null.
  // Errors: kInvalidArgument (a value that the field may not have: names sample and position); kCancelled once `stop` is
  // set; as FieldSource::Read.
  absl::StatusOr<at::Tensor> Read(const std::vector<SamplePlace>& places, const std::atomic<bool>& stop,
                                     std::optional<std::string>* not_finite);

 private:
  // A box of `count` samples from a place of the batch on.
  struct Run {
    int64_t place;
    const SamplePlace* from;  // of the first; the others follow it in the file
    int64_t count;
    Box box;  // within a sample
  };

  explicit ValueShard(CellRules rules) : rules_(std::move(rules)) {}
  const DimPlace& PlaceOf(const SamplePlace& place, int dim) const;
  absl::Status ReadPiece(const Piece& piece, const std::vector<SamplePlace>& places, const std::atomic<bool>& stop,
                         at::Tensor& tensor, std::optional<std::string>* not_finite);
  absl::Status ReadRun(const Run& run, const Piece& piece, const std::atomic<bool>& stop, at::Tensor& tensor,
                       std::optional<std::string>* not_finite);
  std::optional<BoxCut> CutOf(const Run& run) const;
  absl::Status FetchRun(const Run& run);
  std::string WhereIs(const Run& run, int64_t cell) const;
  void LookForNotFinite(const Run& run, std::optional<std::string>* not_finite) const;

  std::vector<int64_t> whole_;
  std::vector<int64_t> sample_;  // the extents of a block where the data set has them, else `whole_`
  int spatial_ = 0;     // as many last dims of a sample are placed by SamplePlace::dims
  LocalView view_;
  Box own_;             // of the global tensor, where this rank is the first that holds it; else empty
  DType dtype_ = DType::kFloat32;
  double fill_ = 0;
  CellRules rules_;
  FieldSource* source_ = nullptr;
  std::vector<double> cells_;    // of one run
  std::vector<double> fetched_;  // likewise, where it has to be turned around
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_VALUE_SHARD_H_
