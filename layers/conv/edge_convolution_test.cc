// Parts of one image on one process, their edges cut out of it by the test, against LibTorch's convolution of the
// whole.
#include "layers/conv/edge_convolution.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <random>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

struct Case {
  std::vector<int64_t> kernel, dilation, padding, extent, parts;  // per spatial dim
  int64_t groups = 1;
};

Case RandomCase(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return lo + static_cast<int>(random() % (hi - lo + 1)); };
  Case c;
  const int spatial = pick(1, 3);
  for (int i = 0; i < spatial; ++i) {
    const int64_t reach = pick(0, 2), dilation = pick(1, 2);
    c.kernel.push_back(2 * reach + 1);
    c.dilation.push_back(dilation);
    c.padding.push_back(reach * dilation);
    c.parts.push_back(reach > 0 ? pick(1, 3) : 1);
    c.extent.push_back(c.parts.back() * (std::max<int64_t>(1, 2 * c.padding.back()) + pick(0, 1)));
  }
  c.groups = pick(1, 2);
  return c;
}

// The image cut at even positions; each part's outer edges come from the padded image, dim by dim.
at::Tensor ByParts(const Case& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int spatial = static_cast<int>(c.kernel.size());
  std::vector<int> cut;
  for (int i = 0; i < spatial; ++i) {
    if (c.parts[i] > 1) cut.push_back(i + 2);
  }
  int64_t count = 1;
  for (int64_t parts : c.parts) count *= parts;
  std::vector<at::Tensor> results;
  for (int64_t part = 0; part < count; ++part) {
    std::vector<int64_t> at(spatial), size(spatial);
    for (int64_t i = spatial - 1, rest = part; i >= 0; rest /= c.parts[i], --i) {
      size[i] = c.extent[i] / c.parts[i];
      at[i] = rest % c.parts[i] * size[i];
    }
    at::Tensor own = x;
    for (int i = 0; i < spatial; ++i) own = own.narrow(i + 2, at[i], size[i]);
    own = own.clone();  // as what a layer before it returned
    std::vector<EdgeConvolution::Cut> cuts;
    for (int dim : cut) cuts.push_back({dim, at[dim - 2] > 0, at[dim - 2] + size[dim - 2] < c.extent[dim - 2]});
    EdgeConvolution pass({c.padding, c.dilation, c.groups, cuts});
    const std::vector<at::Tensor> inner = pass.TakeEdges(own);
    // The neighbours' cells; zero times the own edges' sum stands for the movement, which hangs on them in the graph.
    std::vector<at::Tensor> outer;
    for (size_t k = 0; k < cut.size(); ++k) {
      const int dim = cut[k];
      at::Tensor wide = x;
      for (int later : cut) {
        if (later < dim) continue;
        std::vector<int64_t> padding(2 * x.dim(), 0);
        const size_t of = 2 * (x.dim() - 1 - later);
        padding[of] = padding[of + 1] = c.padding[later - 2];
        wide = at::constant_pad_nd(wide, padding, 0);
      }
      for (int i = 0; i < spatial; ++i) {
        const bool haloed = c.parts[i] > 1 && i + 2 > dim;
        if (i + 2 != dim) wide = wide.narrow(i + 2, at[i], size[i] + (haloed ? 2 * c.padding[i] : 0));
      }
      const int64_t reach = c.padding[dim - 2];
      outer.push_back(
          at::cat({wide.narrow(dim, at[dim - 2], reach), wide.narrow(dim, at[dim - 2] + reach + size[dim - 2], reach)},
                  dim) +
          0 * inner[k].sum());
    }
    const at::Tensor y = pass.AddEdges(pass.Interior(own, weight, bias), outer, weight);
    results.push_back(y);
  }
  // Put together again, innermost dim first.
  for (int i = spatial - 1; i >= 0; --i) {
    std::vector<at::Tensor> joined;
    for (size_t first = 0; first < results.size(); first += c.parts[i]) {
      const auto begin = results.begin() + static_cast<int64_t>(first);
      joined.push_back(at::cat(std::vector<at::Tensor>(begin, begin + c.parts[i]), i + 2));
    }
    results = joined;
  }
  return results[0];
}

at::Tensor Whole(const Case& c, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const std::vector<int64_t> ones(c.kernel.size(), 1), zeros(c.kernel.size(), 0);
  return at::convolution(x, weight, bias, ones, c.padding, c.dilation, false, zeros, c.groups);
}

TEST(EdgeConvolutionTest, ValuesAndTwoGradients) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    const Case c = RandomCase(random);
    std::vector<int64_t> x_shape = {2, 2 * c.groups}, w_shape = {c.groups, 2};
    x_shape.insert(x_shape.end(), c.extent.begin(), c.extent.end());
    w_shape.insert(w_shape.end(), c.kernel.begin(), c.kernel.end());
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
      EXPECT_TRUE(at::allclose(results[0][i], results[1][i], 1e-9, 1e-9))
          << "result " << i << " ADJOIN_TEST_SEED=" << seed;
    }
  }
}

}  // namespace
}  // namespace adjoin
