// The extents of views, of what is put together or taken apart, of sums over dims, and of new tensors.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "importer/torchscript/shape_inference.h"

namespace adjoin {
namespace {

constexpr int64_t kMaxParts = 4096;
constexpr size_t kMaxGrids = 16;  // of meshgrid: each has as many dims as there are

// The extents that are given, with one that is -1 filled in. Errors: other elements than `elements`.
absl::StatusOr<Extents> Filled(const ShapeCall& call, const std::string& name, int64_t elements) {
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  Extents shape = call.node.Ints(name);
  Extents others = shape;
  const auto open = std::find(others.begin(), others.end(), -1);
  if (open != others.end()) *open = 1;
  const bool fits = std::all_of(others.begin(), others.end(), [](int64_t extent) { return extent >= 0; });
  const int64_t known = fits ? ElementsOf(others) : 0;
  if (open != others.end() && known > 0 && elements % known == 0) {
    shape[static_cast<size_t>(open - others.begin())] = elements / known;
  } else if (!fits || known != elements) {
    return DoesNotFit("its ", name, " is ", ShownExtents(shape), ", of a tensor of ", elements, " elements");
  }
  return shape;
}

Results View(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const char* name = call.node.op == "reshape" ? "shape" : "size";
  ADJOIN_ASSIGN_OR_RETURN(info.shape, Filled(call, name, ElementsOf(info.shape)));
  return One(std::move(info));
}

Results AsOther(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo other, call.Tensor("other"));
  if (call.node.op != "expand_as" && ElementsOf(info.shape) != ElementsOf(other.shape)) {
    return DoesNotFit("its tensors are ", ShownExtents(info.shape), " and ", ShownExtents(other.shape));
  }
  info.shape = other.shape;
  return One(std::move(info));
}

Results Flatten(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  if (info.shape.empty()) return One({info.dtype, {1}});
  ADJOIN_ASSIGN_OR_RETURN(const int64_t first, call.Dim("start_dim", 0, info.shape.size()));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t last, call.Dim("end_dim", -1, info.shape.size()));
  if (last < first) return DoesNotFit("its end_dim is before its start_dim");
  const auto begin = info.shape.begin() + first, end = info.shape.begin() + last + 1;
  const int64_t elements = ElementsOf(Extents(begin, end));
  info.shape.insert(info.shape.erase(begin, end), elements);
  return One(std::move(info));
}

Results Unflatten(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  ADJOIN_ASSIGN_OR_RETURN(const Extents sizes, Filled(call, "sizes", info.shape[static_cast<size_t>(dim)]));
  const auto at = info.shape.erase(info.shape.begin() + dim);
  info.shape.insert(at, sizes.begin(), sizes.end());
  return One(std::move(info));
}

Results Squeeze(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  std::set<int64_t> dims;
  for (int64_t dim : call.node.Ints("dim")) dims.insert(dim < 0 ? dim + static_cast<int64_t>(info.shape.size()) : dim);
  Extents shape;
  for (size_t i = 0; i < info.shape.size(); ++i) {
    const bool chosen = !call.node.Has("dim") || dims.count(static_cast<int64_t>(i)) > 0;
    if (!chosen || info.shape[i] != 1) shape.push_back(info.shape[i]);
  }
  info.shape = std::move(shape);
  return One(std::move(info));
}

Results Unsqueeze(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size() + 1));
  info.shape.insert(info.shape.begin() + dim, 1);
  return One(std::move(info));
}

Results Permute(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const Extents dims = call.node.Ints("dims");
  Extents shape;
  std::set<int64_t> seen;
  for (int64_t dim : dims) {
    const int64_t from_first = dim < 0 ? dim + static_cast<int64_t>(info.shape.size()) : dim;
    if (from_first < 0 || from_first >= static_cast<int64_t>(info.shape.size()) || !seen.insert(from_first).second) {
      break;
    }
    shape.push_back(info.shape[static_cast<size_t>(from_first)]);
  }
  if (shape.size() != info.shape.size() || dims.size() != shape.size()) {
    return DoesNotFit("its dims are ", ShownExtents(dims), " of ", ShownExtents(info.shape));
  }
  info.shape = std::move(shape);
  return One(std::move(info));
}

