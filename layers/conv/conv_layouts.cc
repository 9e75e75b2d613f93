#include "layers/conv/conv_layouts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using Sizes = std::vector<int64_t>;

class ConvTensors {
 public:
  ConvTensors(const LayerRequest& request, const ConvExtents& extents, const ConvGrid& grid)
      : request_(request), extents_(extents), grid_(grid) {}

  absl::StatusOr<ConvLayouts> All() const;

 private:
  // What one axis does to a tensor; `first_only`: it is on index 0 only.
  struct Along {
    Placement placement;
    bool first_only = false;
  };
  // Cuts of dims that no axis splits are left out.
  absl::StatusOr<Layout> LayoutOf(Sizes shape, DType dtype, const std::vector<Along>& along, Layout::Cuts cuts) const;
  // `cuts`: of the batch and the spatial dims.
  absl::StatusOr<Layout> Input(Sizes shape, Layout::Cuts cuts) const;
  absl::StatusOr<Layout> Product(Layout::Cuts cuts, bool first_of_sum) const;
  // `owners`: the first rank of those that have the same.
  absl::StatusOr<Layout> Weight(bool owners) const;
  absl::StatusOr<Layout> Bias(bool owners) const;
  absl::StatusOr<Layout> OutputByDefault(const Layout& compute, const Layout::Cuts& cuts) const;

  const LayerRequest& request_;
  const ConvExtents& extents_;
  const ConvGrid& grid_;
};

absl::StatusOr<Layout> ConvTensors::LayoutOf(Sizes shape, DType dtype, const std::vector<Along>& along,
                                             Layout::Cuts cuts) const {
  const Mesh& all = grid_.mesh();
  Sizes mesh_shape = all.shape();
  std::vector<Placement> placements;
  for (int axis = 0; axis < all.axes(); ++axis) {
    placements.push_back(along[axis].placement);
    if (along[axis].first_only) mesh_shape[axis] = 1;
  }
  std::vector<int> ranks;
  ranks.reserve(all.ranks().size());
  Sizes coords(all.axes(), 0);  // of the rank that is looked at: the mesh has them in row-major order
  for (const int rank : all.ranks()) {
    bool has = true;
    for (int axis = 0; axis < all.axes(); ++axis) has = has && (coords[axis] == 0 || !along[axis].first_only);
    if (has) ranks.push_back(rank);
    for (size_t axis = coords.size(); axis-- > 0 && ++coords[axis] == all.shape()[axis];) coords[axis] = 0;
  }
  for (auto cut = cuts.begin(); cut != cuts.end();) {
    const bool is_cut =
        std::find(placements.begin(), placements.end(), Placement::Split(cut->first)) != placements.end();
    cut = is_cut ? std::next(cut) : cuts.erase(cut);
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(std::move(mesh_shape), std::move(ranks)));
  return Layout::Create(std::move(shape), dtype, mesh.WithWeights(grid_.mesh().weights()), std::move(placements),
                        std::move(cuts));
}

absl::StatusOr<Layout> ConvTensors::Input(Sizes shape, Layout::Cuts cuts) const {
  std::vector<Along> along;
  for (const ConvAxis& axis : grid_.axes()) {
    switch (axis.kind) {
      case ConvAxis::Kind::kDim: along.push_back({Placement::Split(axis.dim)}); break;
      case ConvAxis::Kind::kGroup:
      case ConvAxis::Kind::kIn: along.push_back({Placement::Split(1)}); break;
      case ConvAxis::Kind::kOut:
      case ConvAxis::Kind::kCopies: along.push_back({Placement::Broadcast()}); break;
    }
  }
  cuts[1] = grid_.InputParts();
  return LayoutOf(std::move(shape), request_.input[0].dtype(), along, std::move(cuts));
}

absl::StatusOr<Layout> ConvTensors::Product(Layout::Cuts cuts, bool first_of_sum) const {
  std::vector<Along> along;
  for (int i = 0; i < grid_.mesh().axes(); ++i) {
    switch (grid_.axes()[i].kind) {
      case ConvAxis::Kind::kDim: along.push_back({Placement::Split(grid_.axes()[i].dim)}); break;
      case ConvAxis::Kind::kGroup:
      case ConvAxis::Kind::kOut: along.push_back({Placement::Split(1)}); break;
      case ConvAxis::Kind::kIn: {
        const bool sums = grid_.mesh().shape()[i] > 1 && !first_of_sum;
        along.push_back({sums ? Placement::Partial() : Placement::Broadcast(), first_of_sum});
        break;
      }
      case ConvAxis::Kind::kCopies: along.push_back({Placement::Broadcast()}); break;
    }
  }
  cuts[1] = grid_.OutputParts();
  return LayoutOf(extents_.output, request_.input[0].dtype(), along, std::move(cuts));
}

