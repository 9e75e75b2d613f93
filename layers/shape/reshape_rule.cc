#include "layers/shape/reshape_rule.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reshape.h"

namespace adjoin {
namespace {

// The new shape, the batch in front.
absl::StatusOr<std::vector<int64_t>> ShapeOf(const Shape& spec, const Layout& x) {
  ADJOIN_RETURN_IF_ERROR(AtField("arg", CheckDims(spec.arg_size() + 1)));
  std::vector<int64_t> shape = {x.shape()[0]};
  int64_t wanted = 1, known = 1;  // elements of a sample
  for (int dim = 1; dim < x.dims(); ++dim) wanted *= x.shape()[dim];
  int inferred = -1;
  for (int i = 0; i < spec.arg_size(); ++i) {
    const int64_t extent = spec.arg(i);
    if (extent < -1 || (extent == -1 && inferred >= 0)) {
      return AtField(absl::StrCat("arg[", i, "]"),
                     InvalidSpec("extent ", extent, " of the new shape; extents are 0 or more, and one may be -1, what",
                                 " the others leave"));
    }
    if (extent == -1) inferred = i;
    // Beyond any tensor, before the product overflows.
    known = extent == -1 ? known : extent > 0 && known > kMaxElements / extent ? -1 : known * extent;
    if (known < 0) break;
    shape.push_back(extent);
  }
  const bool fits = inferred < 0 ? known == wanted : known > 0 && wanted % known == 0;
  if (!fits) {
    return AtField("arg", InvalidSpec("the shape ", absl::StrJoin(spec.arg(), "x"), ", which leaves out the batch, is",
                                      " not one of ", wanted, " elements; a sample of the input, of shape ",
                                      ShapeText(x.shape()), " with the batch, has so many"));
  }
  if (inferred >= 0) shape[inferred + 1] = wanted / known;
  return shape;
}

// A layout as a job writes it. Without cuts of the batch, whose size differs between programs.
std::string LayoutText(const Layout& layout) {
  std::vector<int64_t> partition;
  std::string cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    partition.push_back(layout.Parts(dim));
    if (dim == 0) continue;
    const std::vector<int64_t> sizes = PartSizes(layout, dim);
    if (sizes == BalancedSizes(layout.shape()[dim], layout.Parts(dim))) continue;
    absl::StrAppend(&cuts, " cut { dim: ", dim, " size: [", absl::StrJoin(sizes, ", "), "] }");
  }
  std::string ranks;
  const std::vector<int>& on = layout.mesh().ranks();
  for (size_t i = 0; i < on.size() && ranks.empty(); ++i) {
    if (on[i] != static_cast<int>(i)) ranks = absl::StrCat(" rank: [", absl::StrJoin(on, ", "), "]");
  }
  return absl::StrCat("partition: [", absl::StrJoin(partition, ", "), "]", ranks, cuts);
}

}  // namespace

absl::StatusOr<LayerOutcome> LocalReshape(const LayerRequest& request, const std::vector<int64_t>& shape, Layer spec) {
  const Layout& x = request.input[0];
  auto compute = Reshaped(x, shape);
  if (!compute.ok()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout possible, Reshapeable(x, shape));
    return InvalidSpec("from ", ShapeText(x.shape()), " to ", ShapeText(shape), ", ", compute.status().message(),
                       ", which would move data. Put a layer with repartition {} before it, with y a layout such as ",
                       LayoutText(possible));
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, *compute));
  return LayerOutcome{
      .spec = std::move(spec), .input = {InputNeed{}}, .compute = *std::move(compute), .output = std::move(output)};
}

absl::StatusOr<LayerOutcome> ReshapeRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 1) return AtField("input", InvalidSpec("its input is a single number; there is no batch to keep"));
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  auto shape = ShapeOf(request.spec.reshape(), x);
  if (!shape.ok()) return AtField("reshape", shape.status());
  ADJOIN_RETURN_IF_ERROR(AtField("reshape", CheckedVolume(*shape).status()));
  Layer spec = request.spec;
  for (int i = 0; i < spec.reshape().arg_size(); ++i) spec.mutable_reshape()->set_arg(i, (*shape)[i + 1]);
  auto outcome = LocalReshape(request, *shape, std::move(spec));
  if (!outcome.ok() && FieldOf(outcome.status()).empty()) return AtField("reshape", outcome.status());
  return outcome;
}

}  // namespace adjoin
