#include "tests/verify/random_layers.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/pointwise/activation_functions.h"

namespace adjoin {

int64_t RandomLayers::Cells(const Shape& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

std::string RandomLayers::Windows() {
  std::vector<int64_t> window, shift;
  for (int64_t dim = 0; dim < Spatial(); ++dim) {
    window.push_back(random_.Between(1, 4));
    shift.push_back(random_.OneIn(2) ? 0 : random_.Between(0, window.back() - 1));
  }
  return absl::StrCat(" window: ", ListText(window), " shift: ", ListText(shift));
}

void RandomLayers::End() {
  Shape shape = x_.shape;
  shape.back() = random_.Between(1, 6);
  Put("linear", absl::StrCat("{ out_features: ", shape.back(), " }"), shape,
      {.parameters = true, .trained = true, .weight = {shape.back(), x_.shape.back()}});
}

bool RandomLayers::Put(const std::string& kind, const std::string& arguments, const Shape& shape,
                       const LayerTraits& traits) {
  // Running statistics belong to one layer.
  const bool can_share =
      traits.parameters && traits.weights_of.empty() && arguments.find("\"batch\"") == arguments.npos;
  if (can_share && random_.OneIn(6)) return PutTwice(kind, arguments, shape, traits);
  x_ = writer_.Add(kind, arguments, {x_}, shape, traits);
  values_.push_back(x_);
  return true;
}

bool RandomLayers::PutTwice(const std::string& kind, const std::string& arguments, const Shape& shape,
                            const LayerTraits& traits) {
  const Value other = Another(/*broadcast=*/false);
  const bool first_has = random_.OneIn(2);
  LayerTraits uses = traits;
  uses.weights_of = writer_.NextName(first_has ? 0 : 1);
  const Value first = writer_.Add(kind, arguments, {x_}, shape, first_has ? traits : uses);
  const Value second = writer_.Add(kind, arguments, {other}, shape, first_has ? uses : traits);
  x_ = writer_.Add("add", "{}", {first, second}, shape);
  values_.push_back(x_);
  return true;
}

void RandomLayers::Begin() {
  const int64_t rows = writer_.rows();
  if (random_.OneIn(5)) return Embed();
  const int64_t dims = random_.Between(2, 5);
  Shape shape = {rows};
  for (int64_t dim = 1; dim < dims; ++dim) shape.push_back(random_.Between(dims == 5 ? 3 : 2, dims > 3 ? 6 : 10));
  x_ = writer_.Field("x", shape, "synthetic { kind: \"normal\" samples: 1000 }");
  if (random_.OneIn(4)) {
    const Value second = writer_.Field("x2", shape, "synthetic { kind: \"uniform\" samples: 1000 low: -1 high: 1 }");
    x_ = writer_.Add("add", "{}", {x_, second}, shape);
  } else {
    x_ = writer_.Add("activation", "{ fn: \"tanh\" }", {x_}, shape);
  }
  values_.push_back(x_);
}

void RandomLayers::AddAny() {
  using Kind = bool (RandomLayers::*)();
  static constexpr Kind kKinds[] = {&RandomLayers::Activation,     &RandomLayers::Activation,
                                    &RandomLayers::Dropout,        &RandomLayers::Noise,
                                    &RandomLayers::Softmax,        &RandomLayers::BatchNorm,
                                    &RandomLayers::GroupNorm,      &RandomLayers::InstanceNorm,
                                    &RandomLayers::LayerNorm,      &RandomLayers::LocalResponseNorm,
                                    &RandomLayers::Conv,           &RandomLayers::Conv,
                                    &RandomLayers::TransposedConv, &RandomLayers::Pool,
                                    &RandomLayers::AdaptivePool,   &RandomLayers::Upsample,
                                    &RandomLayers::PixelShuffle,   &RandomLayers::PixelUnshuffle,
                                    &RandomLayers::CropOrPad,      &RandomLayers::Combine,
                                    &RandomLayers::Concat,         &RandomLayers::Reshape,
                                    &RandomLayers::Flatten,        &RandomLayers::Permute,
                                    &RandomLayers::MovedBatch,     &RandomLayers::Flip,
                                    &RandomLayers::Roll,           &RandomLayers::IndexSelect,
                                    &RandomLayers::Repeat,         &RandomLayers::Expand,
                                    &RandomLayers::Repartition,    &RandomLayers::Linear,
                                    &RandomLayers::Tied,           &RandomLayers::Tied,
                                    &RandomLayers::Attention,      &RandomLayers::Attention,
                                    &RandomLayers::PlainAttention, &RandomLayers::WindowAttention,
                                    &RandomLayers::Transformer,    &RandomLayers::Position,
                                    &RandomLayers::Tokens,         &RandomLayers::OwnParameter,
                                    &RandomLayers::Reduce,         &RandomLayers::Matmul};
  while (!(this->*kKinds[random_.Between(0, std::size(kKinds) - 1)])()) {
  }
}

void RandomLayers::PutWithin(ActivationDomain domain) {
  if (domain == ActivationDomain::kAll) return;
  const bool from_zero = domain == ActivationDomain::kFromZeroToOne;
  Put("activation", from_zero ? "{ fn: \"sigmoid\" }" : "{ fn: \"tanh\" }", x_.shape);
  if (domain == ActivationDomain::kWithinOne || from_zero) Put("activation", "{ fn: \"mul\" arg: 0.9 }", x_.shape);
  if (from_zero) Put("activation", "{ fn: \"add\" arg: 0.05 }", x_.shape);
  const bool above_one = domain == ActivationDomain::kAboveOne;
  if (domain == ActivationDomain::kPositive || above_one) {
    Put("activation", above_one ? "{ fn: \"add\" arg: 2.5 }" : "{ fn: \"add\" arg: 2 }", x_.shape);
  }
}

bool RandomLayers::Activation() {
  const std::vector<ActivationFunction>& functions = ActivationFunctions();
  const ActivationFunction& function = functions[random_.Between(0, functions.size() - 1)];
  const std::string name = function.name;
  // So that numbers stay of one size.
  static const auto* growing = new std::set<std::string>{"cosh", "exp", "exp2", "sinh", "square", "tan"};
  if (growing->count(name) > 0) Put("activation", "{ fn: \"tanh\" }", x_.shape);
  PutWithin(DomainOf(name));
  std::string arguments;
  if (name == "prelu") {
    arguments = random_.OneIn(2) ? absl::StrCat(" arg: ", x_.shape[1]) : "";
  } else if (name == "threshold") {
    arguments = " arg: [0.1, 0.3]";
  } else if (name == "hardtanh") {
    arguments = Some("arg: [-0.7, 1.3]");
  } else if (name == "clamp") {
    arguments = " arg: [-0.7, 1.3]";
  } else if (!function.arguments.empty()) {
    arguments = function.arguments[0].otherwise.has_value() ? Some("arg: 0.7") : " arg: 0.7";
  }
  ties_ |= absl::StartsWith(name, "clamp");
  return Put("activation", absl::StrCat("{ fn: \"", name, "\"", arguments, " }"), x_.shape,
             {.parameters = name == "prelu"});
}

bool RandomLayers::Dropout() {
  return Put("dropout", absl::StrCat("{ p: 0.3", Dims() > 2 ? Some("channel: true") : "", " }"), x_.shape);
}

bool RandomLayers::Noise() {
  return Put("noise", absl::StrCat("{ std: 0.25", Some("multiplicative: true"), " }"), x_.shape);
}

bool RandomLayers::Softmax() {
  const int64_t dim = random_.Between(1, Dims() - 1) - (random_.OneIn(2) ? Dims() : 0);
  return Put("softmax", absl::StrCat("{ dim: ", dim, Some("log: true"), " }"), x_.shape);
}

bool RandomLayers::BatchNorm() {
  if (microbatches_ || Dims() < 2 || Dims() > 5) return false;
  const bool affine = random_.OneIn(2);
  return Put("norm", absl::StrCat("{ kind: \"batch\"", Some("momentum: 0.3"), affine ? "" : " affine: false", " }"),
             x_.shape, {.parameters = affine});
}

bool RandomLayers::GroupNorm() {
  const int64_t groups = random_.Between(1, 3);
  if (x_.shape[1] % groups != 0 || Cells(x_.shape) / groups < 2) return false;
  const bool affine = random_.OneIn(2);
  return Put(
      "norm",
      absl::StrCat("{ kind: \"group\" groups: ", groups, Some("eps: 0.001"), affine ? "" : " affine: false", " }"),
      x_.shape, {.parameters = affine});
}

bool RandomLayers::InstanceNorm() {
  if (Spatial() < 1 || Spatial() > 3 || Cells(x_.shape) / x_.shape[1] < 2) return false;
  const bool affine = random_.OneIn(2);
  return Put("norm", absl::StrCat("{ kind: \"instance\"", affine ? " affine: true" : "", " }"), x_.shape,
             {.parameters = affine});
}

bool RandomLayers::LayerNorm() {
  const bool two = Dims() > 2 && random_.OneIn(3);
  const int64_t cells = x_.shape.back() * (two ? x_.shape[Dims() - 2] : 1);
  if (cells < 2) return false;
  const bool rms = random_.OneIn(2), affine = random_.OneIn(2);
  return Put("norm",
             absl::StrCat("{ kind: \"", rms ? "rms\" eps: 1e-5" : "layer\"", two ? " dim: [-2, -1]" : "",
                          affine ? "" : " affine: false", " }"),
             x_.shape, {.parameters = affine});
}

bool RandomLayers::LocalResponseNorm() {
  if (Dims() < 3) return false;
  return Put("local_response_norm",
             absl::StrCat("{ size: ", random_.Between(1, 4), Some("alpha: 0.5"), Some("k: 2"), " }"), x_.shape);
}

bool RandomLayers::Conv() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const int64_t dims = Spatial(), groups = x_.shape[1] % 2 == 0 && random_.OneIn(3) ? 2 : 1;
  const int64_t out = groups * random_.Between(1, 3);
  const bool same = random_.OneIn(4);
  const std::string boundary = random_.Of<std::string>({"zeros", "zeros", "circular", "reflect", "replicate"});
  Shape shape = {x_.shape[0], out};
  std::vector<int64_t> kernel, stride, dilation, lo, hi;
  for (int64_t dim = 0; dim < dims; ++dim) {
    const int64_t extent = x_.shape[dim + 2];
    kernel.push_back(random_.Between(1, 3));
    dilation.push_back(random_.Between(1, 2));
    stride.push_back(random_.Between(1, 2));
    lo.push_back(random_.Between(0, std::min<int64_t>(2, extent - 1)));
    hi.push_back(random_.OneIn(2) ? lo.back() : random_.Between(0, std::min<int64_t>(2, extent - 1)));
    const int64_t reach = dilation.back() * (kernel.back() - 1) + 1;
    if (extent + lo.back() + hi.back() < reach || (same && reach > extent)) return false;
    shape.push_back(same ? extent : (extent + lo.back() + hi.back() - reach) / stride.back() + 1);
  }
  if (!Fits(shape)) return false;
  const std::string window = same ? "padding: \"same\""
                                  : absl::StrCat("stride: ", ListText(stride), " pad_lo: ", ListText(lo),
                                                 " pad_hi: ", ListText(hi), " boundary: \"", boundary, "\"");
  return Put("conv",
             absl::StrCat("{ out_channels: ", out, " groups: ", groups, Some("bias: false"), " window { kernel: ",
                          ListText(kernel), " dilation: ", ListText(dilation), " ", window, " } }"),
             shape, {.parameters = true, .weight = {out, x_.shape[1] / groups}});
}

bool RandomLayers::TransposedConv() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const int64_t dims = Spatial(), groups = x_.shape[1] % 2 == 0 && random_.OneIn(3) ? 2 : 1;
  const int64_t out = groups * random_.Between(1, 2);
  Shape shape = {x_.shape[0], out};
  std::vector<int64_t> kernel, stride, pad, more;
  for (int64_t dim = 0; dim < dims; ++dim) {
    kernel.push_back(random_.Between(1, 3));
    stride.push_back(random_.Between(1, 2));
    pad.push_back(random_.Between(0, kernel.back() - 1));
    more.push_back(random_.Between(0, stride.back() - 1));
    shape.push_back((x_.shape[dim + 2] - 1) * stride.back() - 2 * pad.back() + kernel.back() + more.back());
    if (shape.back() < 1) return false;
  }
  if (!Fits(shape)) return false;
  ties_ = true;
  return Put("conv",
             absl::StrCat("{ transposed: true out_channels: ", out, " groups: ", groups, Some("bias: false"),
                          " output_padding: ", ListText(more), " window { kernel: ", ListText(kernel),
                          " stride: ", ListText(stride), " pad_lo: ", ListText(pad), " } }"),
             shape, {.parameters = true, .weight = {x_.shape[1], out / groups}});
}

