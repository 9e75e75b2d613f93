// The types and extents of what operators return, which a trace does not tell.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<TensorInfo> results, InferResults(node, graph.tensors));
//   results[0].shape;     // {2, 8, 14, 14}
//
// Extents count elements, of dim 0 first; () is a tensor without dims. They are computed as PyTorch does. A new
// operator is a function and a line in the table of one of shape_*.cc.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SHAPE_INFERENCE_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SHAPE_INFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "importer/graph/op_graph.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

using Extents = std::vector<int64_t>;
using Results = absl::StatusOr<std::vector<TensorInfo>>;

inline constexpr int64_t kMaxExtent = int64_t{1} << 31;    // so that products of two are in 64 bits
inline constexpr int64_t kMaxElements = int64_t{1} << 48;  // of one tensor

// Errors: kNotFound: an operator that is not known, a tensor of which nothing is known, an argument that is computed;
// kInvalidArgument: arguments that do not fit each other.
Results InferResults(const OpNode& node, const std::map<std::string, TensorInfo>& tensors);

// One operator and its arguments, for the functions of shape_*.cc.
struct ShapeCall {
  const OpNode& node;
  const std::map<std::string, TensorInfo>& tensors;

  bool IsTensor(const std::string& name) const { return !node.Tensor(name).empty(); }
  absl::StatusOr<TensorInfo> Tensor(const std::string& name) const;
  absl::StatusOr<TensorInfo> Input() const;  // "self" or "input"
  absl::StatusOr<std::vector<TensorInfo>> Tensors(const std::string& name) const;
  // The argument `name`, from the first dim. Errors: none of `dims`.
  absl::StatusOr<int64_t> Dim(const std::string& name, int64_t otherwise, size_t dims) const;
  // The type that `dtype` says; `otherwise` where it is left out.
  absl::StatusOr<DType> Type(DType otherwise) const;
  // Errors: kNotFound where one of these arguments is computed.
  absl::Status CheckFixed(const std::string& name) const;
};

using ShapeRule = Results (*)(const ShapeCall& call);
using ShapeRuleTable = std::map<std::string, ShapeRule>;  // by OpNode::op

const ShapeRuleTable& PointwiseShapes();
const ShapeRuleTable& LayerShapes();
const ShapeRuleTable& ProductShapes();
const ShapeRuleTable& ViewShapes();
const ShapeRuleTable& CreatingShapes();

template <typename... Parts>
absl::Status DoesNotFit(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}
Results One(TensorInfo info);
// "[2, 3]"
std::string ShownExtents(const Extents& extents);
// As PyTorch broadcasts. Errors: kInvalidArgument.
absl::StatusOr<Extents> BroadcastOf(const Extents& a, const Extents& b);
int64_t ElementsOf(const Extents& extents);
// The type in which PyTorch puts these tensors together.
DType PromotedTypeOf(const std::vector<TensorInfo>& tensors);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SHAPE_INFERENCE_H_
