#include "planner/memory/layer_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "layers/rules/layer_kind.h"
#include "planner/memory/layer_kernel.h"
#include "planner/memory/tensor_bytes.h"

namespace adjoin {
namespace {

using Shape = LayerSizes::Shape;

int64_t Elements(const Shape& shape) { return BoundedProduct(shape); }

using Rule = LayerMemory (*)(const LayerPlan&, const LayerSizes&);

// ---- Normalisation

LayerMemory OfNorm(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes, /*in_sum_type=*/true);
  k.memory.keeps_input[0] = k.memory.copies_gradient = true;
  const Norm& norm = layer.spec().norm();
  const std::string& kind = norm.kind();
  if ((kind == "layer" || kind == "rms") && norm.dim_size() > 0) {
    constexpr int64_t kNumbers = 7 * 8;  // for each row, in float64
    const auto first = std::min<int64_t>(norm.dim(0), static_cast<int64_t>(sizes.output.size()));
    const int64_t rows = Elements(Shape(sizes.output.begin(), sizes.output.begin() + first));
    k.memory.keeps = kNumbers * rows;
  }
  if ((kind == "layer" || kind == "rms") && !sizes.parameter.empty()) {
    // The normalised values are multiplied, then shifted.
    k.memory.keeps += k.out;
    k.memory.forward_work = kind == "layer" ? k.out : 0;
    k.memory.backward_work = k.out;
  }
  return k.memory;
}

LayerMemory OfLocalResponseNorm(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes, /*in_sum_type=*/true);
  k.memory.keeps_input[0] = true;
  k.memory.keeps = 2 * k.out;
  k.memory.forward_work = k.in + k.out;
  k.memory.backward_work = 3 * k.out;
  return k.memory;
}

// ---- Element by element

LayerMemory OfActivation(const LayerPlan& layer, const LayerSizes& sizes) {
  static const auto* of_output = new std::set<std::string>{"exp",   "exp2",    "expm1", "reciprocal", "relu",
                                                           "rsqrt", "sigmoid", "sqrt",  "tan",        "tanh"};
  static const auto* without_input =
      new std::set<std::string>{"add", "frac", "mul", "neg", "root", "rsub", "tanhshrink"};
  static const auto* in_sum_type = new std::set<std::string>{"hardtanh", "mish", "relu6", "sinc"};
  const std::string& fn = layer.spec().activation().fn();
  LayerKernel k(layer, sizes, in_sum_type->count(fn) > 0);
  const bool output = of_output->count(fn) > 0;
  k.memory.keeps_output = output;
  k.memory.keeps_input[0] = !output && without_input->count(fn) == 0;
  k.memory.keeps_parameters = fn == "prelu";
  if (fn == "log_sigmoid" || fn == "softsign" || fn == "tanhshrink") k.memory.keeps = k.out;
  if (fn == "root") {
    // The root, and where there is none: a byte each.
    k.memory.keeps = k.out + Elements(sizes.output);
    k.memory.forward_work = k.out;
    k.memory.backward_work = 2 * k.out;
  }
  if (fn == "softsign") k.memory.forward_work = k.out;
  // Tensors at one time, beside the gradient that they lead to.
  static const auto* temporary = new std::map<std::string, int64_t>{
      {"abs", 1}, {"cos", 2},        {"erf", 4},   {"expm1", 1},    {"log1p", 1}, {"pow", 2},    {"prelu", 1},
      {"sin", 1}, {"reciprocal", 2}, {"rsqrt", 2}, {"softsign", 3}, {"sqrt", 1},  {"square", 2}, {"tanhshrink", 1}};
  if (const auto found = temporary->find(fn); found != temporary->end()) k.memory.backward_work = found->second * k.out;
  // Where it is within a bound, a byte each.
  if (fn == "clamp_min" || fn == "clamp_max") k.memory.backward_work = Elements(sizes.output);
  if (fn == "clamp") k.memory.backward_work = 2 * Elements(sizes.output);
  return k.memory;
}

LayerMemory OfDropout(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  const Dropout& dropout = layer.spec().dropout();
  if (dropout.p() == 0) {
    k.memory.view = true;
    k.memory.gradient[0] = GradientOf::kView;
    return k.memory;
  }
  const Shape& x = sizes.output;
  const int64_t mask = dropout.channel() && x.size() > 1 ? BoundedProduct({x[0], x[1]}) : Elements(x);  // a byte each
  k.memory.keeps = mask;
  k.memory.forward_work = std::max(k.out, 5 * mask);
  return k.memory;
}

