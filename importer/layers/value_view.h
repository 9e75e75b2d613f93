// How a value of a program follows from what a layer returns, by changes of shape and of the order of dims alone. A
// layer's dim 0 is the batch; a value's batch may be anywhere, also together with other dims, until a layer reads it.
//
//   ValueView view = ValueView::Of({2, 197, 2304});                      // a layer's output
//   view = *view.Reshaped({2, 197, 3, 12, 64});
//   view = view.Permuted({2, 0, 3, 1, 4});                               // [3, batch, heads, length, features]
//   view.BatchDim();                                                     // 1
//   ADJOIN_ASSIGN_OR_RETURN(ViewSteps steps, view.Steps());              // an error: the batch is not dim 0
//
// The base's dims are factors, its extents divided where a reshape divides them. Each dim of the value is a list of
// such factors, so that changes compose exactly, whatever extents are equal by accident. An extent of 1 has no factor,
// but the batch always has one.
//
// A value that follows of parameters alone has no batch. Layers return it as one sample, whose dim 0 no dim of the
// value has.
#ifndef ADJOIN_IMPORTER_LAYERS_VALUE_VIEW_H_
#define ADJOIN_IMPORTER_LAYERS_VALUE_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

// What makes the value of the base: three layers at most. Each is empty where it is not needed.
struct ViewSteps {
  std::vector<int64_t> split;   // reshape to it, with the batch
  std::vector<int64_t> order;   // permute
  std::vector<int64_t> merged;  // reshape to it, with the batch
};

// Where a dim of the value, whose elements lie regularly, is in the base.
struct DimInBase {
  int dim = 0;        // of the base
  int64_t outer = 1;  // the base's extent is outer * the value's * inner
  int64_t inner = 1;
  size_t first = 0, count = 0;  // its factors
};

class ValueView {
 public:
  ValueView() = default;
  // `base`: extents; dim 0 is the batch, kAnyExtent where it is not fixed.
  static ValueView Of(std::vector<int64_t> base);
  // What a layer returns whose result is `shape`: the same, but [batch, 1] for one number a sample.
  static ValueView OfValue(std::vector<int64_t> shape);
  // What a layer returns of [1, shape ...], or [1, 1] for a number: without a batch.
  static ValueView OfParameters(const std::vector<int64_t>& shape);

  const std::vector<int64_t>& base() const { return base_; }
  size_t dims() const { return dims_.size(); }
  // kAnyExtent: the batch that is not fixed; kComputedExtent: such a batch together with other dims.
  std::vector<int64_t> shape() const;
  bool IsBase() const;
  bool HasBatch() const;
  // The dim that has the batch, perhaps beside others; kNoDim where none has.
  static constexpr size_t kNoDim = static_cast<size_t>(-1);
  size_t BatchDim() const;
  bool BatchIsAlone() const { return !HasBatch() || dims_[BatchDim()].size() == 1; }
  // The one sample of a value without a batch, in a dim of extent 1.
  ValueView WithBatch(size_t dim) const;

  // The elements in their order, in another shape. One extent may be kComputedExtent, or kAnyExtent for the batch
  // alone. Errors: kInvalidArgument: another number of elements; extents that do not follow from the dims by joining
  // and dividing them, as where the batch is divided; a batch of one sample, of which it is not known which 1 it is.
  absl::StatusOr<ValueView> Reshaped(const std::vector<int64_t>& to) const;
  // `order` has every dim once.
  ValueView Permuted(const std::vector<int64_t>& order) const;
  ValueView WithoutDim(size_t dim) const;  // of extent 1, not the batch
  ValueView WithDim(size_t dim) const;     // a new one of extent 1, before `dim`

  // The extents before and after the batch in its dim, both fixed: {1, 12} of [batch * 12, ...].
  std::pair<int64_t, int64_t> BesideBatch() const;
  // The batch in a dim of its own, in front of all; what was beside it stays where it was, in dims of their own where
  // they are not 1.
  ValueView BatchFirst() const;

  // None for the batch's, and for one that is more than one dim of the base, or a part in another order.
  std::optional<DimInBase> FindInBase(size_t dim) const;
  // The value where only `extent` elements of a dim are left, of a base that has so many less there.
  ValueView Narrowed(size_t dim, const DimInBase& found, int64_t extent) const;

  // The same value of a base whose dims are divided or joined, as Reshaped makes it of this one.
  ValueView OfBase(std::vector<int64_t> base) const;

  // Errors: kInvalidArgument where dim 0 is not the batch alone.
  absl::StatusOr<ViewSteps> Steps() const;

 private:
  struct Factor {
    int64_t extent = 1;
    int dim = 0;  // of the base
  };

  void Divide(size_t factor, int64_t first);
  int64_t ExtentOf(const std::vector<size_t>& factors) const;
  std::vector<int64_t> PurePermutation() const;

  std::vector<int64_t> base_;
  std::vector<Factor> factors_;            // of the base, in its order; the first one is the batch
  std::vector<std::vector<size_t>> dims_;  // of the value: its factors, each of which is in one dim
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_VALUE_VIEW_H_
