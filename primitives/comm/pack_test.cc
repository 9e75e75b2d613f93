#include "primitives/comm/pack.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

// The offsets of a region's elements, counted out one by one.
std::vector<int64_t> Offsets(const std::vector<int64_t>& shape, const Region& region) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < VolumeOf(region.size); ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    int64_t stride = 1;
    for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) {
      offset += (region.at[dim] + rest % region.size[dim]) * stride;
      rest /= region.size[dim];
      stride *= shape[dim];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

struct Case {
  std::vector<int64_t> shape;
  std::vector<Region> regions;
  std::vector<int64_t> offsets;  // offsets of the message's elements
};

Case RandomCase(std::mt19937_64& random) {
  auto between = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  Case c;
  const int64_t dims = between(0, 5);
  for (int64_t d = 0; d < dims; ++d) c.shape.push_back(between(1, 5));
  const int64_t count = between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    Region region;
    for (int64_t extent : c.shape) {
      const int64_t size = between(0, 2) == 0 ? extent : between(0, extent);
      region.size.push_back(size);
      region.at.push_back(between(0, extent - size));
    }
    for (int64_t offset : Offsets(c.shape, region)) c.offsets.push_back(offset);
    c.regions.push_back(region);
  }
  return c;
}

template <typename T>
void CheckCase(DType dtype, const Case& c) {
  HostMemory memory;
  std::vector<T> tensor(VolumeOf(c.shape));
  std::iota(tensor.begin(), tensor.end(), T(1));
  std::vector<T> message(c.offsets.size() + 1, T(-1));
  ASSERT_TRUE(Pack(memory, dtype, c.shape, c.regions, tensor.data(), message.data()).ok());
  for (std::size_t i = 0; i < c.offsets.size(); ++i) ASSERT_EQ(message[i], tensor[c.offsets[i]]);
  ASSERT_EQ(message.back(), T(-1)) << "written beyond the message";

  std::vector<T> expected(tensor.size(), T(0));
  std::vector<T> got = expected;
  for (std::size_t i = 0; i < c.offsets.size(); ++i) expected[c.offsets[i]] = message[i];
  ASSERT_TRUE(Unpack(memory, dtype, std::nullopt, c.shape, c.regions, message.data(), got.data()).ok());
  ASSERT_EQ(got, expected);

  bool run = true;
  for (std::size_t i = 1; i < c.offsets.size(); ++i) run = run && c.offsets[i] == c.offsets[i - 1] + 1;
  const auto found = RunOf(c.shape, c.regions);
  if (!c.offsets.empty()) {
    ASSERT_EQ(found.has_value(), run);
    if (run) {
      ASSERT_EQ(*found, c.offsets[0]);
    }
  }
}

TEST(PackTest, PacksRegionsCountedByHand) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 3000; ++i) {
    const Case c = RandomCase(random);
    CheckCase<int16_t>(DType::kBFloat16, c);
    CheckCase<float>(DType::kFloat32, c);
    CheckCase<double>(DType::kFloat64, c);
    if (HasFatalFailure()) return;
  }
}

TEST(PackTest, CombinesAndCopiesBetweenTensors) {
  std::mt19937_64 random(TestSeed());
  HostMemory memory;
  for (int i = 0; i < 3000; ++i) {
    const Case from = RandomCase(random);
    // The same sizes at the corner of a larger tensor.
    std::vector<int64_t> shape = from.shape;
    for (int64_t& extent : shape) extent += 2;
    std::vector<Region> regions = from.regions;
    std::vector<int64_t> offsets;
    for (Region& region : regions) {
      for (int64_t& at : region.at) at = 2;
      for (std::size_t d = 0; d < shape.size(); ++d) region.at[d] = shape[d] - region.size[d];
      for (int64_t offset : Offsets(shape, region)) offsets.push_back(offset);
    }
    std::vector<double> source(VolumeOf(from.shape));
    std::iota(source.begin(), source.end(), 1.0);
    for (const std::optional<ReduceOp> op :
         {std::optional<ReduceOp>(), std::make_optional(ReduceOp::kSum), std::make_optional(ReduceOp::kMax)}) {
      std::vector<double> got(VolumeOf(shape), 7);
      std::vector<double> expected = got;
      for (std::size_t e = 0; e < offsets.size(); ++e) {
        const double old = expected[offsets[e]];
        const double value = source[from.offsets[e]];
        expected[offsets[e]] = op == ReduceOp::kSum ? old + value : op == ReduceOp::kMax ? std::max(old, value) : value;
      }
      ASSERT_TRUE(
          CopyRegions(memory, DType::kFloat64, op, from.shape, from.regions, source.data(), shape, regions, got.data())
              .ok());
      ASSERT_EQ(got, expected);
      std::vector<double> message(from.offsets.size());
      ASSERT_TRUE(Pack(memory, DType::kFloat64, from.shape, from.regions, source.data(), message.data()).ok());
      std::vector<double> unpacked(VolumeOf(shape), 7);
      ASSERT_TRUE(Unpack(memory, DType::kFloat64, op, shape, regions, message.data(), unpacked.data()).ok());
      ASSERT_EQ(unpacked, expected);
    }
  }
}

TEST(PackTest, RefusesRegionsThatDiffer) {
  HostMemory memory;
  double from[4] = {1, 2, 3, 4};
  double to[4] = {};
  const absl::Status status =
      CopyRegions(memory, DType::kFloat64, std::nullopt, {4}, {{{0}, {2}}}, from, {4}, {{{0}, {3}}}, to);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace adjoin
