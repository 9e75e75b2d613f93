#include "primitives/geometry/transposed_window.h"
#include "base/testing/test_seed.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

TEST(TransposedWindowTest, EqualsCellsWorkedByHand) {
  const auto w = *TransposedWindow::Create({4, 2, 1, 1, 1, 0});
  EXPECT_EQ(*w.OutputSize(5), 10);
  EXPECT_EQ(w.Reads({4, 8}, 5), (Interval{1, 5}));
  EXPECT_EQ(w.Writes({1, 5}), (Interval{1, 11}));
  EXPECT_EQ(w.ToString(), "transposed kernel 4 stride 2 dilation 1 padding 1,1 output_padding 0");
  // A stride larger than the kernel leaves outputs between those that the inputs give to.
  const auto gaps = *TransposedWindow::Create({1, 3, 1, 0, 0, 2});
  EXPECT_EQ(*gaps.OutputSize(2), 6);
  EXPECT_TRUE(gaps.Reads({1, 3}, 2).empty());
  EXPECT_TRUE(gaps.Needed({1, 3}, 2).segments.empty());
  EXPECT_EQ(gaps.Reads({2, 4}, 2), (Interval{1, 2}));
}

TEST(TransposedWindowTest, EqualsALoopOverInputsAndKernel) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 2000; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
    TransposedWindow::Options o{pick(1, 7), pick(1, 4), pick(1, 3), pick(0, 7), pick(0, 7), 0};
    o.output_padding = pick(0, std::max(o.stride, o.dilation) - 1);
    const auto made = TransposedWindow::Create(o);
    ASSERT_TRUE(made.ok()) << made.status() << " ADJOIN_TEST_SEED=" << seed;
    const int64_t n = pick(1, 12);
    // What every input gives to, counted from the first output of the first input without padding.
    int64_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < o.kernel; ++j) last = std::max(last, i * o.stride + j * o.dilation);
    }
    const int64_t outputs = last + 1 - o.pad_lo - o.pad_hi + o.output_padding;
    if (outputs < 1) {
      EXPECT_FALSE(made->OutputSize(n).ok()) << "ADJOIN_TEST_SEED=" << seed;
      continue;
    }
    ASSERT_EQ(*made->OutputSize(n), outputs) << "ADJOIN_TEST_SEED=" << seed;
    const int64_t lo = pick(0, outputs), hi = pick(lo, outputs);
    std::set<int64_t> read, written;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < o.kernel; ++j) {
        const int64_t output = i * o.stride - o.pad_lo + j * o.dilation;
        if (output >= lo && output < hi) read.insert(i);
      }
    }
    // A hull: it may have inputs at its ends only if they give to these outputs, or to others around a gap of theirs.
    const Interval reads = made->Reads({lo, hi}, n);
    for (int64_t i : read) EXPECT_TRUE(i >= reads.lo && i < reads.hi) << "ADJOIN_TEST_SEED=" << seed;
    EXPECT_GE(reads.lo, 0);
    EXPECT_LE(reads.hi, n);
    if (reads.empty()) continue;
    for (int64_t j = 0; j < o.kernel; ++j) {
      written.insert(reads.lo * o.stride - o.pad_lo + j * o.dilation);
      written.insert((reads.hi - 1) * o.stride - o.pad_lo + j * o.dilation);
    }
    // The local kernel's result meets these outputs: it can be cut and extended to them.
    EXPECT_EQ(made->Writes(reads), (Interval{*written.begin(), *written.rbegin() + 1})) << "ADJOIN_TEST_SEED=" << seed;
    EXPECT_FALSE(made->Writes(reads).Intersect({lo, hi}).empty()) << "ADJOIN_TEST_SEED=" << seed;
    EXPECT_EQ(made->Needed({lo, hi}, n).extent, reads.size());
  }
}

TEST(TransposedWindowTest, Errors) {
  const auto message = [](TransposedWindow::Options options) {
    return std::string(TransposedWindow::Create(options).status().message());
  };
  EXPECT_THAT(message({0}), HasSubstr("kernel of a transposed window is 0"));
  EXPECT_THAT(message({3, 1, 1, -1}), HasSubstr("pad_lo"));
  EXPECT_THAT(message({3, 2, 1, 0, 0, 2}), HasSubstr("smaller than the stride, 2"));
  EXPECT_TRUE(TransposedWindow::Create({3, 1, 3, 0, 0, 2}).ok());
  EXPECT_THAT(std::string(TransposedWindow::Create({1, 1, 1, 2, 2})->OutputSize(4).status().message()),
              HasSubstr("its padding is too large"));
  EXPECT_FALSE(TransposedWindow::Create({1})->OutputSize(0).ok());
}

}  // namespace
}  // namespace adjoin