LayerMemory OfNoise(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  const bool multiplies = layer.spec().noise().multiplicative();
  k.memory.keeps = multiplies ? k.out : 0;
  k.memory.forward_work = multiplies ? 0 : 2 * k.out;
  k.memory.gradient[0] = multiplies ? GradientOf::kOwn : GradientOf::kView;
  return k.memory;
}

LayerMemory OfSoftmax(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes, sizes.shared);
  k.memory.keeps_output = !sizes.shared;
  if (sizes.shared) {
    k.memory.keeps = k.out;
    k.memory.forward_work = 2 * k.out;
    k.memory.backward_work = 2 * k.out;
  }
  return k.memory;
}

// Broadcast inputs get a gradient of their own shape.
std::vector<GradientOf> ViewsWhereShapesAgree(const LayerSizes& sizes) {
  std::vector<GradientOf> gradient;
  for (const Shape& input : sizes.input) {
    gradient.push_back(input == sizes.output ? GradientOf::kView : GradientOf::kOwn);
  }
  return gradient;
}

LayerMemory OfAdd(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.gradient = ViewsWhereShapesAgree(sizes);
  k.memory.forward_work = sizes.input.size() > 2 ? k.out : 0;
  return k.memory;
}

LayerMemory OfMultiply(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.keeps_input.assign(sizes.input.size(), true);
  const auto more = static_cast<int64_t>(sizes.input.size()) - 2;
  k.memory.keeps = BoundedProduct({std::max<int64_t>(0, more), k.out});  // products of the first ones
  k.memory.backward_work = more > 0 ? k.out : 0;
  return k.memory;
}

// ---- Windows

LayerMemory OfMaxPool(LayerKernel& k) {
  constexpr int64_t kIndex = 8;
  k.memory.keeps_input[0] = true;
  if (k.spec.pool().return_indices()) return k.memory;
  const int64_t index = Elements(k.sizes.output) * kIndex;
  k.memory.keeps = index;
  if (k.sizes.shared) k.memory.forward_work = index;
  return k.memory;
}

LayerMemory OfAveragePool(LayerKernel& k) {
  k.memory.keeps_input[0] = true;
  k.memory.forward_work = k.out;
  if (k.spec.pool().mode() == "lp") {
    k.memory.keeps = k.in + 3 * k.out;
    k.memory.forward_work = 2 * k.out;
    k.memory.backward_work = k.in + 3 * k.out;
  }
  return k.memory;
}

LayerMemory OfPool(const LayerPlan& layer, const LayerSizes& sizes) {
  const bool largest = layer.spec().pool().mode() == "max";
  LayerKernel k(layer, sizes, /*in_sum_type=*/!largest);
  return largest ? OfMaxPool(k) : OfAveragePool(k);
}

// A spatial dim after the other; each adds up selections of cells, one per tap.
LayerMemory OfUpsample(const LayerPlan& layer, const LayerSizes& sizes) {
  const std::string& mode = layer.spec().upsample().mode();
  LayerKernel k(layer, sizes, /*in_sum_type=*/true);
  if (mode == "area") return OfAveragePool(k);
  const bool copies = mode == "nearest" || mode == "nearest-exact";
  int64_t from = k.in;
  for (size_t dim = 2; dim < sizes.output.size(); ++dim) {
    if (sizes.output[dim] == sizes.input[0][dim] && copies) continue;
    const int64_t to = BoundedProduct({from / std::max<int64_t>(1, sizes.input[0][dim]), sizes.output[dim]});
    const bool first = dim == 2, last = dim + 1 == sizes.output.size();
    // The result of the pass before, which this one reads; the layer's own input and output count elsewhere.
    const int64_t taken = first ? 0 : from;
    k.memory.forward_work = std::max(k.memory.forward_work, taken + (copies ? 1 : 3) * to - (last ? k.out : 0));
    // The gradient of its result, of a tap, and of what it reads, the second time being added up.
    const int64_t given = last ? 0 : to;
    k.memory.backward_work =
        std::max(k.memory.backward_work, given + (copies ? from : to + 2 * from) - (first ? k.in : 0));
    from = to;
  }
  return k.memory;
}

// ---- Sums over features

LayerMemory OfLinear(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.keeps_input[0] = k.memory.keeps_parameters = k.memory.parameters_for_input = true;
  k.memory.forward_work = sizes.parameter.size() > 1 ? k.out : 0;
  return k.memory;
}

LayerMemory OfEmbedding(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.keeps_input[0] = true;
  return k.memory;
}

// ---- Shapes

LayerMemory OfView(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.view = true;
  k.memory.gradient.assign(sizes.input.size(), GradientOf::kView);
  return k.memory;
}