absl::StatusOr<Layout> ConvTensors::Weight(bool owners) const {
  if (grid_.HasWholeWeight()) {
    return Layout::Replicated(extents_.weight, request_.parameter_dtype, grid_.mesh().ranks());
  }
  const int out_dim = extents_.transposed ? 1 : 0;
  std::vector<Along> along;
  for (const ConvAxis& axis : grid_.axes()) {
    switch (axis.kind) {
      case ConvAxis::Kind::kGroup: along.push_back({Placement::Split(0)}); break;
      case ConvAxis::Kind::kOut: along.push_back({Placement::Split(out_dim)}); break;
      case ConvAxis::Kind::kIn: along.push_back({Placement::Split(1 - out_dim)}); break;
      case ConvAxis::Kind::kDim:
      case ConvAxis::Kind::kCopies: along.push_back({Placement::Broadcast(), owners}); break;
    }
  }
  Layout::Cuts cuts = {{0, extents_.transposed ? grid_.InputParts() : grid_.OutputParts()},
                       {1, extents_.transposed ? grid_.OutputPartsOfGroup() : grid_.InputPartsOfGroup()}};
  return LayoutOf(extents_.weight, request_.parameter_dtype, along, std::move(cuts));
}

absl::StatusOr<Layout> ConvTensors::Bias(bool owners) const {
  if (grid_.HasWholeWeight()) return Layout::Replicated({extents_.out}, request_.parameter_dtype, grid_.mesh().ranks());
  std::vector<Along> along;
  for (const ConvAxis& axis : grid_.axes()) {
    switch (axis.kind) {
      case ConvAxis::Kind::kGroup:
      case ConvAxis::Kind::kOut: along.push_back({Placement::Split(0)}); break;
      case ConvAxis::Kind::kIn: along.push_back({Placement::Broadcast(), true}); break;
      case ConvAxis::Kind::kDim:
      case ConvAxis::Kind::kCopies: along.push_back({Placement::Broadcast(), owners}); break;
    }
  }
  return LayoutOf({extents_.out}, request_.parameter_dtype, along, {{0, grid_.OutputParts()}});
}

// Cut like the input, its parts of the channels being parts of the output's; with w, on the first ranks of each sum.
absl::StatusOr<Layout> ConvTensors::OutputByDefault(const Layout& compute, const Layout::Cuts& cuts) const {
  if (grid_.Parts(ConvAxis::Kind::kIn) == 1) return compute;
  if (!request_.spec.w().empty()) return Product(cuts, /*first_of_sum=*/true);
  const Layout& x = request_.input[0];
  return Layout::Create(extents_.output, x.dtype(), x.mesh(), x.placements(), cuts);
}

absl::StatusOr<ConvLayouts> ConvTensors::All() const {
  const Layout& x = request_.input[0];
  ADJOIN_ASSIGN_OR_RETURN(const Layout named, OutputLayout(request_, extents_.output, x));
  // Parts of the input stay, and of the output become what y says, where they are as many.
  Layout::Cuts x_cuts, y_cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    const int64_t parts = grid_.Parts(ConvAxis::Kind::kDim, dim);
    if (parts > 1 && parts == x.Parts(dim)) x_cuts[dim] = PartSizes(x, dim);
    if (dim > 1 && parts > 1 && parts == named.Parts(dim) && !request_.spec.y().empty()) {
      y_cuts[dim] = PartSizes(named, dim);
    }
  }
  if (x_cuts.count(0) > 0) y_cuts[0] = x_cuts[0];
  ADJOIN_ASSIGN_OR_RETURN(Layout read, Input(x.shape(), x_cuts));
  ADJOIN_ASSIGN_OR_RETURN(Layout weight, Weight(/*owners=*/false));
  ADJOIN_ASSIGN_OR_RETURN(Layout bias, Bias(/*owners=*/false));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Product(y_cuts, /*first_of_sum=*/false));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, request_.spec.y().empty() ? OutputByDefault(compute, y_cuts) : named);
  ConvLayouts layouts{std::nullopt,       std::nullopt,      std::move(weight), std::move(bias),
                      std::move(compute), std::move(output), std::nullopt,      std::nullopt};
  if (read.placements() != layouts.compute.placements()) {
    Sizes outputs = extents_.output;
    outputs[1] = extents_.in;
    ADJOIN_ASSIGN_OR_RETURN(layouts.reader, Input(std::move(outputs), y_cuts));
  }
  if (read != x) layouts.x = std::move(read);
  if (!grid_.HasWholeWeight()) {
    ADJOIN_ASSIGN_OR_RETURN(layouts.weight_owners, Weight(/*owners=*/true));
    ADJOIN_ASSIGN_OR_RETURN(layouts.bias_owners, Bias(/*owners=*/true));
  }
  return layouts;
}

}  // namespace

absl::StatusOr<ConvLayouts> ConvLayoutsOf(const LayerRequest& request, const ConvExtents& extents,
                                          const ConvGrid& grid) {
  return ConvTensors(request, extents, grid).All();
}

}  // namespace adjoin
