#include "layers/placed_random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace adjoin {
namespace {

constexpr uint64_t kSeed = 5, kStep = 77;

int64_t IndexOf(const std::vector<int64_t>& at, const std::vector<int64_t>& shape, int64_t first_sample) {
  int64_t index = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) index = index * shape[dim] + at[dim] + (dim == 0 ? first_sample : 0);
  return index;
}

double NormalAt(int64_t index) {
  const int64_t even = index - index % 2;
  const double u = UniformAt(kSeed, kPurposeNoise, kStep, even), v = UniformAt(kSeed, kPurposeNoise, kStep, even + 1);
  const double radius = std::sqrt(-2 * std::log(1 - u));
  return radius * (index % 2 == 0 ? std::cos(2 * M_PI * v) : std::sin(2 * M_PI * v));
}

TEST(PlacedRandomTest, EveryCellHasTheNumberOfItsPosition) {
  std::mt19937_64 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const RandomStream stream(kSeed, kPurposeNoise, kStep);
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> shape(1 + below(4));
    std::vector<Interval> dims;
    for (int64_t& extent : shape) {
      extent = 1 + below(9);
      const int64_t lo = below(2) == 0 ? 0 : below(extent + 1);
      dims.push_back({lo, lo == 0 && below(2) == 0 ? extent : lo + below(extent - lo + 1)});
    }
    const Box box(dims);
    const int64_t first = below(20);
    const at::Tensor kept = PlacedKept(stream, first, shape, box, 0.4);
    const at::Tensor normals = PlacedNormals(stream, first, shape, box, at::kDouble);
    ASSERT_EQ(kept.sizes().vec(), box.Shape());
    ASSERT_EQ(normals.sizes().vec(), box.Shape());
    ASSERT_EQ(PlacedNormals(stream, first, shape, box, at::kBFloat16).scalar_type(), at::kBFloat16);
    const auto flat_kept = kept.flatten(), flat_normals = normals.flatten();
    for (int64_t cell = 0; cell < box.Volume(); ++cell) {
      std::vector<int64_t> at(shape.size());
      int64_t rest = cell;
      for (size_t dim = shape.size(); dim-- > 0; rest /= box[dim].size())
        at[dim] = box[dim].lo + rest % box[dim].size();
      const int64_t index = IndexOf(at, shape, first);
      ASSERT_EQ(flat_kept[cell].item<bool>(), UniformAt(kSeed, kPurposeNoise, kStep, index) >= 0.4) << box.ToString();
      ASSERT_NEAR(flat_normals[cell].item<double>(), NormalAt(index), 1e-12) << box.ToString();
    }
  }
}

TEST(PlacedRandomTest, SharesAndMomentsAreThoseOfTheirDistributions) {
  const RandomStream stream(kSeed, kPurposeNoise, kStep);
  const std::vector<int64_t> shape = {10, 1000, 10};
  const Box all = Box::Whole(shape);
  // Five standard deviations of the mean of 100,000 numbers.
  for (const double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const double share = PlacedKept(stream, 0, shape, all, p).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, 1 - p, 5 * std::sqrt(p * (1 - p) / 1e5)) << p;
  }
  const at::Tensor normals = PlacedNormals(stream, 0, shape, all, at::kDouble);
  EXPECT_NEAR(normals.mean().item<double>(), 0, 5 / std::sqrt(1e5));
  EXPECT_NEAR(normals.square().mean().item<double>(), 1, 5 * std::sqrt(2 / 1e5));
  EXPECT_NEAR(normals.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / 1e5));
}

}  // namespace
}  // namespace adjoin
