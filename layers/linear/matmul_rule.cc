// The product of two inputs, [batch, ..., m, k] and [batch or 1, ..., k, n]; dims before the last two broadcast.
//
// The first input stays as it is cut. Axes that cut a dim before the last two cut the second input alike, or not where
// its extent is 1; along axes that cut m it is whole; along those that cut k it is cut in its k, and the products are
// partial sums, added on the way to the output. An axis along which the first input is the same cuts n where Layer.y,
// on the same mesh, does so.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using Shape64 = std::vector<int64_t>;

absl::Status CheckInputs(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckFloatInputs(request));
  if (request.input.size() != 2) {
    return AtField("input[2]", InvalidSpec("matmul multiplies two inputs, but ", request.input.size(), " are named"));
  }
  const Shape64 &a = request.input[0].shape(), &b = request.input[1].shape();
  const auto refused = [&](const char* what) {
    return AtField("input[1]",
                   InvalidSpec("matmul reads [batch, ..., m, k] and [batch or 1, ..., k, n], of as many dims; ", what,
                               ": input 0 is ", ShapeText(a), ", input 1 is ", ShapeText(b)));
  };
  if (a.size() < 3 || a.size() != b.size())
    return refused("these differ in their number of dims, or have fewer than 3");
  if (a.back() != b[b.size() - 2]) return refused("k differs");
  if (a[0] != b[0] && b[0] != 1) return refused("the batches differ");
  for (size_t dim = 1; dim + 2 < a.size(); ++dim) {
    if (a[dim] != b[dim] && a[dim] != 1 && b[dim] != 1) return refused("an extent before the last two dims differs");
  }
  return absl::OkStatus();
}

Shape64 ProductShape(const Shape64& a, const Shape64& b) {
  Shape64 shape = a;
  for (size_t dim = 1; dim + 2 < a.size(); ++dim) {
    if (a[dim] == 1) shape[dim] = b[dim];
  }
  shape.back() = b.back();
  return shape;
}

// One of the three tensors on the mesh.
struct Operand {
  std::vector<Placement> placements = {};
  Layout::Cuts cuts = {};

  void Add(Placement placement, const std::vector<int64_t>& sizes = {}) {
    if (placement.kind == Placement::Kind::kSplit) cuts[placement.dim] = sizes;
    placements.push_back(placement);
  }
  absl::StatusOr<Layout> On(const Mesh& mesh, const Shape64& shape, DType dtype) const {
    return Layout::Create(shape, dtype, mesh, placements, cuts);
  }
};

struct MatmulOperands {
  Operand a, b, product, natural;  // `natural`: the product when its sums are added
};

MatmulOperands OperandsOf(const Layout& a, const Shape64& b, const std::optional<Layout>& y) {
  const Placement whole = Placement::Broadcast();
  const int last = a.dims() - 1;
  MatmulOperands all;
  const auto add = [&](Placement of_a, Placement of_b, Placement of_product, Placement natural, const Layout& sized,
                       int dim) {
    const std::vector<int64_t> sizes = dim < 0 ? std::vector<int64_t>() : PartSizes(sized, dim);
    all.a.Add(of_a, sizes);
    all.b.Add(of_b, sizes);
    all.product.Add(of_product, sizes);
    all.natural.Add(natural, sizes);
  };
  for (int axis = 0; axis < a.mesh().axes(); ++axis) {
    const Placement& placement = a.placements()[axis];
    const bool is_split = placement.kind == Placement::Kind::kSplit;
    const int dim = is_split ? placement.dim : -1;
    if (dim == last) {
      add(placement, Placement::Split(last - 1), Placement::Partial(), whole, a, dim);
    } else if (dim == last - 1) {
      add(placement, whole, placement, placement, a, dim);
    } else if (is_split && (dim == 0 || a.shape()[dim] != 1 || b[dim] == 1)) {
      add(placement, b[dim] == a.shape()[dim] ? placement : whole, placement, placement, a, dim);
    } else if (!is_split && y.has_value() && y->placements()[axis] == Placement::Split(last)) {
      add(whole, Placement::Split(last), Placement::Split(last), Placement::Split(last), *y, last);
    } else {
      add(whole, whole, whole, whole, a, -1);
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<LayerOutcome> MatmulRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckInputs(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout &a = request.input[0], &b = request.input[1];
  const Shape64 shape = ProductShape(a.shape(), b.shape());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  std::optional<Layout> y;
  if (!request.spec.y().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout named, OutputLayout(request, shape, a));
    if (named.mesh() == a.mesh()) y = std::move(named);
  }
  const MatmulOperands all = OperandsOf(a, b.shape(), y);
  ADJOIN_ASSIGN_OR_RETURN(Layout of_a, all.a.On(a.mesh(), a.shape(), a.dtype()));
  ADJOIN_ASSIGN_OR_RETURN(Layout of_b, all.b.On(a.mesh(), b.shape(), b.dtype()));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, all.product.On(a.mesh(), shape, a.dtype()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout natural, all.natural.On(a.mesh(), shape, a.dtype()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, natural));
  return LayerOutcome{.spec = request.spec,
                      .input = {InputNeed{.layout = std::move(of_a)}, InputNeed{.layout = std::move(of_b)}},
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = 2 * static_cast<double>(volume) * static_cast<double>(a.shape().back())};
}

}  // namespace adjoin