bool RandomLayers::Pool() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const std::string mode = random_.Of<std::string>({"max", "avg", "lp"});
  if (mode == "max" && ties_) return false;
  Shape shape = {x_.shape[0], x_.shape[1]};
  std::vector<int64_t> kernel, stride, pad;
  for (int64_t dim = 2; dim < Dims(); ++dim) {
    kernel.push_back(random_.Between(1, 3));
    stride.push_back(random_.Between(1, 3));
    pad.push_back(mode == "lp" ? 0 : random_.Between(0, kernel.back() / 2));
    if (x_.shape[dim] + 2 * pad.back() < kernel.back()) return false;
    // LibTorch refuses a 3-D average of a kernel that needs its padding.
    if (Spatial() == 3 && mode == "avg" && x_.shape[dim] < kernel.back()) return false;
    shape.push_back((x_.shape[dim] + 2 * pad.back() - kernel.back()) / stride.back() + 1);
  }
  // The power's gradient at a sum of 0 is infinite.
  if (mode == "lp") Put("activation", "{ fn: \"softplus\" }", x_.shape);
  std::string more;
  if (mode == "avg") more = Some("count_include_pad: false") + (random_.OneIn(3) ? " divisor_override: 5" : "");
  if (mode == "lp") more = absl::StrCat(" lp: ", random_.Between(1, 3));
  return Put("pool",
             absl::StrCat("{ mode: \"", mode, "\"", more, " window { kernel: ", ListText(kernel),
                          " stride: ", ListText(stride), mode == "lp" ? "" : " pad_lo: " + ListText(pad), " } }"),
             shape);
}