Results Transpose(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  if (info.shape.empty()) return One(std::move(info));
  const bool axes = call.node.op == "swapaxes";
  ADJOIN_ASSIGN_OR_RETURN(const int64_t a, call.Dim(axes ? "axis0" : "dim0", 0, info.shape.size()));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t b, call.Dim(axes ? "axis1" : "dim1", 1, info.shape.size()));
  std::swap(info.shape[static_cast<size_t>(a)], info.shape[static_cast<size_t>(b)]);
  return One(std::move(info));
}

// t, mT, numpy_T
Results Turned(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const size_t dims = info.shape.size();
  if (call.node.op == "numpy_T") std::reverse(info.shape.begin(), info.shape.end());
  if (call.node.op != "numpy_T" && dims >= 2) std::swap(info.shape[dims - 1], info.shape[dims - 2]);
  return One(std::move(info));
}

Results Expand(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed("size"));
  Extents size = call.node.Ints("size");
  if (size.size() < info.shape.size()) return DoesNotFit("its size is ", ShownExtents(size));
  const size_t more = size.size() - info.shape.size();
  for (size_t i = 0; i < size.size(); ++i) {
    const int64_t from = i < more ? 1 : info.shape[i - more];
    if (size[i] == -1 && i >= more) size[i] = from;
    if (size[i] != from && from != 1) {
      return DoesNotFit("its size is ", ShownExtents(size), " of ", ShownExtents(info.shape));
    }
  }
  info.shape = std::move(size);
  return One(std::move(info));
}

Results Repeat(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const char* name = call.node.op == "tile" ? "dims" : "repeats";
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  Extents repeats = call.node.Ints(name);
  if (call.node.op == "tile" && repeats.size() < info.shape.size()) {
    repeats.insert(repeats.begin(), info.shape.size() - repeats.size(), 1);
  }
  if (repeats.size() < info.shape.size()) return DoesNotFit("its ", name, " are ", ShownExtents(repeats));
  info.shape.insert(info.shape.begin(), repeats.size() - info.shape.size(), 1);
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (__builtin_mul_overflow(info.shape[i], repeats[i], &info.shape[i])) return DoesNotFit("its result is too large");
  }
  return One(std::move(info));
}

// A place as slices have it, within 0 to `extent`.
int64_t Clipped(int64_t place, int64_t extent) {
  return std::clamp<int64_t>(place < 0 ? place + extent : place, 0, extent);
}

Results Slice(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  for (const char* name : {"start", "end", "step"}) ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  int64_t& extent = info.shape[static_cast<size_t>(dim)];
  const int64_t step = call.node.Int("step", 1);
  const int64_t begin = Clipped(call.node.Int("start", 0), extent), end = Clipped(call.node.Int("end", extent), extent);
  if (step < 1) return DoesNotFit("its step is ", step);
  extent = end > begin ? (end - begin - 1) / step + 1 : 0;
  return One(std::move(info));
}

Results Narrow(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  for (const char* name : {"start", "length"}) ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  const int64_t length = call.node.Int("length", 0);
  if (info.shape.empty() || length < 0 || length > info.shape[static_cast<size_t>(dim)]) {
    return DoesNotFit("its length is ", length, " of ", ShownExtents(info.shape));
  }
  info.shape[static_cast<size_t>(dim)] = length;
  return One(std::move(info));
}

Results Select(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  info.shape.erase(info.shape.begin() + dim);
  return One(std::move(info));
}

