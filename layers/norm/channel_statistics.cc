#include "layers/norm/channel_statistics.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/kept_in_graph.h"

namespace adjoin {

struct ChannelStatistics::Handover {
  bool expected = false;  // whether Of takes part in the backward pass
  at::Tensor gradient;    // y's gradient
  at::Tensor scale;
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Handover = ChannelStatistics::Handover;

constexpr int64_t kBlock = 2048;  // elements, within the first cache
constexpr int64_t kLanes = 8;     // independent sums, which the compiler keeps in vector registers

// [n, c, s] of a contiguous tensor.
struct Extents {
  explicit Extents(const at::Tensor& x) : n(x.size(0)), c(x.size(1)) { s = n * c == 0 ? 0 : x.numel() / (n * c); }
  int64_t n, c, s;
};

// The sum of term(i) over [0, length).
template <typename Term>
double SumOf(int64_t length, const Term& term) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < length; ++i) lanes[0] += term(i);
  for (int64_t lane = 1; lane < kLanes; ++lane) lanes[0] += lanes[lane];
  return lanes[0];
}

struct Moments {
  double count = 0, mean = 0, squares = 0;
  void Add(const Moments& other) {
    const double both = count + other.count, apart = other.mean - mean;
    if (both == 0) return;
    mean += apart * other.count / both;
    squares += other.squares + apart * apart * count * other.count / both;
    count = both;
  }
};

template <typename Real>
Moments MomentsOf(const Real* x, int64_t length) {
  Moments moments;
  for (int64_t at = 0; at < length; at += kBlock) {
    const int64_t size = std::min(kBlock, length - at);
    const Real* block = x + at;
    const double mean = SumOf(size, [&](int64_t i) { return static_cast<double>(block[i]); }) / size;
    const double squares = SumOf(size, [&](int64_t i) {
      const double apart = static_cast<double>(block[i]) - mean;
      return apart * apart;
    });
    moments.Add({static_cast<double>(size), mean, squares});
  }
  return moments;
}

template <typename Real>
at::Tensor StatisticsOf(const at::Tensor& x) {
  const Extents e(x);
  at::Tensor result = at::zeros({3, e.c}, at::kDouble);
  double* out = result.data_ptr<double>();
  const Real* values = x.data_ptr<Real>();
  at::parallel_for(0, e.c, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      Moments moments;
      for (int64_t n = 0; n < e.n; ++n) moments.Add(MomentsOf(values + (n * e.c + c) * e.s, e.s));
      out[c] = moments.count;
      out[e.c + c] = moments.mean;
      out[2 * e.c + c] = moments.squares;
    }
  });
  return result;
}

// One number per channel in the tensor's own type, in which means may be off by much of a standard deviation, and what
// they lack.
struct Centre {
  explicit Centre(const at::Tensor& mean, at::ScalarType type)
      : near(mean.to(type)), rest(mean - near.to(at::kDouble)) {}
  at::Tensor near;
  at::Tensor rest;  // float64
};

// a * y + b * (x - centre) + d, per channel; `y` may be undefined.
template <typename Real>
at::Tensor Affine(const at::Tensor& y, const at::Tensor& a, const at::Tensor& x, const at::Tensor& b,
                  const at::Tensor& centre, const at::Tensor& d) {
  const Extents e(x);
  at::Tensor result = at::empty_like(x);
  const at::Tensor factors = at::stack({y.defined() ? a.to(x.scalar_type()) : at::zeros_like(centre),
                                        b.to(x.scalar_type()), centre, d.to(x.scalar_type())})
                                 .contiguous();
  const Real* of = factors.data_ptr<Real>();
  const Real* from = x.data_ptr<Real>();
  const Real* other = y.defined() ? y.data_ptr<Real>() : nullptr;
  Real* to = result.data_ptr<Real>();
  at::parallel_for(0, e.n * e.c, 1, [&](int64_t first, int64_t last) {
    for (int64_t plane = first; plane < last; ++plane) {
      const Real* f = of + plane % e.c;
      const Real fa = f[0], fb = f[e.c], fc = f[2 * e.c], fd = f[3 * e.c];
      const Real* px = from + plane * e.s;
      Real* out = to + plane * e.s;
      if (other == nullptr) {
        for (int64_t i = 0; i < e.s; ++i) out[i] = (px[i] - fc) * fb + fd;
      } else {
        const Real* py = other + plane * e.s;
        for (int64_t i = 0; i < e.s; ++i) out[i] = py[i] * fa + ((px[i] - fc) * fb + fd);
      }
    }
  });
  return result;
}

