#include "primitives/geometry/fingerprint.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

TEST(FingerprintTest, TellsRandomMovementsApart) {
  Draw draw = Draw::FromEnvironment();
  std::map<uint64_t, std::string> seen;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<int64_t> shape = draw.Integers(draw.Between(0, 3), 1, 5);
    const Mesh mesh = RandomMesh(draw);
    const Layout from = RandomLayout(draw, shape, mesh);
    const Layout to = RandomLayout(draw, shape, RelatedMesh(draw, mesh));
    const std::string what = absl::StrCat(from.ToString(), " -> ", to.ToString());
    const uint64_t fingerprint = FingerprintOf(Distribution::Of(from), Distribution::Of(to));
    EXPECT_EQ(fingerprint, FingerprintOf(Distribution::Of(from), Distribution::Of(to)));
    const auto [it, inserted] = seen.emplace(fingerprint, what);
    if (!inserted) {
      EXPECT_EQ(it->second, what);
    }
  }
}

TEST(FingerprintTest, DependsOnWindowsAndTypes) {
  const Layout x = *Layout::Partition({12}, DType::kFloat32, {2}, {0, 1});
  const auto fetched = [&](int64_t kernel, Boundary boundary) {
    Window::Options options;
    options.kernel = kernel;
    options.pad_lo = options.pad_hi = kernel / 2;
    options.boundary = boundary;
    return FingerprintOf(Distribution::Of(x), *Distribution::Reads(x, {{0, *Window::Create(options)}}, x));
  };
  EXPECT_NE(fetched(3, Boundary::kZeros), fetched(5, Boundary::kZeros));
  EXPECT_NE(fetched(3, Boundary::kZeros), fetched(3, Boundary::kCircular));
  const Layout wide = x.WithDType(DType::kFloat64);
  EXPECT_NE(FingerprintOf(Distribution::Of(x), Distribution::Of(x)),
            FingerprintOf(Distribution::Of(wide), Distribution::Of(wide)));
}

}  // namespace
}  // namespace adjoin