// split, split_with_sizes, chunk, unbind
Results Parts(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  for (const char* name : {"split_size", "split_sizes", "chunks"}) ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  const int64_t extent = info.shape[static_cast<size_t>(dim)];
  Extents sizes = call.node.Ints("split_sizes");
  if (sizes.size() > static_cast<size_t>(kMaxParts)) return DoesNotFit("it has ", sizes.size(), " sizes");
  if (sizes.empty()) {
    int64_t size = call.node.Int("split_size", 1);
    if (call.node.op == "chunk") {
      const int64_t chunks = call.node.Int("chunks", 1);
      if (chunks < 1 || chunks > kMaxExtent) return DoesNotFit("it has ", chunks, " chunks");
      size = std::max<int64_t>((extent + chunks - 1) / chunks, 1);
    }
    if (size < 1 || extent / size > kMaxParts) return DoesNotFit("it has the size ", size, " of ", extent);
    for (int64_t at = 0; at < extent; at += size) sizes.push_back(std::min(size, extent - at));
  }
  std::vector<TensorInfo> parts;
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > extent) return DoesNotFit("its sizes are ", ShownExtents(sizes), " of ", extent);
    sum += size;
    parts.push_back(info);
    if (call.node.op == "unbind") {
      parts.back().shape.erase(parts.back().shape.begin() + dim);
    } else {
      parts.back().shape[static_cast<size_t>(dim)] = size;
    }
  }
  if (sum != extent) return DoesNotFit("its sizes are ", ShownExtents(sizes), " of ", extent);
  return parts;
}

Results Cat(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, call.Tensors("tensors"));
  TensorInfo info = tensors[0];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  const auto at = static_cast<size_t>(dim);
  for (size_t i = 1; i < tensors.size(); ++i) {
    Extents expected = info.shape;
    if (tensors[i].shape.size() == expected.size()) expected[at] = tensors[i].shape[at];
    if (tensors[i].shape != expected) {
      return DoesNotFit("its tensors are ", ShownExtents(tensors[0].shape), " and ", ShownExtents(tensors[i].shape));
    }
    info.shape[at] += tensors[i].shape[at];
  }
  info.dtype = PromotedTypeOf(tensors);
  return One(std::move(info));
}

Results Stack(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, call.Tensors("tensors"));
  TensorInfo info = tensors[0];
  for (const TensorInfo& tensor : tensors) {
    if (tensor.shape == info.shape) continue;
    return DoesNotFit("its tensors are ", ShownExtents(info.shape), " and ", ShownExtents(tensor.shape));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size() + 1));
  info.shape.insert(info.shape.begin() + dim, static_cast<int64_t>(tensors.size()));
  info.dtype = PromotedTypeOf(tensors);
  return One(std::move(info));
}

Results IndexSelect(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo index, call.Tensor("index"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, info.shape.size()));
  if (info.shape.empty()) return DoesNotFit("its input has no dims");
  info.shape[static_cast<size_t>(dim)] = ElementsOf(index.shape);
  return One(std::move(info));
}

// "x[:, index]": what indices broadcast to stands where they are, or first where dims lie between them.
Results Index(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const TensorInfo info, call.Input());
  const auto found = call.node.arguments.find("indices");
  if (found == call.node.arguments.end() || found->second.tensors.size() > info.shape.size()) {
    return DoesNotFit("it has other indices than its tensor has dims");
  }
  Extents within, shape;
  size_t first = info.shape.size(), last = 0, count = 0;
  for (size_t i = 0; i < info.shape.size(); ++i) {
    const std::string value = i < found->second.tensors.size() ? found->second.tensors[i] : "";
    if (value.empty()) {
      shape.push_back(info.shape[i]);
      continue;
    }
    const auto index = call.tensors.find(value);
    if (index == call.tensors.end()) return absl::NotFoundError("nothing is known of its indices");
    const bool is_mask = index->second.dtype == DType::kBool || index->second.dtype == DType::kUInt8;
    if (is_mask) return absl::NotFoundError("its indices are a mask");
    ADJOIN_ASSIGN_OR_RETURN(within, BroadcastOf(within, index->second.shape));
    if (count++ == 0) first = i;
    last = i;
  }
  const bool together = count > 0 && last - first + 1 == count;
  shape.insert(shape.begin() + static_cast<int64_t>(together ? first : 0), within.begin(), within.end());
  return One({info.dtype, std::move(shape)});
}

