// Views, copies, and tensors that are put together.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"

namespace adjoin {
namespace {

absl::StatusOr<ConstantView> InputOf(const ConstantCall& call) {
  return call.Tensor(call.node.Has("self") ? "self" : "input");
}

// The strides of a view with another shape of as many elements; none where the elements lie otherwise.
std::optional<std::vector<int64_t>> StridesOfView(const ConstantView& from, const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size(), 1);
  if (from.Elements() == 0 || from.shape.empty()) return RowMajorStrides(shape);
  int64_t to = static_cast<int64_t>(shape.size()) - 1, base = from.stride.back(), elements = 1, made = 1;
  for (size_t d = from.shape.size(); d-- > 0;) {
    elements *= from.shape[d];
    // Goes on while the next dim's elements follow those of this one.
    if (d > 0 && (from.shape[d - 1] == 1 || from.stride[d - 1] == elements * base)) continue;
    while (to >= 0 && (made < elements || shape[static_cast<size_t>(to)] == 1)) {
      stride[static_cast<size_t>(to)] = made * base;
      made *= shape[static_cast<size_t>(to--)];
    }
    if (made != elements) return std::nullopt;
    if (d > 0) base = from.stride[d - 1];
    elements = made = 1;
  }
  return to == -1 ? std::optional<std::vector<int64_t>>(std::move(stride)) : std::nullopt;
}

absl::StatusOr<ConstantView> WithShape(const ConstantCall& call, const ConstantView& input,
                                       const std::vector<int64_t>& shape) {
  ConstantView result = input;
  result.shape = shape;
  if (result.Elements() != input.Elements()) return NotComputed("its result has another number of elements");
  if (std::optional<std::vector<int64_t>> stride = StridesOfView(input, shape)) {
    result.stride = *std::move(stride);
    return result;
  }
  ADJOIN_ASSIGN_OR_RETURN(result, call.workspace.Converted(input, input.dtype));
  result.shape = shape;
  result.stride = RowMajorStrides(shape);
  return result;
}

// view, flatten, squeeze, ...: the result's shape tells all.
ConstantResults Reshaped(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  double elements = 1;  // exact as far as a constant may go
  for (const int64_t extent : shape) elements *= static_cast<double>(extent);
  if (elements != static_cast<double>(input.Elements()))
    return NotComputed("its result has another number of elements");
  return OneResult(WithShape(call, input, shape));
}

ConstantResults Same(const ConstantCall& call) { return OneResult(InputOf(call)); }

ConstantResults Copied(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  return OneResult(call.workspace.Converted(input, input.dtype));
}

ConstantResults Contiguous(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  return input.stride == RowMajorStrides(input.shape) ? OneResult(input) : Copied(call);
}

ConstantResults Typed(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  const bool copies = call.node.op == "_to_copy" || call.node.Bool("copy", false);
  return input.dtype == dtype && !copies ? OneResult(input) : OneResult(call.workspace.Converted(input, dtype));
}

// copy_: the second argument, in the first one's type and shape.
ConstantResults Source(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView source, call.Tensor("src"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(input.dtype, input.shape));
  ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(source, result));
  return OneResult(result);
}

ConstantResults Permuted(const ConstantView& input, const std::vector<int64_t>& order) {
  ConstantView result = input;
  for (size_t i = 0; i < order.size(); ++i) {
    result.shape[i] = input.shape[static_cast<size_t>(order[i])];
    result.stride[i] = input.stride[static_cast<size_t>(order[i])];
  }
  return OneResult(result);
}