bool RandomLayers::AdaptivePool() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const bool average = ties_ || random_.OneIn(2);
  Shape shape = {x_.shape[0], x_.shape[1]};
  std::vector<int64_t> sizes;
  for (int64_t dim = 2; dim < Dims(); ++dim) {
    const bool same = random_.OneIn(4);
    sizes.push_back(same ? -1 : random_.Between(1, 4));
    shape.push_back(same ? x_.shape[dim] : sizes.back());
    ties_ |= sizes.back() > x_.shape[dim];
  }
  return Put("pool", absl::StrCat("{ mode: \"", average ? "avg" : "max", "\" adaptive_size: ", ListText(sizes), " }"),
             shape);
}

bool RandomLayers::Upsample() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  std::vector<std::string> modes = {"nearest", "nearest-exact", "area",
                                    Spatial() == 1   ? "linear"
                                    : Spatial() == 2 ? "bilinear"
                                                     : "trilinear"};
  if (Spatial() == 2) modes.push_back("bicubic");
  const std::string mode = random_.Of(modes);
  const bool by_scale = random_.OneIn(2);
  Shape shape = {x_.shape[0], x_.shape[1]};
  std::vector<int64_t> sizes;
  for (int64_t dim = 2; dim < Dims(); ++dim) {
    sizes.push_back(by_scale ? random_.Between(1, 2) : random_.Between(1, 8));
    shape.push_back(by_scale ? sizes.back() * x_.shape[dim] : sizes.back());
  }
  if (!Fits(shape)) return false;
  ties_ = true;
  const bool corners = mode.find("linear") != std::string::npos || mode == "bicubic";
  return Put("upsample",
             absl::StrCat("{ mode: \"", mode, "\" ", by_scale ? "scale: " : "size: ", ListText(sizes),
                          corners ? Some("align_corners: true") : "", " }"),
             shape);
}

