#include "planner/time/kernel_work.h"

#include <algorithm>
#include <set>
#include <utility>

#include "layers/attention/attention_inputs.h"
#include "layers/rules/layer_kind.h"
#include "planner/memory/tensor_bytes.h"

namespace adjoin {
namespace {

using Shape = LayerSizes::Shape;

int64_t Elements(const Shape& shape) { return shape.empty() ? 0 : BoundedProduct(shape); }

int64_t At(const Shape& shape, size_t dim) { return dim < shape.size() ? shape[dim] : 1; }

// Elements of each entry of dim 1: what is normalised together, a channel at a time.
int64_t Cells(const Shape& shape) {
  return shape.size() < 3 ? 1 : BoundedProduct(Shape(shape.begin() + 2, shape.end()));
}

class Work {
 public:
  Work(const LayerSizes& sizes, std::string kind) : sizes_(sizes) {
    work_.kind = std::move(kind);
    work_.type = sizes.type;
    work_.empty = Elements(sizes.output) == 0;
    const auto element = static_cast<double>(SizeOf(sizes.type));
    for (const Shape& input : sizes.input) work_.bytes += static_cast<double>(Elements(input)) * element;
    for (const Shape& parameter : sizes.parameter) work_.bytes += static_cast<double>(Elements(parameter)) * element;
    work_.bytes += static_cast<double>(Elements(sizes.output)) * element;
  }
  KernelWork Of(std::vector<int64_t> size, double flops) {
    work_.size = std::move(size);
    work_.flops = flops;
    return std::move(work_);
  }
  KernelWork ByElement(double flops_each = 1) {
    const int64_t elements = Elements(sizes_.output);
    return Of({elements, static_cast<int64_t>(sizes_.input.size())}, flops_each * static_cast<double>(elements));
  }