ConstantResults Permute(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  std::vector<int64_t> order = call.node.Ints("dims"), sorted;
  for (int64_t& dim : order) dim += dim < 0 ? input.dims() : 0;
  sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(input.shape.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return NotComputed("its dims are not those of its input");
  return Permuted(input, order);
}

ConstantResults Swapped(const ConstantCall& call, const char* first, const char* second) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  std::vector<int64_t> order(input.shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() < 2) return OneResult(input);
  ADJOIN_ASSIGN_OR_RETURN(const int64_t a, call.Dim(first, -2, input.dims()));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t b, call.Dim(second, -1, input.dims()));
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return Permuted(input, order);
}
ConstantResults Transpose(const ConstantCall& call) { return Swapped(call, "dim0", "dim1"); }
// x.T: all dims in the other order.
ConstantResults Reversed(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  std::vector<int64_t> order(input.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  return Permuted(input, order);
}
ConstantResults SwapAxes(const ConstantCall& call) { return Swapped(call, "axis0", "axis1"); }

ConstantResults Expanded(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  return OneResult(Broadcast(input, shape));
}

// Elements begin, begin + step, ... of one dim: `count` of them. Errors: one of them is not there.
absl::StatusOr<ConstantView> Part(const ConstantView& input, int64_t dim, int64_t begin, int64_t count, int64_t step) {
  ConstantView result = input;
  const size_t d = static_cast<size_t>(dim);
  if (d >= input.shape.size() || begin < 0 || count < 0 || step < 1 || begin > input.shape[d] ||
      (count > 0 && (begin >= input.shape[d] || (count - 1) > (input.shape[d] - 1 - begin) / step))) {
    return NotComputed("it takes what its input does not have");
  }
  result.offset += count == 0 ? 0 : begin * input.stride[d];
  result.shape[d] = count;
  result.stride[d] = count > 1 ? input.stride[d] * step : input.stride[d];
  return result;
}

// A part of which the program gives start, end and step.
absl::StatusOr<ConstantView> Range(const ConstantCall& call, const ConstantView& input) {
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (input.shape.empty()) return NotComputed("its input has no dims");
  const int64_t extent = input.shape[static_cast<size_t>(dim)], step = call.node.Int("step", 1);
  if (step < 1) return NotComputed("its step must be 1 or more");
  const auto position = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent); };
  const int64_t begin = position(call.node.Int("start", 0)), end = position(call.node.Int("end", INT64_MAX));
  return Part(input, dim, begin, end <= begin ? 0 : (end - begin - 1) / step + 1, step);
}
ConstantResults Sliced(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  return OneResult(Range(call, input));
}
ConstantResults Narrowed(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (input.shape.empty() || !call.IsNumber("start")) return NotComputed("its start is no number");
  const int64_t start = call.node.Int("start", 0);
  return OneResult(Part(input, dim, start < 0 ? start + input.shape[static_cast<size_t>(dim)] : start,
                        call.node.Int("length", 0), 1));
}

absl::StatusOr<ConstantView> Element(const ConstantView& input, int64_t dim, int64_t index) {
  if (input.shape.empty()) return NotComputed("its input has no dims");
  ADJOIN_ASSIGN_OR_RETURN(ConstantView result, Part(input, dim, index, 1, 1));
  result.shape.erase(result.shape.begin() + dim);
  result.stride.erase(result.stride.begin() + dim);
  return result;
}
absl::StatusOr<ConstantView> Selection(const ConstantCall& call, const ConstantView& input) {
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (input.shape.empty()) return NotComputed("its input has no dims");
  const int64_t index = call.node.Int("index", 0);
  return Element(input, dim, index < 0 ? index + input.shape[static_cast<size_t>(dim)] : index);
}
ConstantResults Selected(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  return OneResult(Selection(call, input));
}

// A copy of the input with other elements in a part of it.
ConstantResults Scattered(const ConstantCall& call,
                          absl::StatusOr<ConstantView> (*part)(const ConstantCall&, const ConstantView&)) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView source, call.Tensor("src"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.Converted(input, input.dtype));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView target, part(call, result));
  ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(source, target));
  return OneResult(result);
}
ConstantResults SliceScattered(const ConstantCall& call) { return Scattered(call, Range); }
ConstantResults SelectScattered(const ConstantCall& call) { return Scattered(call, Selection); }

ConstantResults Unbound(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  std::vector<ConstantView> results;
  for (size_t i = 0; i < call.node.outputs.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(ConstantView one, Element(input, dim, static_cast<int64_t>(i)));
    results.push_back(std::move(one));
  }
  return results;
}