// [2, c]: sums of g, and of g (x - centre).
template <typename Real>
at::Tensor GradientSums(const at::Tensor& g, const at::Tensor& x, const at::Tensor& centre) {
  const Extents e(x);
  at::Tensor result = at::zeros({2, e.c}, at::kDouble);
  double* out = result.data_ptr<double>();
  const Real* gs = g.data_ptr<Real>();
  const Real* xs = x.data_ptr<Real>();
  const Real* near = centre.data_ptr<Real>();
  at::parallel_for(0, e.c, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      for (int64_t n = 0; n < e.n; ++n) {
        const Real* pg = gs + (n * e.c + c) * e.s;
        const Real* px = xs + (n * e.c + c) * e.s;
        const double middle = near[c];
        // In blocks, so that both sums read them from the cache.
        for (int64_t at = 0; at < e.s; at += kBlock) {
          const int64_t size = std::min(kBlock, e.s - at);
          out[c] += SumOf(size, [&](int64_t i) { return static_cast<double>(pg[at + i]); });
          out[e.c + c] += SumOf(size, [&](int64_t i) { return pg[at + i] * (px[at + i] - middle); });
        }
      }
    }
  });
  return result;
}

std::vector<int64_t> AllButChannels(const at::Tensor& x) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

at::Tensor PerChannel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[1] = values.numel();
  return values.reshape(shape);
}

// The same on a device, by LibTorch's operators. Sums are in float64 there, too; what is converted to it is a few
// channels at a time.
namespace on_device {

// of(first, count): what channels [first, first + count) give, its last dim by channel. Joined: that of all channels.
template <typename Of>
at::Tensor ByChannels(const at::Tensor& x, const Of& of) {
  constexpr int64_t kElements = int64_t{1} << 23;  // converted at once
  const Extents e(x);
  const int64_t step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, e.n * e.s));
  if (e.c <= step) return of(0, e.c);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < e.c; first += step) parts.push_back(of(first, std::min(step, e.c - first)));
  return at::cat(parts, -1);
}

at::Tensor StatisticsOf(const at::Tensor& x) {
  const Extents e(x);
  const at::TensorOptions options = x.options().dtype(at::kDouble);
  if (x.numel() == 0) return at::zeros({3, e.c}, options);
  const auto dims = AllButChannels(x);
  const auto count = static_cast<double>(e.n * e.s);
  return ByChannels(x, [&](int64_t first, int64_t channels) {
    const at::Tensor part = x.narrow(1, first, channels);
    const at::Tensor mean = part.sum(dims, /*keepdim=*/false, at::kDouble) / count;
    const at::Tensor squares = (part.to(at::kDouble) - PerChannel(mean, part)).square_().sum(dims);
    return at::stack({at::full({channels}, count, options), mean, squares});
  });
}

at::Tensor Affine(const at::Tensor& y, const at::Tensor& a, const at::Tensor& x, const at::Tensor& b,
                  const at::Tensor& centre, const at::Tensor& d) {
  const auto factor = [&x](const at::Tensor& values) { return PerChannel(values.to(x.scalar_type()), x); };
  at::Tensor result = (x - PerChannel(centre, x)).mul_(factor(b)).add_(factor(d));
  if (y.defined()) result.addcmul_(y, factor(a));
  return result;
}

at::Tensor GradientSums(const at::Tensor& g, const at::Tensor& x, const at::Tensor& centre) {
  const auto dims = AllButChannels(x);
  if (x.numel() == 0) return at::zeros({2, x.size(1)}, x.options().dtype(at::kDouble));
  return ByChannels(x, [&](int64_t first, int64_t channels) {
    const at::Tensor of_g = g.narrow(1, first, channels), part = x.narrow(1, first, channels);
    const at::Tensor middle = centre.narrow(0, first, channels).to(at::kDouble);
    const at::Tensor products = (part.to(at::kDouble) - PerChannel(middle, part)).mul_(of_g);
    return at::stack({of_g.sum(dims, /*keepdim=*/false, at::kDouble), products.sum(dims)});
  });
}

}  // namespace on_device

// `function` of x's type where x is on the CPU.
#define ADJOIN_BY_TYPE(x, function, ...)                                \
  (!(x).is_cpu()                     ? on_device::function(__VA_ARGS__) \
   : (x).scalar_type() == at::kFloat ? function<float>(__VA_ARGS__)     \
                                     : function<double>(__VA_ARGS__))

