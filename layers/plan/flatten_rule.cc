#include "layers/plan/flatten_rule.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

struct Merge {
  int first = 1;
  int last = 1;
};

absl::StatusOr<Merge> MergeOf(const Shape& spec, int dims) {
  if (spec.arg_size() > 2) {
    return AtField("arg", InvalidSpec("flatten has at most two arguments, the first and the last dim; ",
                                      spec.arg_size(), " are given"));
  }
  int64_t first = spec.arg_size() > 0 ? spec.arg(0) : 1;
  int64_t last = spec.arg_size() > 1 ? spec.arg(1) : -1;
  for (int64_t* dim : {&first, &last}) {
    if (*dim < -dims || *dim >= dims) {
      return AtField("arg", InvalidSpec("flatten names dim ", *dim, " of an input of ", dims, " dims; ", -dims, " to ",
                                        dims - 1, " are possible"));
    }
    if (*dim < 0) *dim += dims;
  }
  if (first > last) return AtField("arg", InvalidSpec("flatten's first dim ", first, " comes after its last, ", last));
  return Merge{static_cast<int>(first), static_cast<int>(last)};
}

// The merged dim whose cuts become those of the result; `first` where none is. -1 where the parts would not be runs.
int CutDim(const Layout& x, Merge merge) {
  int cut = -1;
  bool one_element = true;  // of all merged dims so far
  for (int dim = merge.first; dim <= merge.last; ++dim) {
    if (x.Parts(dim) > 1) {
      if (cut >= 0 || !one_element) return -1;
      cut = dim;
    }
    one_element = one_element && x.shape()[dim] == 1;
  }
  return cut < 0 ? merge.first : cut;
}

// What would make the flatten local: all cuts of the merged dims moved to the first one.
std::string Advice(const Layout& x, Merge merge) {
  std::vector<int64_t> partition(x.dims(), 1);
  std::vector<int64_t> cut;
  for (int dim = 0; dim < x.dims(); ++dim) {
    const bool merged = dim >= merge.first && dim <= merge.last;
    partition[merged ? merge.first : dim] *= x.Parts(dim);
    if (merged && x.Parts(dim) > 1) cut.push_back(dim);
  }
  return absl::StrCat("flatten merges dims ", merge.first, " to ", merge.last, ", and its input is cut in dim ",
                      absl::StrJoin(cut, ", "), ", which would move data: only dim ", merge.first,
                      " may be cut. Put a layer with repartition {} before it, with y a layout such as partition: [",
                      absl::StrJoin(partition, ", "), "]");
}

absl::StatusOr<Layout> Flattened(const Layout& x, Merge merge, int cut_dim) {
  const int removed = merge.last - merge.first;
  std::vector<int64_t> shape(x.shape().begin(), x.shape().begin() + merge.first);
  const std::vector<int64_t> merged(x.shape().begin() + merge.first, x.shape().begin() + merge.last + 1);
  shape.push_back(VolumeOf(merged));
  shape.insert(shape.end(), x.shape().begin() + merge.last + 1, x.shape().end());
  // One axis for the merged dim: [1, 2, 1, 1] becomes [1, 2]. Which one it is, of several of one rank, does not matter.
  std::vector<int64_t> mesh_shape;
  std::vector<Placement> placements;
  bool merged_axis = false;
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    Placement placement = x.placements()[axis];
    const bool split = placement.kind == Placement::Kind::kSplit;
    if (split && placement.dim >= merge.first && placement.dim <= merge.last) {
      if (x.mesh().shape()[axis] == 1 && (merged_axis || x.Parts(cut_dim) > 1)) continue;
      merged_axis = true;
      placement.dim = merge.first;
    } else if (split && placement.dim > merge.last) {
      placement.dim -= removed;
    }
    mesh_shape.push_back(x.mesh().shape()[axis]);
    placements.push_back(placement);
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(std::move(mesh_shape), x.mesh().ranks()));
  // Each part of the cut dim carries all elements of the dims inside it.
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    const bool inside = dim >= merge.first && dim <= merge.last;
    if (x.Parts(dim) == 1 || (inside && dim != cut_dim)) continue;
    const int64_t scale =
        inside ? VolumeOf(std::vector<int64_t>(x.shape().begin() + dim + 1, x.shape().begin() + merge.last + 1)) : 1;
    std::vector<int64_t> sizes = PartSizes(x, dim);
    for (int64_t& size : sizes) size *= scale;
    cuts[dim <= merge.first ? dim : inside ? merge.first : dim - removed] = std::move(sizes);
  }
  return Layout::Create(std::move(shape), x.dtype(), std::move(mesh), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<LayerOutcome> FlattenRule::Apply(const LayerRequest& request) const {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  if (x.dims() < 1) return AtField("input", InvalidSpec("its input is a single number; there is nothing to flatten"));
  auto merge = MergeOf(request.spec.flatten(), x.dims());
  if (!merge.ok()) return AtField("flatten", merge.status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  const int cut_dim = CutDim(x, *merge);
  if (cut_dim < 0) return AtField("flatten", InvalidSpec(Advice(x, *merge)));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, Flattened(x, *merge, cut_dim));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), compute));
  Layer spec = request.spec;
  spec.mutable_flatten()->clear_arg();
  spec.mutable_flatten()->add_arg(merge->first);
  spec.mutable_flatten()->add_arg(merge->last);
  return LayerOutcome{std::move(spec), {InputNeed{}}, {}, std::move(compute), std::move(output), 0};
}

}  // namespace adjoin
