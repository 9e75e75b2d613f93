#include "primitives/geometry/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;

Window::Options OptionsOf(int64_t kernel, int64_t stride, int64_t pad, Boundary boundary = Boundary::kZeros) {
  Window::Options options;
  options.kernel = kernel;
  options.stride = stride;
  options.pad_lo = options.pad_hi = pad;
  options.boundary = boundary;
  return options;
}

Numbers BoundariesOf(const Numbers& sizes) {
  Numbers boundaries = {0};
  for (int64_t size : sizes) boundaries.push_back(boundaries.back() + size);
  return boundaries;
}

TEST(WindowTest, GivesTextbookHalos) {
  const struct {
    const char* name;
    Window::Options options;
    int64_t n;
    int64_t parts;
    int64_t m;
    Numbers outputs, left, right;
  } cases[] = {
      {"uniform", OptionsOf(5, 1, 2), 11, 3, 11, {4, 4, 3}, {0, 2, 2}, {2, 2, 0}},
      {"unbalanced", OptionsOf(5, 1, 0), 11, 3, 7, {3, 2, 2}, {0, 1, 3}, {3, 1, 0}},
      {"simple", OptionsOf(2, 2, 0), 10, 3, 5, {2, 2, 1}, {0, 0, -1}, {0, 1, 0}},
      {"complicated", OptionsOf(2, 2, 0), 20, 6, 10, {2, 2, 2, 2, 1, 1}, {0, 0, 0, -1, -2, -1}, {0, 0, 1, 2, 1, 0}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Window window = *Window::Create(c.options);
    EXPECT_EQ(*window.OutputSize(c.n), c.m);
    EXPECT_EQ(BalancedSizes(c.m, c.parts), c.outputs);
    const Numbers in = BoundariesOf(BalancedSizes(c.n, c.parts));
    const Numbers out = BoundariesOf(c.outputs);
    for (int64_t p = 0; p < c.parts; ++p) {
      const Need need = window.Needed({out[p], out[p + 1]}, c.n);
      ASSERT_EQ(need.segments.size(), 1u);
      EXPECT_EQ(in[p] - need.segments[0].source.lo, c.left[p]);
      EXPECT_EQ(need.segments[0].source.hi - in[p + 1], c.right[p]);
    }
  }
}

TEST(WindowTest, GivesTheExampleOfTheHeader) {
  const Window window = *Window::Create(OptionsOf(5, 1, 2));
  EXPECT_EQ(*window.OutputSize(11), 11);
  const Need need = window.Needed({4, 8}, 11);
  EXPECT_EQ(need.extent, 8);
  EXPECT_EQ(need.segments, (std::vector<Segment>{{{2, 10}, 0}}));
  EXPECT_TRUE(window.IndexMap({4, 8}, 11).empty());
  EXPECT_EQ(window.ToString(), "kernel 5 stride 1 dilation 1 padding 2,2 zeros");
}

TEST(WindowTest, Boundaries) {
  // Input 0 1 2 3, padded by 2.
  const Need zeros = Window::Create(OptionsOf(3, 1, 2))->Needed({0, 6}, 4);
  EXPECT_EQ(zeros.extent, 8);
  EXPECT_EQ(zeros.segments, (std::vector<Segment>{{{0, 4}, 2}}));
  const Window wraps = Window::Create(OptionsOf(3, 1, 2, Boundary::kCircular)).value();
  const Need circular = wraps.Needed({0, 6}, 4);
  EXPECT_EQ(circular.segments, (std::vector<Segment>{{{2, 4}, 0}, {{0, 4}, 2}, {{0, 2}, 6}}));
  EXPECT_TRUE(wraps.IndexMap({0, 6}, 4).empty());
  const Window mirrors = Window::Create(OptionsOf(3, 1, 2, Boundary::kReflect)).value();
  const Need reflect = mirrors.Needed({0, 1}, 4);
  EXPECT_EQ(reflect.segments, (std::vector<Segment>{{{0, 3}, 0}}));
  EXPECT_EQ(mirrors.IndexMap({0, 1}, 4), (Numbers{2, 1, 0}));
  const Window repeats = Window::Create(OptionsOf(3, 1, 2, Boundary::kReplicate)).value();
  const Need replicate = repeats.Needed({5, 6}, 4);
  EXPECT_EQ(replicate.fetched, 1);
  EXPECT_EQ(replicate.segments, (std::vector<Segment>{{{3, 4}, 0}}));
  EXPECT_EQ(repeats.IndexMap({5, 6}, 4), (Numbers{0, 0, 0}));
  // No outputs need nothing; an output may read only padding.
  EXPECT_EQ(Window::Create(OptionsOf(3, 1, 2))->Needed({3, 3}, 4).extent, 0);
  const Need padding = Window::Create(OptionsOf(2, 1, 2))->Needed({0, 1}, 4);
  EXPECT_EQ(padding.extent, 2);
  EXPECT_TRUE(padding.segments.empty());
}

TEST(WindowTest, ParsesBoundaries) {
  EXPECT_EQ(*ParseBoundary(""), Boundary::kZeros);
  for (const char* name : {"zeros", "circular", "reflect", "replicate"}) {
    EXPECT_EQ(ToString(*ParseBoundary(name)), name);
  }
  EXPECT_EQ(ParseBoundary("mirror").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WindowTest, RefusesBadOptions) {
  std::vector<Window::Options> bad(7);
  bad[0].kernel = 0;
  bad[1].stride = 0;
  bad[2].dilation = 0;
  bad[3].pad_lo = -1;
  bad[3].boundary = Boundary::kReplicate;
  bad[4].pad_hi = -(int64_t{1} << 32);
  bad[5].kernel = int64_t{1} << 32;
  bad[6].ceil_mode = true;
  bad[6].boundary = Boundary::kCircular;
  for (const auto& options : bad) {
    EXPECT_EQ(Window::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(WindowTest, NegativePaddingLeavesInputsOut) {
  Window::Options options;
  options.pad_lo = -2;
  options.pad_hi = -1;
  const Window crop = Window::Create(options).value();
  EXPECT_EQ(*crop.OutputSize(8), 5);
  const Need need = crop.Needed({1, 4}, 8);
  EXPECT_EQ(need.fetched, 3);
  ASSERT_EQ(need.segments.size(), 1u);
  EXPECT_EQ(need.segments[0].source, (Interval{3, 6}));
  EXPECT_FALSE(crop.OutputSize(3).ok());
}

TEST(WindowTest, RefusesInputsThatAreTooSmall) {
  EXPECT_FALSE(Window::Create(OptionsOf(5, 1, 1))->OutputSize(2).ok());
  EXPECT_EQ(*Window::Create(OptionsOf(5, 1, 2))->OutputSize(1), 1);
  EXPECT_TRUE(Window::Create(OptionsOf(3, 1, 3, Boundary::kCircular))->OutputSize(3).ok());
  EXPECT_FALSE(Window::Create(OptionsOf(3, 1, 4, Boundary::kCircular))->OutputSize(3).ok());
  EXPECT_TRUE(Window::Create(OptionsOf(3, 1, 2, Boundary::kReflect))->OutputSize(3).ok());
  EXPECT_FALSE(Window::Create(OptionsOf(3, 1, 3, Boundary::kReflect))->OutputSize(3).ok());
  EXPECT_TRUE(Window::Create(OptionsOf(3, 1, 7, Boundary::kReplicate))->OutputSize(1).ok());
  EXPECT_FALSE(Window::Create(OptionsOf(3, 1, 7, Boundary::kReplicate))->OutputSize(0).ok());
}

// Beyond 2 GiB everything is 64 bits.
TEST(WindowTest, HandlesHugeExtents) {
  const int64_t n = int64_t{3} << 40;
  const Window window = *Window::Create(OptionsOf(3, 2, 1));
  EXPECT_EQ(*window.OutputSize(n), n / 2);
  const Need need = window.Needed({n / 4, n / 2}, n);
  EXPECT_EQ(need.segments, (std::vector<Segment>{{{n / 2 - 1, n}, 0}}));
  EXPECT_EQ(need.extent, n / 2 + 1);
}

// The number of outputs by counting: a window starts at every stride while it fits; with ceil_mode also where the one
// before leaves some of the input unread, if it starts within the input or its left padding.
int64_t CountOutputs(const Window::Options& o, int64_t n) {
  const int64_t span = o.dilation * (o.kernel - 1) + 1;
  const int64_t padded = n + o.pad_lo + o.pad_hi;
  int64_t count = 0;
  while (true) {
    const int64_t start = count * o.stride;
    const bool fits = start + span <= padded;
    // The last tap of the window before, one stride back, does not reach the last cell.
    const bool wanted = o.ceil_mode && start - o.stride + span < padded && start < n + o.pad_lo;
    if (!fits && !wanted) return count;
    ++count;
  }
}

// The padded input, built cell by cell: the index that each cell repeats, -1 for zero padding.
Numbers PaddedInput(const Window::Options& o, int64_t n, int64_t beyond) {
  Numbers padded;
  for (int64_t i = o.pad_lo; i >= 1; --i) {
    switch (o.boundary) {
      case Boundary::kZeros: padded.push_back(-1); break;
      case Boundary::kCircular: padded.push_back(n - i); break;
      case Boundary::kReflect: padded.push_back(i); break;
      case Boundary::kReplicate: padded.push_back(0); break;
    }
  }
  for (int64_t i = 0; i < n; ++i) padded.push_back(i);
  for (int64_t i = 1; i <= o.pad_hi; ++i) {
    switch (o.boundary) {
      case Boundary::kZeros: padded.push_back(-1); break;
      case Boundary::kCircular: padded.push_back(i - 1); break;
      case Boundary::kReflect: padded.push_back(n - 1 - i); break;
      case Boundary::kReplicate: padded.push_back(n - 1); break;
    }
  }
  padded.insert(padded.end(), beyond, -1);
  return padded;
}

// The kernel's tensor as Needed and IndexMap describe it.
Numbers KernelInput(const Need& need, const Numbers& index_map) {
  Numbers fetched(need.fetched, -1);
  int64_t end = 0;
  for (const Segment& segment : need.segments) {
    EXPECT_FALSE(segment.source.empty());
    EXPECT_GE(segment.at, end);
    end = segment.at + segment.source.size();
    for (int64_t i = 0; i < segment.source.size(); ++i) fetched[segment.at + i] = segment.source.lo + i;
  }
  if (index_map.empty()) return fetched;
  Numbers cells;
  for (int64_t i : index_map) cells.push_back(fetched[i]);
  return cells;
}

void CheckWindow(Draw& draw, const Window& window, int64_t n) {
  const Window::Options& o = window.options();
  const int64_t m = CountOutputs(o, n);
  const absl::StatusOr<int64_t> outputs = window.OutputSize(n);
  if (m == 0) {
    EXPECT_FALSE(outputs.ok());
    return;
  }
  ASSERT_EQ(outputs.value(), m);
  const Numbers padded = PaddedInput(o, n, o.stride + o.dilation * o.kernel);
  const int64_t parts = draw.Between(1, 7);
  const Numbers boundaries = BoundariesOf(draw.OneIn(2) ? BalancedSizes(m, parts) : draw.Sizes(m, parts));
  for (int64_t p = 0; p < parts; ++p) {
    Numbers touched;
    for (int64_t output = boundaries[p]; output < boundaries[p + 1]; ++output) {
      for (int64_t tap = 0; tap < o.kernel; ++tap) touched.push_back(output * o.stride + tap * o.dilation);
    }
    const Need need = window.Needed({boundaries[p], boundaries[p + 1]}, n);
    Numbers expected;
    if (!touched.empty()) {
      const auto range = std::minmax_element(touched.begin(), touched.end());
      expected.assign(padded.begin() + *range.first, padded.begin() + *range.second + 1);
    }
    ASSERT_EQ(need.extent, static_cast<int64_t>(expected.size()));
    ASSERT_EQ(KernelInput(need, window.IndexMap({boundaries[p], boundaries[p + 1]}, n)), expected);
  }
}

TEST(WindowPropertyTest, AgreesWithLoopsOverOutputsAndTaps) {
  Draw draw = Draw::FromEnvironment();
  int checked = 0;
  while (checked < 20000 && !HasFailure()) {
    Window::Options options;
    options.kernel = draw.Between(1, 6);
    options.stride = draw.Between(1, 4);
    options.dilation = draw.Between(1, 3);
    options.pad_lo = draw.Between(0, 5);
    options.pad_hi = draw.Between(0, 5);
    options.boundary = static_cast<Boundary>(draw.Between(0, 3));
    options.ceil_mode = options.boundary == Boundary::kZeros && draw.OneIn(2);
    // Pooling's paddings are at most half a window: a larger one would let more than one window start beyond the input.
    if (options.ceil_mode && options.pad_hi > options.dilation * (options.kernel - 1)) continue;
    const int64_t n = draw.Between(0, 24);
    const int64_t pad = std::max(options.pad_lo, options.pad_hi);
    if (options.boundary == Boundary::kCircular && pad > n) continue;
    if (options.boundary == Boundary::kReflect && pad > std::max<int64_t>(n - 1, 0)) continue;
    if (options.boundary == Boundary::kReplicate && n == 0) continue;
    const Window window = *Window::Create(options);
    SCOPED_TRACE(window.ToString() + " n " + std::to_string(n));
    CheckWindow(draw, window, n);
    ++checked;
  }
}

}  // namespace
}  // namespace adjoin
