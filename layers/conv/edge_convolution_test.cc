// Parts of one image on one process, their edges cut out of it by the test, against LibTorch's convolution of the
// whole.
#include "layers/conv/edge_convolution.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "gtest/gtest.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

struct Case {
  std::vector<Window> windows;                // per spatial dim
  std::vector<std::vector<int64_t>> outputs;  // of each part of that dim
  int64_t groups = 1;

  int spatial() const { return static_cast<int>(windows.size()); }
  const Window::Options& window(int i) const { return windows[i].options(); }
  int64_t Parts(int i) const { return static_cast<int64_t>(outputs[i].size()); }
  int64_t Inputs(int i, int64_t part) const { return window(i).stride * outputs[i][part]; }
  int64_t Extent(int i) const {
    return window(i).stride * std::accumulate(outputs[i].begin(), outputs[i].end(), int64_t{0});
  }
  // Cells that a part's outputs read beside it.
  int64_t Before(int i) const { return window(i).pad_lo; }
  int64_t After(int i) const {
    return std::max<int64_t>(0, window(i).dilation * (window(i).kernel - 1) + 1 - window(i).pad_lo - window(i).stride);
  }
  bool HasEdges(int i) const { return Parts(i) > 1 && Before(i) > 0; }
};

Case RandomCase(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return lo + static_cast<int>(random() % (hi - lo + 1)); };
  Case c;
  const int spatial = pick(1, 3);
  while (c.spatial() < spatial) {
    Window::Options options;
    options.kernel = pick(1, spatial == 3 ? 3 : 5);
    options.stride = pick(1, 3);
    options.dilation = pick(1, 2);
    // What the padding leaves of a window is at most a step.
    const int64_t inside = pick(1, static_cast<int>(options.stride)),
                  read = options.dilation * (options.kernel - 1) + 1;
    if (read < inside || (read - inside) % 2 != 0) continue;
    options.pad_lo = options.pad_hi = (read - inside) / 2;
    c.windows.push_back(Window::Create(options).value());
    c.outputs.emplace_back(pick(1, 3));
    const int i = c.spatial() - 1;
    const int64_t least = (c.Before(i) + c.After(i) + options.stride - 1) / options.stride;
    for (int64_t& outputs : c.outputs.back()) outputs = std::max<int64_t>(1, least) + pick(0, 2);
  }
  c.groups = pick(1, 2);
  return c;
}

// The image's parts; each one's outer edges come from the padded image, dim by dim.
at::Tensor ByParts(const Case& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int spatial = c.spatial();
  std::vector<int> cut;
  int64_t count = 1;
  for (int i = 0; i < spatial; ++i) {
    if (c.HasEdges(i)) cut.push_back(i + 2);
    count *= c.Parts(i);
  }
  std::vector<at::Tensor> results;
  for (int64_t part = 0; part < count; ++part) {
    std::vector<int64_t> at(spatial), size(spatial);
    int64_t rest = part;
    for (int i = spatial - 1; i >= 0; --i) {
      for (int64_t before = 0; before < rest % c.Parts(i); ++before) at[i] += c.Inputs(i, before);
      size[i] = c.Inputs(i, rest % c.Parts(i));
      rest /= c.Parts(i);
    }
    at::Tensor own = x;
    for (int i = 0; i < spatial; ++i) own = own.narrow(i + 2, at[i], size[i]);
    own = own.clone();  // as what a layer before it returned
    std::vector<EdgeConvolution::Cut> cuts;
    for (int dim : cut) cuts.push_back({dim, at[dim - 2] > 0, at[dim - 2] + size[dim - 2] < c.Extent(dim - 2)});
    EdgeConvolution pass({.windows = c.windows, .groups = c.groups, .cut = cuts});
    const std::vector<at::Tensor> inner = pass.TakeEdges(own);
    // The neighbours' cells; zero times the own edges' sum stands for the movement, which hangs on them in the graph,
    // and zero times these cells' for the tape, on which each movement hangs, also where none of its cells is read.
    std::vector<at::Tensor> outer;
    for (size_t k = 0; k < cut.size(); ++k) {
      const int dim = cut[k];
      at::Tensor wide = x;
      for (int later : cut) {
        if (later < dim) continue;
        std::vector<int64_t> padding(2 * x.dim(), 0);
        const size_t of = 2 * (x.dim() - 1 - later);
        padding[of] = c.Before(later - 2);
        padding[of + 1] = c.After(later - 2);
        wide = at::constant_pad_nd(wide, padding, 0);
      }
      for (int i = 0; i < spatial; ++i) {
        const bool haloed = c.HasEdges(i) && i + 2 > dim;
        if (i + 2 != dim) wide = wide.narrow(i + 2, at[i], size[i] + (haloed ? c.Before(i) + c.After(i) : 0));
      }
      const int64_t before = c.Before(dim - 2), after = c.After(dim - 2);
      outer.push_back(at::cat({wide.narrow(dim, at[dim - 2], before),
                               wide.narrow(dim, at[dim - 2] + before + size[dim - 2], after)},
                              dim) +
                      0 * inner[k].sum());
    }
    at::Tensor y = pass.AddEdges(pass.Interior(own, weight, bias), outer, weight);
    for (const at::Tensor& cells : outer) y = y + 0 * cells.sum();
    results.push_back(y);
  }
  // Put together again, innermost dim first.
  for (int i = spatial - 1; i >= 0; --i) {
    std::vector<at::Tensor> joined;
    for (size_t first = 0; first < results.size(); first += c.Parts(i)) {
      const auto begin = results.begin() + static_cast<int64_t>(first);
      joined.push_back(at::cat(std::vector<at::Tensor>(begin, begin + c.Parts(i)), i + 2));
    }
    results = joined;
  }
  return results[0];
}