LayerMemory OfConcat(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.gradient.assign(sizes.input.size(), GradientOf::kView);
  return k.memory;
}

LayerMemory OfCopy(const LayerPlan& layer, const LayerSizes& sizes) { return LayerKernel(layer, sizes).memory; }

LayerMemory OfExpand(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.view = true;
  return k.memory;
}

LayerMemory OfOwnParameter(const LayerPlan& layer, const LayerSizes& sizes) {
  const std::string& combine = layer.spec().parameter().combine();
  if (combine == "expand") return OfCopy(layer, sizes);
  LayerKernel k(layer, sizes);
  k.memory.keeps_input[0] = k.memory.keeps_parameters = combine == "multiply";
  return k.memory;
}

LayerMemory OfReduce(const LayerPlan& layer, const LayerSizes& sizes) {
  const std::string& kind = layer.spec().reduce().kind();
  const bool extreme = kind == "amax" || kind == "amin";
  LayerKernel k(layer, sizes, /*in_sum_type=*/extreme);
  // Distances from the mean, of which the backward pass makes others.
  if (kind == "var") k.memory.keeps = k.memory.forward_work = k.memory.backward_work = k.in;
  if (extreme) {
    // Shares of the gradient, and where there are none: a byte each, as all that is compared.
    const int64_t elements = Elements(sizes.input[0]);
    k.memory.keeps = k.in + elements;
    k.memory.forward_work = 2 * (k.in + elements + k.out);
    k.memory.backward_work = k.in;
  }
  return k.memory;
}

const std::map<std::string, Rule>& Rules() {
  static const auto* rules = new std::map<std::string, Rule>{
      {"conv", MemoryOfConv},
      {"pool", OfPool},
      {"linear", OfLinear},
      {"norm", OfNorm},
      {"upsample", OfUpsample},
      {"activation", OfActivation},
      {"dropout", OfDropout},
      {"reshape", OfView},
      {"flatten", OfView},
      {"permute", OfView},
      {"concat", OfConcat},
      {"add", OfAdd},
      {"pad", OfCopy},
      {"crop", OfCopy},
      {"expand", OfExpand},
      {"repeat", OfCopy},
      {"pixel_shuffle", OfCopy},
      {"pixel_unshuffle", OfCopy},
      {"repartition", OfView},
      {"attention", MemoryOfAttention},
      {"embedding", OfEmbedding},
      {"softmax", OfSoftmax},
      {"noise", OfNoise},
      {"roll", OfCopy},
      {"flip", OfCopy},
      {"index_select", OfCopy},
      {"multiply", OfMultiply},
      {"window_attention", MemoryOfWindowAttention},
      {"position", OfCopy},
      {"tokens", OfExpand},
      {"local_response_norm", OfLocalResponseNorm},
      {"parameter", OfOwnParameter},
      {"reduce", OfReduce},
      {"matmul", OfMultiply},
  };
  return *rules;
}

}  // namespace

LayerMemory MemoryOf(const LayerPlan& layer, const LayerSizes& sizes) {
  const auto rule = Rules().find(KindOf(layer.spec()));
  if (rule != Rules().end()) return rule->second(layer, sizes);
  LayerKernel k(layer, sizes);
  k.memory.keeps_input.assign(sizes.input.size(), true);
  k.memory.keeps_output = k.memory.keeps_parameters = true;
  return k.memory;
}

bool KnowsMemoryOf(const std::string& kind) { return Rules().count(kind) > 0; }

LayerMemory MemoryOfLoss(const Loss& loss, const LayerSizes& sizes) {
  LayerMemory memory;
  const int64_t element = std::max<int64_t>(4, SizeOf(sizes.type));
  const int64_t prediction = Elements(sizes.input[0]) * element;
  memory.in_sum_type = sizes.type == DType::kBFloat16;
  memory.keeps_input = {true};
  memory.gradient = {GradientOf::kOwn};
  if (loss.kind() == "cross_entropy" || loss.kind() == "nll") {
    // The logarithms of the softmax; the gradient of these.
    memory.keeps_input = {false};
    memory.keeps = loss.kind() == "nll" ? 0 : prediction;
    memory.backward_work = loss.kind() == "nll" ? 0 : prediction;
  } else if (loss.kind() == "dice") {
    memory.keeps = prediction;  // the targets of each class
    memory.forward_work = prediction;
    memory.backward_work = prediction;
  } else if (loss.kind() == "gaussian_nll") {
    memory.keeps = 3 * prediction;
    memory.forward_work = 2 * prediction;
    memory.backward_work = 2 * prediction;
  } else {
    memory.forward_work = prediction;
  }
  return memory;
}

}  // namespace adjoin