class StatisticsFunction : public torch::autograd::Function<StatisticsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::shared_ptr<Handover> handover) {
    const at::Tensor statistics = ADJOIN_BY_TYPE(x, StatisticsOf, x.contiguous());
    ctx->save_for_backward({x, statistics});
    KeepInGraph(ctx, handover);
    return statistics;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& of_mean = gradients[0][1];
    const at::Tensor& of_squares = gradients[0][2];
    // d mean / dx = 1 / count, d squares / dx = 2 (x - mean)
    if (at::GradMode::is_enabled()) {
      const double count = std::max<double>(1, static_cast<double>(x.numel()) / std::max<int64_t>(1, x.size(1)));
      const at::Tensor centered = x - x.mean(AllButChannels(x), /*keepdim=*/true);
      return {(PerChannel(of_mean / count, x) + centered * PerChannel(2 * of_squares, x)).to(x.scalar_type()),
              at::Tensor()};
    }
    Handover& handover = KeptInGraph<Handover>(ctx);
    const at::Tensor count = saved[1][0].clamp_min(1), mean = saved[1][1];
    const Centre centre(mean, x.scalar_type());
    const at::Tensor slope = 2 * of_squares, shift = of_mean / count - slope * centre.rest;
    at::Tensor gradient =
        ADJOIN_BY_TYPE(x, Affine, handover.gradient, handover.scale, x.contiguous(), slope, centre.near, shift);
    handover.gradient = handover.scale = at::Tensor();
    return {gradient, at::Tensor()};
  }
};

class NormaliseFunction : public torch::autograd::Function<NormaliseFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale,
                            const at::Tensor& bias, std::shared_ptr<Handover> handover) {
    ctx->save_for_backward({x, mean, scale});
    KeepInGraph(ctx, handover);
    const Centre centre(mean, x.scalar_type());
    const at::Tensor shift = bias.to(at::kDouble) - centre.rest * scale;
    return ADJOIN_BY_TYPE(x, Affine, at::Tensor(), at::Tensor(), x.contiguous(), scale, centre.near, shift);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &mean = saved[1], &scale = saved[2];
    Handover& handover = KeptInGraph<Handover>(ctx);
    handover.gradient = handover.scale = at::Tensor();
    if (at::GradMode::is_enabled()) {
      const auto dims = AllButChannels(x);
      const at::Tensor& g = gradients[0];
      const at::Tensor wide = g.to(at::kDouble), sum = wide.sum(dims);
      const at::Tensor of_scale = (wide * (x.to(at::kDouble) - PerChannel(mean, x))).sum(dims);
      return {g * PerChannel(scale, x).to(x.scalar_type()), -scale * sum, of_scale, sum.to(x.scalar_type()),
              at::Tensor()};
    }
    const at::Tensor g = gradients[0].contiguous();
    const Centre centre(mean, x.scalar_type());
    const at::Tensor sums = ADJOIN_BY_TYPE(x, GradientSums, g, x.contiguous(), centre.near);
    at::Tensor of_x;
    if (!ctx->needs_input_grad(0)) {
      // No pass through Of follows that would take it.
    } else if (handover.expected) {
      // Without their graphs, which lead to the node that holds the handover: neither would ever be freed.
      handover.gradient = g.detach();
      handover.scale = scale.detach();
    } else {
      of_x = g * PerChannel(scale, x).to(x.scalar_type());
    }
    return {of_x, -scale * sums[0], sums[1] - centre.rest * sums[0], sums[0].to(x.scalar_type()), at::Tensor()};
  }
};

}  // namespace

ChannelStatistics::ChannelStatistics() : handover_(std::make_shared<Handover>()) {}

at::Tensor ChannelStatistics::Of(const at::Tensor& x) {
  handover_->expected = x.requires_grad();
  return StatisticsFunction::apply(x, handover_);
}

at::Tensor ChannelStatistics::Normalised(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale,
                                         const at::Tensor& bias) {
  return NormaliseFunction::apply(x, mean, scale, bias.defined() ? bias : at::zeros({x.size(1)}, x.options()),
                                  handover_);
}

at::Tensor MergeStatistics(const at::Tensor& parts) {
  const at::Tensor count = parts.select(1, 0), mean = parts.select(1, 1), squares = parts.select(1, 2);
  const at::Tensor all = count.sum(0), of_all = (count * mean).sum(0) / all;
  return at::stack({all, of_all, (squares + count * (mean - of_all).square()).sum(0)});
}

}  // namespace adjoin