 private:
  const LayerSizes& sizes_;
  KernelWork work_;
};

int64_t WindowCells(const WindowSpec& window, size_t dims) {
  if (window.kernel_size() == 1) return BoundedProduct(Shape(dims, window.kernel(0)));
  return BoundedProduct({window.kernel().begin(), window.kernel().end()});
}

KernelWork OfConv(const Layer& layer, const LayerSizes& sizes) {
  const Conv& conv = layer.conv();
  const Shape &x = sizes.input[0], &y = sizes.output;
  const size_t dims = y.size() > 2 ? y.size() - 2 : 0;
  const int64_t kernel = WindowCells(conv.window(), dims);
  // The job's; a rank with some of the channels has its share of them.
  int64_t groups = std::max<int64_t>(1, conv.groups());
  const int64_t in_group =
      sizes.parameter.empty() ? At(x, 1) / groups : At(sizes.parameter[0], conv.transposed() ? 0 : 1);
  if (groups > 1) groups = std::max<int64_t>(1, At(x, 1) / std::max<int64_t>(1, in_group));
  const bool grouped = groups > 1 && !conv.transposed();
  const double each = static_cast<double>(conv.transposed() ? Elements(x) : Elements(y)) * static_cast<double>(kernel);
  const double channels = static_cast<double>(conv.transposed() ? At(y, 1) : At(x, 1)) / static_cast<double>(groups);
  const char* kind = conv.transposed()               ? "conv.transposed"
                     : grouped                       ? "conv.grouped"
                     : IsConvByColumns(layer, sizes) ? "conv.columns"
                                                     : "conv";
  return Work(sizes, kind)
      .Of({static_cast<int64_t>(dims), At(x, 1), At(y, 1), kernel, BoundedProduct({At(x, 0), Cells(x)}),
           BoundedProduct({At(y, 0), Cells(y)}), groups},
          2 * each * channels);
}

KernelWork OfLinear(const LayerSizes& sizes) {
  const int64_t out = sizes.output.empty() ? 1 : sizes.output.back();
  const int64_t in = sizes.input[0].empty() ? 1 : sizes.input[0].back();
  const int64_t rows = Elements(sizes.output) / std::max<int64_t>(1, out);
  return Work(sizes, "linear")
      .Of({rows, in, out}, 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out));
}

KernelWork OfAttention(const Layer& layer, const LayerSizes& sizes) {
  const Attention& attention = layer.attention();
  const int attended = std::max(1, AttendedInputs(attention, static_cast<int>(sizes.input.size())));
  const Shape& x = sizes.input[0];
  const Shape& keys_of = sizes.input[attended > 1 ? 1 : 0];
  const int64_t batch = At(x, 0), queries = At(x, 1), features = At(x, 2);
  // Keys of other ranks come around in a ring.
  const int64_t keys = BoundedProduct({At(keys_of, 1), std::max<int64_t>(1, sizes.key_parts)});
  const int64_t heads = std::max<int64_t>(1, sizes.heads);
  const double rows = static_cast<double>(batch) * static_cast<double>(queries),
               of_keys = static_cast<double>(batch) * static_cast<double>(At(keys_of, 1));
  double pairs = rows * static_cast<double>(keys);
  if (attention.causal()) pairs /= 2;
  if (!HasProjections(attention)) {
    const int64_t of_values = At(sizes.input[attended - 1], 2);
    return Work(sizes, "attention")
        .Of({batch, queries, keys, features, features, heads}, 2.0 * pairs * static_cast<double>(features + of_values));
  }
  // [3 or none, heads here, width, features]
  const Shape weight = sizes.parameter.empty() ? Shape() : sizes.parameter[0];
  const int64_t here =
      weight.size() < 3 ? features : BoundedProduct({weight[weight.size() - 3], weight[weight.size() - 2]});
  const double projections = 2.0 * static_cast<double>(features) * static_cast<double>(here) * (2 * rows + 2 * of_keys);
  return Work(sizes, "attention")
      .Of({batch, queries, keys, features, here, heads}, projections + 4.0 * pairs * static_cast<double>(here));
}

KernelWork OfWindowAttention(const Layer& layer, const LayerSizes& sizes) {
  const WindowAttention& attention = layer.window_attention();
  const Shape& x = sizes.output;
  const int64_t channels = x.empty() ? 1 : x.back();
  const int64_t positions = Elements(x) / std::max<int64_t>(1, channels);
  const size_t dims = x.size() > 2 ? x.size() - 2 : 0;
  const int64_t cells = attention.window_size() == 1
                            ? BoundedProduct(Shape(dims, attention.window(0)))
                            : BoundedProduct({attention.window().begin(), attention.window().end()});
  const double each = static_cast<double>(positions) * static_cast<double>(channels);
  return Work(sizes, "window_attention")
      .Of({positions, channels, cells, std::max<int64_t>(1, attention.heads())},
          8.0 * each * static_cast<double>(channels) + 4.0 * each * static_cast<double>(cells));
}

KernelWork OfNorm(const Layer& layer, const LayerSizes& sizes) {
  const std::string& kind = layer.norm().kind();
  const Shape& x = sizes.output;
  const int64_t elements = Elements(x);
  const double flops = 6.0 * static_cast<double>(elements);
  if (kind == "batch") return Work(sizes, "norm.batch").Of({elements, Cells(x)}, flops);
  if (kind == "group" || kind == "instance") {
    const int64_t groups = kind == "group" ? std::max<int64_t>(1, layer.norm().groups()) : At(x, 1);
    const int64_t together = elements / std::max<int64_t>(1, At(x, 0)) / std::max<int64_t>(1, groups);
    return Work(sizes, "norm.group").Of({elements, together}, flops);
  }
  const int64_t first = layer.norm().dim_size() > 0 ? layer.norm().dim(0) : -1;
  const auto dims = static_cast<int64_t>(x.size());
  const int64_t begin = std::clamp<int64_t>(first < 0 ? first + dims : first, 0, dims);
  const int64_t row = begin == dims ? 1 : BoundedProduct(Shape(x.begin() + begin, x.end()));
  return Work(sizes, "norm.layer").Of({elements, row}, flops);
}

KernelWork OfPool(const LayerSizes& sizes, const char* kind, int64_t cells) {
  const int64_t in = Elements(sizes.input[0]), out = Elements(sizes.output);
  return Work(sizes, kind).Of({in, out, cells}, static_cast<double>(out) * static_cast<double>(cells));
}

int64_t CellsOfPool(const Layer& layer, const LayerSizes& sizes) {
  const Shape& y = sizes.output;
  const size_t dims = y.size() > 2 ? y.size() - 2 : 0;
  if (layer.pool().adaptive_size().empty()) return WindowCells(layer.pool().window(), dims);
  return std::max<int64_t>(1, Elements(sizes.input[0]) / std::max<int64_t>(1, Elements(y)));
}

KernelWork OfUpsample(const Layer& layer, const LayerSizes& sizes) {
  const std::string& mode = layer.upsample().mode();
  if (mode == "nearest" || mode == "nearest-exact") return OfPool(sizes, "upsample.copy", 1);
  if (mode == "area") return OfPool(sizes, "pool.avg", 1);
  const int64_t taps = mode == "bicubic" ? 4 : 2;
  const size_t dims = sizes.output.size() > 2 ? sizes.output.size() - 2 : 0;
  return OfPool(sizes, "upsample.linear", BoundedProduct({taps, static_cast<int64_t>(dims)}));
}

KernelWork OfEmbedding(const LayerSizes& sizes) {
  const int64_t features = sizes.output.empty() ? 1 : sizes.output.back();
  const int64_t rows = Elements(sizes.output) / std::max<int64_t>(1, features);
  const int64_t entries = sizes.parameter.empty() ? 1 : At(sizes.parameter[0], 0);
  return Work(sizes, "embedding").Of({rows, features, entries}, 0);
}

KernelWork OfActivation(const Layer& layer, const LayerSizes& sizes) {
  static const auto* cheap = new std::set<std::string>{
      "relu",      "relu6",      "leaky_relu", "hardtanh", "abs",        "square", "threshold", "hardsigmoid",
      "hardswish", "hardshrink", "softshrink", "add",      "mul",        "neg",    "rsub",      "clamp",
      "clamp_min", "clamp_max",  "sqrt",       "rsqrt",    "reciprocal", "root"};
  const std::string& fn = layer.activation().fn();
  static const auto* own = new std::set<std::string>{"gelu", "tanh", "sigmoid", "silu"};
  if (fn == "prelu") return Work(sizes, "prelu").ByElement();
  if (own->count(fn) > 0) return Work(sizes, "activation." + fn).ByElement(10);
  return Work(sizes, cheap->count(fn) > 0 ? "activation" : "activation.costly")
      .ByElement(cheap->count(fn) > 0 ? 1 : 10);
}

}  // namespace