at::Tensor Whole(const Case& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<int64_t> stride, padding, dilation;
  for (const Window& window : c.windows) {
    stride.push_back(window.options().stride);
    padding.push_back(window.options().pad_lo);
    dilation.push_back(window.options().dilation);
  }
  return at::convolution(x, weight, bias, stride, padding, dilation, false, std::vector<int64_t>(c.spatial(), 0),
                         c.groups);
}

// Relative to the largest element: second gradients are sums of many products.
double Difference(const at::Tensor& found, const at::Tensor& expected) {
  return (found - expected).abs().max().item<double>() / std::max(1.0, expected.abs().max().item<double>());
}

TEST(EdgeConvolutionTest, ValuesAndTwoGradients) {
  const uint64_t first = TestSeed(0);
  int with_edges = 0, with_strides = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    const Case c = RandomCase(random);
    std::vector<int64_t> x_shape = {2, 2 * c.groups}, w_shape = {c.groups, 2};
    bool edges = false, strides = false;
    for (int i = 0; i < c.spatial(); ++i) {
      x_shape.push_back(c.Extent(i));
      w_shape.push_back(c.window(i).kernel);
      edges = edges || c.HasEdges(i);
      strides = strides || (c.HasEdges(i) && c.window(i).stride > 1);
    }
    with_edges += edges;
    with_strides += strides;
    const at::Tensor x = at::randn(x_shape, at::kDouble).requires_grad_();
    const at::Tensor weight = at::randn(w_shape, at::kDouble).requires_grad_();
    const at::Tensor bias = at::randn({c.groups}, at::kDouble).requires_grad_();
    const std::vector<at::Tensor> leaves = {x, weight, bias};
    std::vector<at::Tensor> results[2];
    for (const bool whole : {false, true}) {
      const auto forward = [&] { return whole ? Whole(c, x, weight, bias) : ByParts(c, x, weight, bias); };
      std::vector<at::Tensor>& result = results[whole];
      result.push_back(forward());
      for (const at::Tensor& g : torch::autograd::grad({forward().pow(3).sum()}, leaves)) result.push_back(g);
      const auto once = torch::autograd::grad({forward().pow(3).sum()}, leaves, {}, true, /*create_graph=*/true);
      const auto sum = once[0].pow(2).sum() + once[1].pow(2).sum() + once[2].pow(2).sum();
      for (const at::Tensor& g : torch::autograd::grad({sum}, leaves)) result.push_back(g);
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      ASSERT_EQ(results[0][i].sizes(), results[1][i].sizes()) << "result " << i << " ADJOIN_TEST_SEED=" << seed;
      EXPECT_LT(Difference(results[0][i], results[1][i]), 1e-10) << "result " << i << " ADJOIN_TEST_SEED=" << seed;
    }
  }
  EXPECT_GT(with_edges, 30);
  EXPECT_GT(with_strides, 10);
}

}  // namespace
}  // namespace adjoin