// split, chunk.
ConstantResults Split(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (input.shape.empty()) return NotComputed("its input has no dims");
  const int64_t extent = input.shape[static_cast<size_t>(dim)];
  std::vector<int64_t> lengths = call.node.Ints("split_sizes", call.node.Ints("split_size"));
  if (call.node.Has("chunks")) {
    const int64_t chunks = call.node.Int("chunks", 1);
    if (chunks < 1) return NotComputed("it has ", chunks, " parts");
    lengths = {extent / chunks + (extent % chunks != 0 ? 1 : 0)};
  }
  std::vector<ConstantView> results;
  int64_t begin = 0;
  for (size_t i = 0; i < call.node.outputs.size(); ++i) {
    if (lengths.empty() || (lengths.size() > 1 && i >= lengths.size())) return NotComputed("it has too few lengths");
    const int64_t length = std::min(lengths.size() == 1 ? lengths[0] : lengths[i], extent - begin);
    ADJOIN_ASSIGN_OR_RETURN(ConstantView part, Part(input, dim, begin, length, 1));
    results.push_back(std::move(part));
    begin += length;
  }
  return results;
}

ConstantResults Joined(const ConstantCall& call, std::vector<ConstantView> inputs, int64_t dim) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  int64_t begin = 0;
  for (const ConstantView& input : inputs) {
    if (input.shape == std::vector<int64_t>{0} && shape.size() > 1) continue;  // PyTorch takes it for nothing
    if (input.shape.size() != shape.size() || dim >= input.dims())
      return NotComputed("its shapes do not fit each other");
    const int64_t length = input.shape[static_cast<size_t>(dim)];
    ADJOIN_ASSIGN_OR_RETURN(const ConstantView part, Part(result, dim, begin, length, 1));
    if (part.shape != input.shape) return NotComputed("its shapes do not fit each other");
    ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(input, part));
    begin += length;
  }
  if (shape.empty() || begin != shape[static_cast<size_t>(dim)]) return NotComputed("its shapes do not fit each other");
  return OneResult(result);
}
ConstantResults Concatenated(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ConstantView> inputs, call.Tensors("tensors"));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, static_cast<int64_t>(shape.size())));
  return Joined(call, std::move(inputs), dim);
}
ConstantResults Stacked(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ConstantView> inputs, call.Tensors("tensors"));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, static_cast<int64_t>(shape.size())));
  for (ConstantView& input : inputs) {
    if (input.dims() < dim) return NotComputed("its shapes do not fit each other");
    input.shape.insert(input.shape.begin() + dim, 1);
    input.stride.insert(input.stride.begin() + dim, 0);
  }
  return Joined(call, std::move(inputs), dim);
}

ConstantResults Repeated(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  std::vector<int64_t> repeats = call.node.Ints("repeats");
  if (repeats.size() != shape.size() || repeats.size() < input.shape.size())
    return NotComputed("it has too few repeats");
  // As [repeats0, extent0, repeats1, extent1, ...], of which the repeats have a stride of 0.
  ConstantView both = input;
  both.shape.clear();
  both.stride.clear();
  const size_t added = shape.size() - input.shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t extent = i < added ? 1 : input.shape[i - added];
    int64_t product = 0;
    if (repeats[i] < 0 || __builtin_mul_overflow(repeats[i], extent, &product) || product != shape[i]) {
      return NotComputed("its shapes do not fit each other");
    }
    both.shape.insert(both.shape.end(), {repeats[i], extent});
    both.stride.insert(both.stride.end(), {0, i < added ? 0 : input.stride[i - added]});
  }
  ADJOIN_ASSIGN_OR_RETURN(ConstantView result, call.workspace.New(input.dtype, shape));
  ConstantView target = result;
  target.shape = both.shape;
  target.stride = RowMajorStrides(both.shape);
  ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(both, target));
  return OneResult(result);
}

// Each element `repeats` times behind each other.
ConstantResults Interleaved(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantView input, InputOf(call));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  if (!call.IsNumber("repeats")) return NotComputed("its repeats are no number");
  if (!call.node.Has("dim")) {
    ADJOIN_ASSIGN_OR_RETURN(input, WithShape(call, input, {input.Elements()}));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  if (shape.size() != input.shape.size() || shape.empty()) return NotComputed("its shapes do not fit each other");
  const int64_t repeats = call.node.Int("repeats", 1);
  ConstantView both = input;
  both.shape.insert(both.shape.begin() + dim + 1, repeats);
  both.stride.insert(both.stride.begin() + dim + 1, 0);
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(input.dtype, shape));
  ConstantView target = result;
  target.shape = both.shape;
  target.stride = RowMajorStrides(both.shape);
  int64_t product = 0;
  if (repeats < 0 || __builtin_mul_overflow(repeats, input.Elements(), &product) || product != result.Elements()) {
    return NotComputed("its shapes do not fit each other");
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(both, target));
  return OneResult(result);
}