KernelWork WorkOf(const Layer& layer, const LayerSizes& sizes) {
  static const auto* views =
      new std::set<std::string>{"reshape", "flatten", "permute", "expand", "tokens", "repartition"};
  const std::string kind = KindOf(layer);
  if (views->count(kind) > 0 || (kind == "dropout" && layer.dropout().p() == 0)) {
    KernelWork work = Work(sizes, "view").Of({}, 0);
    work.bytes = 0;
    return work;
  }
  if (!sizes.input.empty()) {
    if (kind == "conv") return OfConv(layer, sizes);
    if (kind == "linear" || kind == "matmul") return OfLinear(sizes);
    if (kind == "attention") return OfAttention(layer, sizes);
    if (kind == "window_attention") return OfWindowAttention(layer, sizes);
    if (kind == "pool") {
      return OfPool(sizes, layer.pool().mode() == "max" ? "pool.max" : "pool.avg", CellsOfPool(layer, sizes));
    }
    if (kind == "upsample") return OfUpsample(layer, sizes);
    if (kind == "norm") return OfNorm(layer, sizes);
    if (kind == "embedding") return OfEmbedding(sizes);
  }
  if (kind == "activation") return OfActivation(layer, sizes);
  if (kind == "softmax") return Work(sizes, "softmax").ByElement(5);
  if (kind == "local_response_norm") return Work(sizes, kind).ByElement(10);
  if (kind == "dropout" || kind == "noise" || kind == "add" || kind == "multiply" || kind == "concat") {
    return Work(sizes, kind).ByElement();
  }
  return Work(sizes, "copy").ByElement(0);
}

KernelWork WorkOfLoss(const Loss& loss, const LayerSizes& sizes) {
  const bool classes = loss.kind() == "cross_entropy" || loss.kind() == "nll";
  LayerSizes local = sizes;
  if (local.input.empty()) local.input.emplace_back();
  local.output = local.input[0];
  const auto elements = static_cast<double>(Elements(local.output));
  return Work(local, classes                 ? "loss.classes"
                     : loss.kind() == "dice" ? "loss.dice"
                                             : "loss")
      .Of({Elements(local.output), At(local.output, 1)}, 10 * elements);
}

KernelWork WorkOfUpdate(const Optimizer& optimizer, int64_t elements, DType type) {
  KernelWork work;
  work.type = type;
  work.size = {std::clamp<int64_t>(elements, 0, kMostBytes)};
  work.empty = elements <= 0;
  int tensors = 3;
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd:
      work.kind = optimizer.sgd().momentum() != 0 ? "update.momentum" : "update.sgd";
      tensors = optimizer.sgd().momentum() != 0 ? 5 : 3;
      break;
    case Optimizer::kAdam: work.kind = "update.adam", tensors = 7; break;
    default: work.kind = "update.other", tensors = 5;
  }
  work.flops = 2.0 * tensors * static_cast<double>(work.size[0]);
  work.bytes = tensors * static_cast<double>(work.size[0]) * static_cast<double>(SizeOf(type));
  return work;
}

KernelWork WorkOfSum(int64_t elements, DType type) {
  KernelWork work;
  work.kind = "sum";
  work.type = type;
  work.size = {std::clamp<int64_t>(elements, 0, kMostBytes)};
  work.flops = static_cast<double>(work.size[0]);
  work.bytes = 3 * work.flops * static_cast<double>(SizeOf(type));
  work.empty = elements <= 0;
  return work;
}

}  // namespace adjoin