Results Reduce(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  const std::string& op = call.node.op;
  if ((op == "all" || op == "any") && info.dtype != DType::kUInt8) info.dtype = DType::kBool;
  if (op == "argmax") info.dtype = DType::kInt64;
  if (op == "sum" && !IsFloatingPoint(info.dtype)) info.dtype = DType::kInt64;
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, call.Type(info.dtype));
  std::set<size_t> dims;
  for (int64_t dim : call.node.Ints("dim")) {
    const int64_t from_first = dim < 0 ? dim + static_cast<int64_t>(info.shape.size()) : dim;
    if (from_first < 0 || from_first >= static_cast<int64_t>(info.shape.size())) {
      return DoesNotFit("its dim is ", dim, ", of a tensor with ", info.shape.size(), " dims");
    }
    dims.insert(static_cast<size_t>(from_first));
  }
  Extents shape;
  for (size_t i = 0; i < info.shape.size(); ++i) {
    if (!dims.empty() && dims.count(i) == 0) {
      shape.push_back(info.shape[i]);
    } else if (call.node.Bool("keepdim", false)) {
      shape.push_back(1);
    }
  }
  info.shape = std::move(shape);
  if (op == "var_mean") return std::vector<TensorInfo>{info, info};
  return One(std::move(info));
}

// max and min: of two tensors, of all, or over a dim with the places.
Results MaxOrMin(const ShapeCall& call) {
  if (call.IsTensor("other")) {
    ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
    ADJOIN_ASSIGN_OR_RETURN(const TensorInfo other, call.Tensor("other"));
    info.dtype = PromotedTypeOf({info, other});
    ADJOIN_ASSIGN_OR_RETURN(info.shape, BroadcastOf(info.shape, other.shape));
    return One(std::move(info));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos, Reduce(call));
  if (call.node.Has("dim")) infos.push_back({DType::kInt64, infos[0].shape});
  return infos;
}

// zeros, ones, full, empty; also new_zeros and the like.
Results New(const ShapeCall& call) {
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed("size"));
  DType dtype = DType::kFloat32;
  const auto fill = call.node.arguments.find("fill_value");
  if (call.IsTensor("self")) {
    ADJOIN_ASSIGN_OR_RETURN(const TensorInfo like, call.Tensor("self"));
    dtype = like.dtype;
  } else if (fill != call.node.arguments.end() && fill->second.kind == OpArgument::Kind::kInts) {
    dtype = DType::kInt64;
  } else if (fill != call.node.arguments.end() && fill->second.kind == OpArgument::Kind::kBool) {
    dtype = DType::kBool;
  }
  ADJOIN_ASSIGN_OR_RETURN(dtype, call.Type(dtype));
  return One({dtype, call.node.Ints("size")});
}

Results Like(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(TensorInfo info, call.Input());
  ADJOIN_ASSIGN_OR_RETURN(info.dtype, call.Type(info.dtype));
  return One(std::move(info));
}

Results Arange(const ShapeCall& call) {
  for (const char* name : {"start", "end", "step"}) ADJOIN_RETURN_IF_ERROR(call.CheckFixed(name));
  bool whole = true;
  for (const auto& [name, argument] : call.node.arguments) whole = whole && argument.floats.empty();
  const double begin = call.node.Float("start", 0), end = call.node.Float("end", 0), step = call.node.Float("step", 1);
  const double count = std::ceil((end - begin) / step);
  if (!(count >= 0 && count < static_cast<double>(kMaxExtent))) return DoesNotFit("it counts to ", end);
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type(whole ? DType::kInt64 : DType::kFloat32));
  return One({dtype, {static_cast<int64_t>(count)}});
}