bool RandomLayers::PixelShuffle() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  const int64_t cells = int64_t{1} << Spatial();
  if (x_.shape[1] % cells != 0) return false;
  Shape shape = x_.shape;
  shape[1] /= cells;
  for (int64_t dim = 2; dim < Dims(); ++dim) shape[dim] *= 2;
  return Put("pixel_shuffle", "{ arg: 2 }", shape);
}

bool RandomLayers::PixelUnshuffle() {
  if (Spatial() < 1 || Spatial() > 3) return false;
  Shape shape = x_.shape;
  for (int64_t dim = 2; dim < Dims(); ++dim) {
    if (shape[dim] % 2 != 0) return false;
    shape[dim] /= 2;
    shape[1] *= 2;
  }
  return Put("pixel_unshuffle", "{ arg: 2 }", shape);
}

bool RandomLayers::CropOrPad() {
  const bool pad = random_.OneIn(2);
  Shape shape = x_.shape;
  std::vector<int64_t> both;
  for (int64_t dim = Dims() - 1; dim >= std::max<int64_t>(1, Dims() - 2); --dim) {
    both.push_back(random_.Between(0, 2));
    both.push_back(random_.Between(0, 1));
    const int64_t change = both[both.size() - 2] + both.back();
    shape[dim] += pad ? change : -change;
    if (shape[dim] < 1) return false;
  }
  if (!Fits(shape)) return false;
  ties_ |= pad;
  return Put(pad ? "pad" : "crop", absl::StrCat("{ arg: ", ListText(both), " }"), shape);
}

bool RandomLayers::Reshape() {
  int64_t left = Cells(x_.shape);
  Shape shape = {x_.shape[0]};
  std::vector<int64_t> sizes;
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    std::vector<int64_t> factors;
    for (int64_t f = 1; f <= left; ++f) {
      if (left % f == 0) factors.push_back(f);
    }
    shape.push_back(i == 1 ? left : random_.Of(factors));
    left /= shape.back();
    sizes.push_back(shape.back());
  }
  if (random_.OneIn(3)) sizes[random_.Between(0, sizes.size() - 1)] = -1;
  return Put("reshape", absl::StrCat("{ arg: ", ListText(sizes), " }"), shape, {.keeps_layout = false});
}