// The input with positions of a dim moved: the element at `from(i)` comes to i.
template <typename From>
absl::StatusOr<ConstantView> Moved(const ConstantCall& call, const ConstantView& input, int64_t dim, From from) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(input.dtype, input.shape));
  const int64_t extent = input.shape.empty() ? 0 : input.shape[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < extent; ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const ConstantView to, Part(result, dim, i, 1, 1));
    ADJOIN_ASSIGN_OR_RETURN(const ConstantView source, Part(input, dim, from(i), 1, 1));
    ADJOIN_RETURN_IF_ERROR(call.workspace.Count(1));
    ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(source, to));
  }
  return result;
}

ConstantResults Flipped(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantView view, InputOf(call));
  for (int64_t dim : call.node.Ints("dims")) {
    dim += dim < 0 ? view.dims() : 0;
    if (dim < 0 || dim >= view.dims()) return NotComputed("its dims are not those of its input");
    const int64_t extent = view.shape[static_cast<size_t>(dim)];
    ADJOIN_ASSIGN_OR_RETURN(view, Moved(call, view, dim, [&](int64_t i) { return extent - 1 - i; }));
  }
  return OneResult(call.workspace.Converted(view, view.dtype));
}

ConstantResults Rolled(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(ConstantView view, InputOf(call));
  const std::vector<int64_t> shifts = call.node.Ints("shifts"), dims = call.node.Ints("dims");
  if (dims.empty() || shifts.size() != dims.size()) return NotComputed("it has no dims, or not one for each shift");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + view.dims() : dims[i];
    if (dim < 0 || dim >= view.dims()) return NotComputed("its dims are not those of its input");
    const int64_t extent = std::max<int64_t>(view.shape[static_cast<size_t>(dim)], 1);
    const int64_t shift = (shifts[i] % extent + extent) % extent;
    ADJOIN_ASSIGN_OR_RETURN(view, Moved(call, view, dim, [&](int64_t at) { return (at - shift + extent) % extent; }));
  }
  return OneResult(view);
}

}  // namespace

const ConstantOps& ShapeConstantOps() {
  constexpr bool kView = true;
  static const auto* ops = new ConstantOps{
      {"_to_copy", {Typed}},
      {"_unsafe_view", {Reshaped, kView}},
      {"alias", {Same, kView}},
      {"cat", {Concatenated}},
      {"chunk", {Split, kView}},
      {"clone", {Copied}},
      {"concat", {Concatenated}},
      {"contiguous", {Contiguous, kView}},
      {"copy", {Source}},
      {"detach", {Same, kView}},
      {"expand", {Expanded, kView}},
      {"expand_as", {Expanded, kView}},
      {"flatten", {Reshaped, kView}},
      {"flip", {Flipped}},
      {"lift_fresh_copy", {Copied}},
      {"narrow", {Narrowed, kView}},
      {"numpy_T", {Reversed, kView}},
      {"permute", {Permute, kView}},
      {"repeat", {Repeated}},
      {"repeat_interleave", {Interleaved}},
      {"reshape", {Reshaped, kView}},
      {"reshape_as", {Reshaped, kView}},
      {"roll", {Rolled}},
      {"select", {Selected, kView}},
      {"select_scatter", {SelectScattered}},
      {"slice", {Sliced, kView}},
      {"slice_scatter", {SliceScattered}},
      {"split", {Split, kView}},
      {"split_with_sizes", {Split, kView}},
      {"squeeze", {Reshaped, kView}},
      {"stack", {Stacked}},
      {"swapaxes", {SwapAxes, kView}},
      {"t", {Transpose, kView}},
      {"to", {Typed, kView}},
      {"transpose", {Transpose, kView}},
      {"type_as", {Typed, kView}},
      {"unbind", {Unbound, kView}},
      {"unflatten", {Reshaped, kView}},
      {"unsqueeze", {Reshaped, kView}},
      {"view", {Reshaped, kView}},
      {"view_as", {Reshaped, kView}},
  };
  return *ops;
}

}  // namespace adjoin
