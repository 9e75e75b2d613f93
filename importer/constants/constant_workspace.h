// The tensors of a program that are known when it is imported, as PyTorch keeps them: views of storages, so that a
// change in place is seen by all of them.
//
//   ADJOIN_ASSIGN_OR_RETURN(ConstantView zeros, workspace.New(DType::kFloat32, {4, 4}));
//   ConstantView row = zeros;                       // the same elements
//   row.shape = {4}; row.stride = {1};
//   ADJOIN_RETURN_IF_ERROR(workspace.WriteReals(row, {1, 2, 3, 4}));
//   workspace.Reals(zeros);                         // 16 elements, row-major
//
// Everything is counted against ConstantLimits before it is allocated. One thread.
#ifndef ADJOIN_IMPORTER_CONSTANTS_CONSTANT_WORKSPACE_H_
#define ADJOIN_IMPORTER_CONSTANTS_CONSTANT_WORKSPACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "importer/constants/constant_evaluator.h"
#include "importer/constants/constant_tensor.h"
#include "importer/graph/op_graph.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

// Elements of a view's storage; one of the two has them, as in ConstantTensor.
struct ConstantStorage {
  std::vector<double> reals;
  std::vector<int64_t> wholes;
};

// A stride may be 0, as of a tensor that was expanded. Every element is in the storage.
struct ConstantView {
  ConstantStorage* storage = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape, stride;
  int64_t offset = 0;

  int64_t Elements() const;
  bool real() const { return IsFloatingPoint(dtype); }
  int64_t dims() const { return static_cast<int64_t>(shape.size()); }
};

// What operators return where they cannot be computed; the evaluator adds operator and module.
template <typename... Parts>
absl::Status NotComputed(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

class ConstantWorkspace {
 public:
  explicit ConstantWorkspace(const ConstantLimits& limits) : limits_(limits) {}

  // A new tensor of zeros. Errors: kResourceExhausted.
  absl::StatusOr<ConstantView> New(DType dtype, const std::vector<int64_t>& shape);
  // A new tensor of these elements, which are rounded to the type. Errors: likewise.
  absl::StatusOr<ConstantView> OfReals(DType dtype, const std::vector<int64_t>& shape, std::vector<double> values);
  absl::StatusOr<ConstantView> OfWholes(DType dtype, const std::vector<int64_t>& shape, std::vector<int64_t> values);
  // Counts work that is about to be done; so do all of the functions above and below. Errors: kResourceExhausted.
  absl::Status Count(int64_t elements);
  int64_t most_elements() const { return limits_.elements; }

  // The elements in row-major order, converted to the one or the other kind of number.
  absl::StatusOr<std::vector<double>> Reals(const ConstantView& view);
  absl::StatusOr<std::vector<int64_t>> Wholes(const ConstantView& view);
  // Puts elements into a view, converted and rounded to its type.
  absl::Status WriteReals(const ConstantView& view, const std::vector<double>& values);
  absl::Status WriteWholes(const ConstantView& view, const std::vector<int64_t>& values);
  // A new tensor with the same elements, converted and rounded to `dtype`.
  absl::StatusOr<ConstantView> Converted(const ConstantView& view, DType dtype);
  // Puts the elements of `from`, which broadcasts to `to`, into it.
  absl::Status Copy(const ConstantView& from, const ConstantView& to);

  // -- Values of the program.
  void Bind(const std::string& value, ConstantView view) { views_[value] = std::move(view); }
  // Null where there is none.
  const ConstantView* Find(const std::string& value) const;

 private:
  const ConstantLimits limits_;
  int64_t bytes_ = 0, work_ = 0;
  std::vector<std::unique_ptr<ConstantStorage>> storages_;
  std::map<std::string, ConstantView> views_;
};

// A view with the shape, to which it broadcasts. Errors: kInvalidArgument.
absl::StatusOr<ConstantView> Broadcast(const ConstantView& view, const std::vector<int64_t>& shape);
// The shape to which both broadcast. Errors: kInvalidArgument.
absl::StatusOr<std::vector<int64_t>> BroadcastShape(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
// Strides of elements that lie in row-major order.
std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape);

// A view's elements one after the other, in row-major order: their positions in the storage.
class PositionWalk {
 public:
  explicit PositionWalk(const ConstantView& view);
  int64_t position() const { return position_; }
  void Next();

 private:
  const ConstantView& view_;
  std::vector<int64_t> at_;
  int64_t position_;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_CONSTANTS_CONSTANT_WORKSPACE_H_
