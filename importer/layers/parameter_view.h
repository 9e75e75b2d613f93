// A module's own parameter, or a part of it, as an operator reads it: its first elements, with dims of extent 1 more or
// fewer, in another order, repeated.
//
//   ParameterView view = ParameterView::Of({1, 1, 768});          // a class token
//   view = *view.Expanded({8, 1, 768});                            // beside a batch of 8
//   view.length();                                                 // {1, 1, 768}: elements of each of its dims
//   view.OrderBeside({8, 197, 768});                               // how the other operand's dims have to lie
#ifndef ADJOIN_IMPORTER_LAYERS_PARAMETER_VIEW_H_
#define ADJOIN_IMPORTER_LAYERS_PARAMETER_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

class ParameterView {
 public:
  struct Dim {
    int own = -1;        // which of the parameter's; -1: a new one
    int64_t extent = 1;  // longer than the parameter's, where that is 1: repeated
  };

  ParameterView() = default;
  static ParameterView Of(std::vector<int64_t> shape);

  const std::vector<int64_t>& own_shape() const { return own_shape_; }
  const std::vector<int64_t>& length() const {
    return length_;
  }  // how many of each of its dims are read, the first ones
  const std::vector<Dim>& dims() const { return dims_; }
  std::vector<int64_t> shape() const;
  bool IsWhole() const;  // as it is

  // Errors of all: kInvalidArgument, for what is more than such a part, and for dims that the view does not have.
  absl::StatusOr<ParameterView> First(size_t dim, int64_t count) const;
  absl::StatusOr<ParameterView> Reshaped(const std::vector<int64_t>& to) const;  // extents of 1 come or go
  absl::StatusOr<ParameterView> Expanded(const std::vector<int64_t>& to) const;
  absl::StatusOr<ParameterView> Permuted(const std::vector<int64_t>& order) const;
  absl::StatusOr<ParameterView> WithoutDim(size_t dim) const;
  absl::StatusOr<ParameterView> WithDim(size_t dim) const;

  // The order that the dims of a tensor of shape `x`, whose dim 0 is the batch, need so that the parameter, aligned at
  // the last dim as it is in PyTorch, stands beside those that it is combined with here. Errors: kInvalidArgument:
  // there is none; the result would be larger than x.
  absl::StatusOr<std::vector<int64_t>> OrderBeside(const std::vector<int64_t>& x) const;
  // True where it is the parameter for each sample: [batch, the rest as it is], and dim 0 of the parameter is 1.
  bool IsOnePerSample(int64_t batch) const;
  // True where it is the parameter for each sample, which has no dim for them: [batch, the parameter].
  bool IsWholePerSample(int64_t batch) const;

 private:
  bool Repeats(const Dim& dim) const;

  std::vector<int64_t> own_shape_, length_;
  std::vector<Dim> dims_;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_PARAMETER_VIEW_H_
