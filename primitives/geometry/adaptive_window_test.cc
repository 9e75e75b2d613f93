#include "primitives/geometry/adaptive_window.h"

#include "gtest/gtest.h"

#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

TEST(AdaptiveWindowTest, EqualsTheFractionsOfEveryOutput) {
  for (int64_t m = 1; m <= 12; ++m) {
    const auto w = *AdaptiveWindow::Create(m);
    for (int64_t n = 1; n <= 30; ++n) {
      EXPECT_EQ(*w.OutputSize(n), m);
      for (int64_t lo = 0; lo < m; ++lo) {
        for (int64_t hi = lo + 1; hi <= m; ++hi) {
          // Input i belongs to output o where the intervals [i, i + 1) / n and [o, o + 1) / m meet.
          int64_t first = -1, last = -1;
          for (int64_t i = 0; i < n; ++i) {
            for (int64_t o = lo; o < hi; ++o) {
              if (i * m >= (o + 1) * n || o * n >= (i + 1) * m) continue;
              if (first < 0) first = i;
              last = i;
            }
          }
          EXPECT_EQ(w.Reads({lo, hi}, n), (Interval{first, last + 1})) << m << " outputs of " << n << ": " << lo;
        }
      }
      EXPECT_TRUE(w.Reads({m, m}, n).empty());
    }
  }
}

TEST(AdaptiveWindowTest, LargeExtentsDoNotOverflow) {
  const int64_t n = int64_t{1} << 50, m = (int64_t{1} << 40) + 1;
  EXPECT_EQ(AdaptiveWindow::Create(m)->Reads({0, m}, n), (Interval{0, n}));
}

TEST(AdaptiveWindowTest, Errors) {
  EXPECT_FALSE(AdaptiveWindow::Create(0).ok());
  EXPECT_FALSE(AdaptiveWindow::Create(3)->OutputSize(0).ok());
}

}  // namespace
}  // namespace adjoin
