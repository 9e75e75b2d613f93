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
  const std::vector<int64_t>& mesh = layout.mesh().shape();
  bool partition = layout.mesh().axes() == layout.dims();
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    partition = partition && layout.placements()[axis] == Placement::Split(axis);
  }
  std::string text = partition ? absl::StrCat("partition: [", absl::StrJoin(mesh, ", "), "]") : "";
  for (int axis = 0; axis < layout.mesh().axes() && !partition; ++axis) {
    absl::StrAppend(&text, axis > 0 ? " " : "", "mesh { size: ", mesh[axis], " } sbp: \"",
                    layout.placements()[axis].ToString(), "\"");
  }
  const std::vector<int>& on = layout.mesh().ranks();
  for (size_t i = 0; i < on.size(); ++i) {
    if (on[i] == static_cast<int>(i)) continue;
    absl::StrAppend(&text, " rank: [", absl::StrJoin(on, ", "), "]");
    break;
  }
  for (int dim = 1; dim < layout.dims(); ++dim) {
    const std::vector<int64_t> sizes = PartSizes(layout, dim);
    if (sizes == BalancedSizes(layout.shape()[dim], layout.Parts(dim))) continue;
    absl::StrAppend(&text, " cut { dim: ", dim, " size: [", absl::StrJoin(sizes, ", "), "] }");
  }
  return text;
}

// Where x is moved to. The layout that y names, where x can be cut like that, needs no second movement.
absl::StatusOr<Layout> MovedTo(const LayerRequest& request, const std::vector<int64_t>& shape) {
  const Layout& x = request.input[0];
  if (!request.spec.y().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(request, shape, x));
    auto like_y = Reshaped(y, x.shape());
    if (like_y.ok() && Reshaped(*like_y, shape).ok()) return like_y;
  }
  return Reshapeable(x, shape);
}

}  // namespace

absl::StatusOr<LayerOutcome> ReshapeTo(const LayerRequest& request, const std::vector<int64_t>& shape, Layer spec) {
  const Layout& x = request.input[0];
  auto compute = Reshaped(x, shape);
  InputNeed need;
  if (!compute.ok()) {
    if (request.spec.x_size() > 0 && !request.spec.x(0).empty()) {
      ADJOIN_ASSIGN_OR_RETURN(const Layout possible, Reshapeable(x, shape));
      return AtField("x[0]", InvalidSpec("from ", ShapeText(x.shape()), " to ", ShapeText(shape), ", ",
                                         compute.status().message(), ". Leave x out, so that an input that is a",
                                         " layer's is moved, or let it name a layout such as ", LayoutText(possible)));
    }
    ADJOIN_ASSIGN_OR_RETURN(need.layout, MovedTo(request, shape));
    compute = Reshaped(*need.layout, shape);
    if (!compute.ok()) return compute.status();
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, *compute));
  return LayerOutcome{
      .spec = std::move(spec), .input = {std::move(need)}, .compute = *std::move(compute), .output = std::move(output)};
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
  auto outcome = ReshapeTo(request, *shape, std::move(spec));
  if (!outcome.ok() && FieldOf(outcome.status()).empty()) return AtField("reshape", outcome.status());
  return outcome;
}

}  // namespace adjoin