Results Linspace(const ShapeCall& call) {
  ADJOIN_RETURN_IF_ERROR(call.CheckFixed("steps"));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type(DType::kFloat32));
  return One({dtype, {call.node.Int("steps", 0)}});
}

Results Eye(const ShapeCall& call) {
  const int64_t rows = call.node.Int("n", 0);
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type(DType::kFloat32));
  return One({dtype, {rows, call.node.Int("m", rows)}});
}

Results ScalarTensor(const ShapeCall& call) {
  const auto number = call.node.arguments.find("s");
  const bool whole = number != call.node.arguments.end() && number->second.kind == OpArgument::Kind::kInts;
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type(whole ? DType::kInt64 : DType::kFloat32));
  return One({dtype, {}});
}

Results Meshgrid(const ShapeCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors, call.Tensors("tensors"));
  if (tensors.size() > kMaxGrids) return DoesNotFit("it has ", tensors.size(), " tensors");
  Extents shape;
  for (const TensorInfo& tensor : tensors) shape.push_back(ElementsOf(tensor.shape));
  if (call.node.Text("indexing", "ij") == "xy" && shape.size() >= 2) std::swap(shape[0], shape[1]);
  for (TensorInfo& tensor : tensors) tensor.shape = shape;
  return tensors;
}

}  // namespace

const ShapeRuleTable& ViewShapes() {
  static const auto* rules = new ShapeRuleTable{
      {"_unsafe_view", View},
      {"all", Reduce},
      {"amax", Reduce},
      {"amin", Reduce},
      {"any", Reduce},
      {"argmax", Reduce},
      {"cat", Cat},
      {"chunk", Parts},
      {"concat", Cat},
      {"concatenate", Cat},
      {"expand", Expand},
      {"expand_as", AsOther},
      {"flatten", Flatten},
      {"index", Index},
      {"index_select", IndexSelect},
      {"linalg_vector_norm", Reduce},
      {"mT", Turned},
      {"max", MaxOrMin},
      {"mean", Reduce},
      {"min", MaxOrMin},
      {"narrow", Narrow},
      {"norm", Reduce},
      {"numpy_T", Turned},
      {"permute", Permute},
      {"repeat", Repeat},
      {"reshape", View},
      {"reshape_as", AsOther},
      {"select", Select},
      {"slice", Slice},
      {"split", Parts},
      {"split_with_sizes", Parts},
      {"squeeze", Squeeze},
      {"stack", Stack},
      {"std", Reduce},
      {"sum", Reduce},
      {"swapaxes", Transpose},
      {"swapdims", Transpose},
      {"t", Turned},
      {"tile", Repeat},
      {"transpose", Transpose},
      {"unbind", Parts},
      {"unflatten", Unflatten},
      {"unsqueeze", Unsqueeze},
      {"var", Reduce},
      {"var_mean", Reduce},
      {"view", View},
      {"view_as", AsOther},
  };
  return *rules;
}

const ShapeRuleTable& CreatingShapes() {
  static const auto* rules = new ShapeRuleTable{
      {"arange", Arange},     {"empty", New},         {"empty_like", Like},
      {"eye", Eye},           {"full", New},          {"full_like", Like},
      {"linspace", Linspace}, {"meshgrid", Meshgrid}, {"new_empty", New},
      {"new_full", New},      {"new_ones", New},      {"new_zeros", New},
      {"ones", New},          {"ones_like", Like},    {"scalar_tensor", ScalarTensor},
      {"zeros", New},         {"zeros_like", Like},   {"rand_like", Like},
      {"randn_like", Like},
  };
  return *rules;
}

}  // namespace adjoin
