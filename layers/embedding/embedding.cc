// torch.nn.Embedding.
//
// Local shapes: x [...] of int64, y [..., columns of this rank]; where the table's rows are cut, y is a partial sum
// over the ranks along them, which the role "y" adds up. An index that the table does not have is an error of each rank
// that has it (kOutOfRange, from Forward). The padding vector gets no gradient. It can be differentiated any number of
// times. Errors: kInvalidArgument where the plan's layouts are none.
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr int64_t kNoPadding = -1;  // as at::embedding has it

class EmbeddingLayer : public LayerModule {
 public:
  // `rows`: of the table, on this rank. `indices`: which this rank looks up.
  EmbeddingLayer(LayerContext context, Interval rows, Box indices, at::ScalarType dtype)
      : LayerModule(std::move(context)), rows_(rows), indices_(std::move(indices)), dtype_(dtype) {}

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    const Tensor weight = Parameter(kRoleWeight, tape);
    // The gradient of a row is a sum over all positions that look it up: it is added up in the table's own type.
    return Output(Lookup(Checked(x), weight).to(dtype_), tape);
  }

 private:
  int64_t num_embeddings() const { return spec().embedding().num_embeddings(); }

  // Returns x; where the error comes later, 0 in the place of what the table does not have.
  Tensor Checked(const Tensor& x) const {
    const Tensor bad = (x < 0) | (x >= num_embeddings());
    checks().Refuse(bad.any(), [this, x, bad] {
      const int64_t first = bad.flatten().nonzero()[0].item<int64_t>();
      return absl::OutOfRangeError(absl::StrCat(
          "layer \"", context().plan.name(), "\" on rank ", context().rank, ": index ",
          x.flatten()[first].item<int64_t>(), " at [", absl::StrJoin(indices_.CellAt(first), ", "),
          "] of its input; with num_embeddings ", num_embeddings(), ", 0 to ", num_embeddings() - 1, " are possible"));
    });
    return x.is_cpu() ? x : x.masked_fill(bad, 0);
  }

  Tensor Lookup(const Tensor& x, const Tensor& weight) const {
    if (rows_.size() == num_embeddings() && runs_here()) return Rows(weight, x);
    if (!x.is_cpu()) return LookupOnDevice(x, weight);
    const Tensor flat = x.flatten();
    const Tensor mine = ((flat >= rows_.lo) & (flat < rows_.hi)).nonzero().flatten();
    const Tensor none = at::zeros(context().compute_shape, weight.options());
    // The table stays in the graph of a rank that looks up nothing.
    if (mine.numel() == 0 || !runs_here()) return none + EmptyResult({0}, {weight}).sum();
    const Tensor found = Rows(weight, flat.index_select(0, mine) - rows_.lo);
    return none.flatten(0, -2).index_copy(0, mine, found).reshape(context().compute_shape);
  }

  // The same, without a tensor whose extent the host would wait for.
  Tensor LookupOnDevice(const Tensor& x, const Tensor& weight) const {
    if (rows_.empty() || !runs_here()) {
      return at::zeros(context().compute_shape, weight.options()) + EmptyResult({0}, {weight}).sum();
    }
    const Tensor mine = (x >= rows_.lo) & (x < rows_.hi);
    const Tensor found = Rows(weight, (x - rows_.lo).masked_fill(mine.logical_not(), 0));
    return found.masked_fill(mine.logical_not().unsqueeze(-1), 0).reshape(context().compute_shape);
  }

  // `places`: in this rank's rows.
  Tensor Rows(const Tensor& weight, const Tensor& places) const {
    const Embedding& embedding = spec().embedding();
    const bool here = embedding.has_padding_index() && rows_.Contains(embedding.padding_index());
    return at::embedding(weight, places, here ? embedding.padding_index() - rows_.lo : kNoPadding);
  }

  const Interval rows_;
  const Box indices_;
  const at::ScalarType dtype_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildEmbedding(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(context.plan.compute()));
  if (context.plan.reading_size() != 1) return absl::InvalidArgumentError("the plan does not say how the table is cut");
  ADJOIN_ASSIGN_OR_RETURN(const Layout table, LayoutFromProto(context.plan.reading(0).reader()));
  const Box vectors = compute.BoxOf(context.rank);
  std::vector<Interval> indices;
  for (int dim = 0; dim + 1 < vectors.dims(); ++dim) indices.push_back(vectors[dim]);
  const Interval rows = table.BoxOf(context.rank)[0];
  return std::make_unique<EmbeddingLayer>(std::move(context), rows, Box(std::move(indices)),
                                          ScalarTypeOf(compute.dtype()));
}

}  // namespace adjoin
