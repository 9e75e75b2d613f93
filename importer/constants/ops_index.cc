// Elements that are taken by their positions.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"

namespace adjoin {
namespace {

// Positions in the storage, in row-major order of dims [begin, end) of a view, without its offset.
absl::StatusOr<std::vector<int64_t>> PositionsOf(const ConstantCall& call, const ConstantView& view, size_t begin,
                                                 size_t end) {
  ConstantView part;
  part.shape.assign(view.shape.begin() + static_cast<int64_t>(begin), view.shape.begin() + static_cast<int64_t>(end));
  part.stride.assign(view.stride.begin() + static_cast<int64_t>(begin),
                     view.stride.begin() + static_cast<int64_t>(end));
  const int64_t elements = part.Elements();
  if (elements > call.workspace.most_elements()) return call.workspace.New(DType::kInt64, part.shape).status();
  ADJOIN_RETURN_IF_ERROR(call.workspace.Count(elements));
  std::vector<int64_t> positions;
  PositionWalk walk(part);
  for (int64_t i = 0; i < elements; ++i, walk.Next()) positions.push_back(walk.position());
  return positions;
}

// A new tensor of the elements of `input` at pre + chosen + post, for all of them in this order.
ConstantResults Gathered(const ConstantCall& call, const ConstantView& input, const std::vector<int64_t>& pre,
                         const std::vector<int64_t>& chosen, const std::vector<int64_t>& post) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(input.dtype, shape));
  const double elements =
      static_cast<double>(pre.size()) * static_cast<double>(chosen.size()) * static_cast<double>(post.size());
  if (elements != static_cast<double>(result.Elements())) return NotComputed("its shapes do not fit each other");
  size_t to = 0;
  for (const int64_t first : pre) {
    for (const int64_t index : chosen) {
      for (const int64_t last : post) {
        const size_t from = static_cast<size_t>(input.offset + first + index + last);
        if (result.real()) {
          result.storage->reals[to++] = input.storage->reals[from];
        } else {
          result.storage->wholes[to++] = input.storage->wholes[from];
        }
      }
    }
  }
  return OneResult(result);
}

// Index numbers, from the first, of a dim. Errors: one is not there.
absl::StatusOr<std::vector<int64_t>> IndicesOf(const ConstantCall& call, const ConstantView& indices, int64_t extent) {
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32) {
    // x[indices] of uint8 is a mask to PyTorch, as of bool.
    return NotComputed("its indices are of ", ToString(indices.dtype), "; right would be whole numbers, of int64");
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> values, call.workspace.Wholes(indices));
  for (int64_t& value : values) {
    if (value < -extent || value >= extent) return NotComputed("it takes what its input does not have");
    value += value < 0 ? extent : 0;
  }
  return values;
}

// input[i, :, j]: tensors of indices for some dims.
ConstantResults Index(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  const auto found = call.node.arguments.find("indices");
  if (found == call.node.arguments.end()) return NotComputed("it has no indices");
  const std::vector<std::string>& names = found->second.tensors;
  if (names.size() > input.shape.size()) return NotComputed("it has more indices than its input has dims");
  std::vector<size_t> dims;
  std::vector<ConstantView> views;
  std::vector<int64_t> common;
  for (size_t d = 0; d < names.size(); ++d) {
    if (names[d].empty()) continue;
    const ConstantView* view = call.workspace.Find(names[d]);
    if (view == nullptr) return NotComputed("one of its indices is not known");
    dims.push_back(d);
    views.push_back(*view);
    ADJOIN_ASSIGN_OR_RETURN(common, BroadcastShape(common, view->shape));
  }
  if (dims.empty()) return NotComputed("it has no indices");
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < dims.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const ConstantView whole, Broadcast(views[i], common));
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IndicesOf(call, whole, input.shape[dims[i]]));
    chosen.resize(indices.size(), 0);
    for (size_t n = 0; n < indices.size(); ++n) chosen[n] += indices[n] * input.stride[dims[i]];
  }
  // What is indexed comes in its place where the dims are neighbours, and else first.
  ConstantView rest;
  const size_t before = dims.back() - dims.front() + 1 == dims.size() ? dims.front() : 0;
  for (size_t d = 0; d < input.shape.size(); ++d) {
    if (std::count(dims.begin(), dims.end(), d) > 0) continue;
    rest.shape.push_back(input.shape[d]);
    rest.stride.push_back(input.stride[d]);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> pre, PositionsOf(call, rest, 0, before));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> post, PositionsOf(call, rest, before, rest.shape.size()));
  return Gathered(call, input, pre, chosen, post);
}

ConstantResults AlongDim(const ConstantCall& call, const ConstantView& input, const ConstantView& index, int64_t dim) {
  if (input.shape.empty()) return NotComputed("its input has no dims");
  const size_t d = static_cast<size_t>(dim);
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> chosen, IndicesOf(call, index, input.shape[d]));
  for (int64_t& position : chosen) position *= input.stride[d];
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> pre, PositionsOf(call, input, 0, d));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> post, PositionsOf(call, input, d + 1, input.shape.size()));
  return Gathered(call, input, pre, chosen, post);
}
ConstantResults IndexSelect(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView index, call.Tensor("index"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  return AlongDim(call, input, index, dim);
}
ConstantResults Embedding(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView table, call.Tensor("weight"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView index, call.Tensor("indices"));
  return AlongDim(call, table, index, 0);
}

// result[i][j] = input[index[i][j]][j], along dim 0, for instance.
ConstantResults Gather(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView index, call.Tensor("index"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (input.shape.empty() || index.shape.size() != input.shape.size()) return NotComputed("its dims do not fit");
  ConstantView source = input;
  const size_t d = static_cast<size_t>(dim);
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (i != d && index.shape[i] > input.shape[i]) return NotComputed("it takes what its input does not have");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IndicesOf(call, index, input.shape[d]));
  source.shape = index.shape;
  source.stride[d] = 0;
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> chosen, PositionsOf(call, source, 0, source.shape.size()));
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] += indices[i] * input.stride[d];
  return Gathered(call, input, {0}, chosen, {0});
}

}  // namespace

const ConstantOps& IndexConstantOps() {
  static const auto* ops = new ConstantOps{
      {"embedding", {Embedding}}, {"gather", {Gather}}, {"index", {Index}}, {"index_select", {IndexSelect}}};
  return *ops;
}

}  // namespace adjoin
