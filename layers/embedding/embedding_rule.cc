// torch.nn.Embedding of int64 indices [...]: vectors [..., dim] of a table [num_embeddings, dim].
//
// With w, a layout of the table: indices go to the ranks of w, the same for all parts of the table. Along axes that cut
// its rows each rank looks up those that it has, zeros standing for the others: partial sums, which y adds up. Along
// axes that cut its columns the vectors are cut. Axes along which w is the same (B) cut the batch, or what the input
// cuts along them. Absent y: along rows cut as the input is where that is on the same mesh, else the same on all ranks.
//
// Without w, every rank has the table, or of its columns what y cuts along axes of the same mesh along which the input
// is the same. Absent y: cut like the input.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

constexpr int kRows = 0, kColumns = 1;  // dims of the table

absl::Status CheckInput(const LayerRequest& request) {
  if (request.input.size() != 1) {
    return AtField("input", InvalidSpec("it reads one input, but ", request.input.size(), " are named"));
  }
  const DType dtype = request.input[0].dtype();
  if (dtype == DType::kInt64) return absl::OkStatus();
  return AtField("input",
                 InvalidSpec("its input has the type ", ToString(dtype),
                             "; it reads indices: a field with dtype: \"int64\", or a layer that returns such"));
}

absl::Status CheckSpec(Embedding& embedding) {
  if (embedding.num_embeddings() < 1) {
    return AtField("embedding.num_embeddings",
                   InvalidSpec("embedding.num_embeddings is ", embedding.num_embeddings(), "; it must be at least 1"));
  }
  if (embedding.dim() < 1) {
    return AtField("embedding.dim", InvalidSpec("embedding.dim is ", embedding.dim(), "; it must be at least 1"));
  }
  auto volume = CheckedVolume({embedding.num_embeddings(), embedding.dim()});
  if (!volume.ok()) return AtField("embedding", volume.status());
  if (!embedding.has_padding_index()) return absl::OkStatus();
  const int64_t rows = embedding.num_embeddings();
  if (embedding.padding_index() < -rows || embedding.padding_index() >= rows) {
    return AtField("embedding.padding_index",
                   InvalidSpec("embedding.padding_index is ", embedding.padding_index(), "; ", -rows, " to ", rows - 1,
                               " are possible, negative ones counted from the end"));
  }
  if (embedding.padding_index() < 0) embedding.set_padding_index(embedding.padding_index() + rows);
  return absl::OkStatus();
}

// Those of x's cuts that suit these placements of the same dims.
Layout::Cuts CutsAsIn(const Layout& x, const Mesh& mesh, const std::vector<Placement>& placements) {
  std::vector<int64_t> parts(x.dims(), 1);
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const Placement& placement = placements[axis];
    if (placement.kind == Placement::Kind::kSplit && placement.dim < x.dims()) {
      parts[placement.dim] *= mesh.shape()[axis];
    }
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (parts[dim] > 1 && parts[dim] == x.Parts(dim)) cuts[dim] = PartSizes(x, dim);
  }
  return cuts;
}

// Where the ranks read the table.
absl::StatusOr<Layout> TableOf(const LayerRequest& request, const std::vector<int64_t>& shape) {
  const Layout& x = request.input[0];
  if (!request.spec.w().empty()) {
    auto table = request.layouts.Resolve(request.spec.w(), shape, request.parameter_dtype);
    return table.ok() ? table : AtField("w", table.status());
  }
  std::vector<Placement> placements(x.mesh().axes(), Placement::Broadcast());
  Layout::Cuts cuts;
  if (!request.spec.y().empty()) {
    std::vector<int64_t> output = x.shape();
    output.push_back(shape[kColumns]);
    ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(request, output, x));
    const std::vector<int> axes = y.AxesOf(x.dims());
    const auto same = [&](int axis) { return x.placements()[axis].kind == Placement::Kind::kBroadcast; };
    if (!axes.empty() && y.mesh() == x.mesh() && std::all_of(axes.begin(), axes.end(), same)) {
      for (int axis : axes) placements[axis] = Placement::Split(kColumns);
      cuts[kColumns] = PartSizes(y, x.dims());
    }
  }
  return Layout::Create(shape, request.parameter_dtype, x.mesh(), std::move(placements), std::move(cuts));
}

