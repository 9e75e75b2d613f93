// Sum, mean, variance, largest or smallest element over some dims but the batch, of an input in any layout.
//
// Each rank adds up its own part. Axes that cut a dim that is summed over hold partial sums, which are added on the way
// to the output's layout; all other axes cut the result as they cut the input. "var" first sums the mean, which every
// rank needs, and then the squares of the distances from it. For "amax" and "amin" every rank needs the result, and how
// many elements are equal to it: they share its gradient.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/reduce/reduce_roles.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr double kSumFlops = 1;       // for each element
constexpr double kVarianceFlops = 4;  // sum, subtract, square, sum
constexpr double kExtremeFlops = 5;   // compare, compare, count, subtract, sum

absl::StatusOr<std::set<int>> DimsOf(const Reduce& reduce, const Layout& x) {
  if (reduce.dim().empty()) {
    return AtField("reduce.dim", InvalidSpec("reduce.dim is missing: over which dims; [-1] is the last one"));
  }
  std::set<int> dims;
  for (int i = 0; i < reduce.dim_size(); ++i) {
    const std::string field = absl::StrCat("reduce.dim[", i, "]");
    ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(field, reduce.dim(i), x.dims()));
    if (dim == 0) {
      return AtField(field, InvalidSpec("dim 0 is the batch, whose samples stay apart; name other dims, or let a loss"
                                        " sum over samples"));
    }
    if (!dims.insert(dim).second) {
      return AtField(field, InvalidSpec("dim ", reduce.dim(i), " is named twice; leave one of them out"));
    }
  }
  return dims;
}

bool IsExtreme(const std::string& kind) { return kind == "amax" || kind == "amin"; }

absl::Status CheckKind(const Reduce& reduce) {
  const std::string& kind = reduce.kind();
  if (kind != "sum" && kind != "mean" && kind != "var" && !IsExtreme(kind)) {
    return AtField("reduce.kind", InvalidSpec("reduce.kind is ", kind.empty() ? "missing" : "\"" + kind + "\"",
                                              "; write \"sum\", \"mean\", \"var\", \"amax\" or \"amin\""));
  }
  if (!reduce.has_correction()) return absl::OkStatus();
  if (kind != "var") {
    return AtField("reduce.correction", InvalidSpec("reduce.correction is for kind \"var\"; leave it out"));
  }
  if (reduce.correction() >= 0 && reduce.correction() <= static_cast<double>(kMaxElements)) return absl::OkStatus();
  return AtField("reduce.correction", InvalidSpec("reduce.correction is ", reduce.correction(),
                                                  "; it must be a number from 0 on, 1 for an unbiased variance"));
}

// `x`, whose dims of `dims` have the extent 1, without these dims.
absl::StatusOr<Layout> WithoutDims(const Layout& x, const std::set<int>& dims) {
  std::vector<int64_t> shape;
  std::vector<int> place(x.dims(), -1);
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (dims.count(dim) > 0) continue;
    place[dim] = static_cast<int>(shape.size());
    shape.push_back(x.shape()[dim]);
  }
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    cuts[place[placement.dim]] = PartSizes(x, placement.dim);
    placement = Placement::Split(place[placement.dim]);
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> ReduceRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  Layer spec = request.spec;
  Reduce& reduce = *spec.mutable_reduce();
  ADJOIN_RETURN_IF_ERROR(CheckKind(reduce));
  ADJOIN_ASSIGN_OR_RETURN(const std::set<int> dims, DimsOf(reduce, x));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(x.shape()));
  reduce.clear_dim();
  for (int dim : dims) reduce.add_dim(dim);

  std::vector<int64_t> shape = x.shape();
  for (int dim : dims) shape[dim] = 1;
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, LayoutLike(x, shape, /*even=*/{}, dims, Placement::Partial()));
  ADJOIN_ASSIGN_OR_RETURN(Layout natural, LayoutLike(x, shape, /*even=*/{}, dims));
  std::vector<MovementNeed> movements;
  const bool variance = reduce.kind() == "var", extreme = IsExtreme(reduce.kind());
  // Sums of few bits would lose what later elements add.
  const DType sums = SizeOf(x.dtype()) < SizeOf(DType::kFloat32) ? DType::kFloat32 : x.dtype();
  if (extreme) {
    for (int dim : dims) {
      if (x.shape()[dim] > 0) continue;
      return AtField("reduce.dim", InvalidSpec("dim ", dim, " of the input, ", ShapeText(x.shape()),
                                               ", has no elements, of which none is the largest or smallest"));
    }
    ADJOIN_ASSIGN_OR_RETURN(const Layout own,
                            LayoutLike(x, shape, /*even=*/{}, dims, Placement::Partial(ReduceOp::kMax)));
    movements = {{.role = kRoleExtreme, .from = own.WithDType(sums), .to = natural.WithDType(sums), .constant = true},
                 {.role = kRoleTies, .from = compute.WithDType(sums), .to = natural.WithDType(sums), .constant = true}};
  }
  if (variance) {
    if (!reduce.has_correction()) reduce.set_correction(1);
    movements.push_back({.role = kRoleMean, .from = compute.WithDType(sums), .to = natural.WithDType(sums)});
  }
  if (!reduce.keepdim()) {
    ADJOIN_ASSIGN_OR_RETURN(compute, WithoutDims(compute, dims));
    ADJOIN_ASSIGN_OR_RETURN(natural, WithoutDims(natural, dims));
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), natural));
  return LayerOutcome{.spec = std::move(spec),
                      .input = {InputNeed{}},
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = static_cast<double>(volume) * (variance  ? kVarianceFlops
                                                              : extreme ? kExtremeFlops
                                                                        : kSumFlops),
                      .movement = std::move(movements)};
}

}  // namespace adjoin