bool RandomLayers::Flatten() {
  if (Dims() < 3) return false;
  const int64_t first = random_.Between(1, Dims() - 2), last = random_.Between(first + 1, Dims() - 1);
  Shape shape(x_.shape.begin(), x_.shape.begin() + first + 1);
  for (int64_t dim = first + 1; dim <= last; ++dim) shape.back() *= x_.shape[dim];
  shape.insert(shape.end(), x_.shape.begin() + last + 1, x_.shape.end());
  return Put("flatten", absl::StrCat("{ arg: [", first, ", ", last, "] }"), shape, {.keeps_layout = false});
}

bool RandomLayers::Permute() {
  if (Dims() < 3) return false;
  std::vector<int64_t> order = {0};
  Shape shape = {x_.shape[0]};
  for (const int dim : random_.Ranks(Dims() - 1, Dims() - 1)) {
    order.push_back(dim + 1);
    shape.push_back(x_.shape[dim + 1]);
  }
  return Put("permute", absl::StrCat("{ arg: ", ListText(order), " }"), shape);
}

// The batch in another dim for a while.
bool RandomLayers::MovedBatch() {
  if (microbatches_ || Dims() < 2) return false;
  std::vector<int64_t> order(Dims());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[1]);
  Shape swapped = x_.shape;
  std::swap(swapped[0], swapped[1]);
  const Shape shape = x_.shape;
  const std::string arguments = absl::StrCat("{ arg: ", ListText(order), " }");
  Value y = writer_.Add("permute", arguments, {x_}, swapped);
  y = writer_.Add("activation", "{ fn: \"silu\" }", {y}, swapped);
  x_ = writer_.Add("permute", arguments, {y}, shape);
  values_.push_back(x_);
  return true;
}

bool RandomLayers::Flip() {
  return Put("flip", absl::StrCat("{ arg: ", random_.Between(1, Dims() - 1), " }"), x_.shape);
}

bool RandomLayers::Roll() {
  return Put("roll", absl::StrCat("{ arg: [", random_.Between(1, Dims() - 1), ", ", random_.Between(-3, 3), "] }"),
             x_.shape);
}

bool RandomLayers::IndexSelect() {
  const int64_t dim = random_.Between(1, Dims() - 1), count = random_.Between(1, 5);
  std::vector<int64_t> arguments = {dim};
  for (int64_t i = 0; i < count; ++i) arguments.push_back(random_.Between(0, x_.shape[dim] - 1));
  Shape shape = x_.shape;
  shape[dim] = count;
  if (!Fits(shape)) return false;
  ties_ = true;
  return Put("index_select", absl::StrCat("{ arg: ", ListText(arguments), " }"), shape);
}

bool RandomLayers::Repeat() {
  Shape shape = x_.shape;
  std::vector<int64_t> times = {1};
  for (int64_t dim = 1; dim < Dims(); ++dim) {
    times.push_back(random_.OneIn(3) ? 2 : 1);
    shape[dim] *= times.back();
  }
  if (!Fits(shape)) return false;
  ties_ = true;
  return Put("repeat", absl::StrCat("{ arg: ", ListText(times), " }"), shape);
}

bool RandomLayers::Expand() {
  if (Dims() > 4) return false;
  const int64_t dim = random_.Between(1, Dims());
  Shape shape = x_.shape;
  shape.insert(shape.begin() + dim, 1);
  Put("reshape", absl::StrCat("{ arg: ", ListText({shape.begin() + 1, shape.end()}), " }"), shape,
      {.keeps_layout = false});
  std::vector<int64_t> arguments(shape.size(), -1);
  arguments[dim] = random_.Between(1, 3);
  shape[dim] = arguments[dim];
  if (!Fits(shape)) return true;
  ties_ = true;
  return Put("expand", absl::StrCat("{ arg: ", ListText(arguments), " }"), shape);
}

bool RandomLayers::Repartition() { return writer_.cut() && Put("repartition", "{}", x_.shape); }

bool RandomLayers::Linear() {
  const int64_t out = random_.Between(1, 8);
  Shape shape = x_.shape;
  shape.back() = out;
  if (!Fits(shape)) return false;
  return Put("linear", absl::StrCat("{ out_features: ", out, Some("bias: false"), " }"), shape,
             {.parameters = true, .weight = {out, x_.shape.back()}});
}

}  // namespace adjoin