struct Ends {
  Layout indices;
  Layout compute;
  Layout output;  // where the job has no y
};

absl::StatusOr<Ends> EndsOf(const LayerRequest& request, const Layout& table) {
  const Layout& x = request.input[0];
  const Mesh& mesh = table.mesh();
  const int vector_dim = x.dims();
  std::vector<Placement> indices, compute, output;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const bool cut_in_x = x.mesh() == mesh && x.placements()[axis].kind == Placement::Kind::kSplit;
    const Placement as_x = cut_in_x ? x.placements()[axis] : Placement::Broadcast();
    if (table.placements()[axis] == Placement::Split(kRows)) {
      indices.push_back(Placement::Broadcast());
      compute.push_back(Placement::Partial());
      output.push_back(as_x);
    } else if (table.placements()[axis] == Placement::Split(kColumns)) {
      indices.push_back(Placement::Broadcast());
      compute.push_back(Placement::Split(vector_dim));
      output.push_back(Placement::Split(vector_dim));
    } else {
      // All that the same table is for: other samples.
      const Placement placement = cut_in_x || request.spec.w().empty() ? as_x : Placement::Split(0);
      for (auto* placements : {&indices, &compute, &output}) placements->push_back(placement);
    }
  }
  std::vector<int64_t> shape = x.shape();
  shape.push_back(table.shape()[kColumns]);
  const auto with_vectors = [&](std::vector<Placement> placements) {
    Layout::Cuts cuts = CutsAsIn(x, mesh, placements);
    if (!table.AxesOf(kColumns).empty()) cuts[vector_dim] = PartSizes(table, kColumns);
    return Layout::Create(shape, request.compute_dtype, mesh, std::move(placements), std::move(cuts));
  };
  ADJOIN_ASSIGN_OR_RETURN(Layout of_indices,
                          Layout::Create(x.shape(), x.dtype(), mesh, indices, CutsAsIn(x, mesh, indices)));
  ADJOIN_ASSIGN_OR_RETURN(Layout of_compute, with_vectors(std::move(compute)));
  ADJOIN_ASSIGN_OR_RETURN(Layout of_output, with_vectors(std::move(output)));
  return Ends{std::move(of_indices), std::move(of_compute), std::move(of_output)};
}

// torch.nn.Embedding's.
Init InitOf(const Embedding& embedding) {
  Init init;
  init.set_kind(embedding.has_padding_index() ? "normal_with_padding" : "normal");
  if (embedding.has_padding_index()) init.set_value(static_cast<double>(embedding.padding_index()));
  return init;
}

}  // namespace

absl::StatusOr<LayerOutcome> EmbeddingRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckInput(request));
  Layer spec = request.spec;
  Embedding& embedding = *spec.mutable_embedding();
  ADJOIN_RETURN_IF_ERROR(CheckSpec(embedding));
  std::vector<int64_t> shape = request.input[0].shape();
  shape.push_back(embedding.dim());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t volume, CheckedVolume(shape));
  ADJOIN_ASSIGN_OR_RETURN(Layout table, TableOf(request, {embedding.num_embeddings(), embedding.dim()}));
  ADJOIN_ASSIGN_OR_RETURN(Ends ends, EndsOf(request, table));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, ends.output));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(spec, table, table, table.mesh().ranks()));
  ParameterNeed weight{.role = kRoleWeight, .home = std::move(home), .needed = table};
  weight.init = InitOf(embedding);
  InputNeed indices{.layout = std::move(ends.indices)};
  // From there the builder knows which rows a rank has.
  indices.reader = std::move(table);
  // Each number of the result is copied once.
  return LayerOutcome{.spec = std::move(spec),
                      .input = {std::move(indices)},
                      .parameter = {std::move(weight)},
                      .compute = std::move(ends.compute),
                      .output = std::move(output),
                      .flops = static_cast<double>(volume)};
}

}  // namespace adjoin
