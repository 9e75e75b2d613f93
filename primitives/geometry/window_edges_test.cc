#include "primitives/geometry/window_edges.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {
namespace {

Window RandomWindow(Draw& draw) {
  Window::Options options;
  options.kernel = draw.Between(1, 7);
  options.stride = draw.Between(1, 4);
  options.dilation = draw.Between(1, 3);
  options.pad_lo = options.pad_hi = draw.Between(0, options.dilation * options.kernel);
  return *Window::Create(options);
}

// By what each of the part's outputs reads.
WindowEdges::Side Counted(const Window& window, Interval outputs, Interval part, bool before) {
  WindowEdges::Side side;
  Interval read;
  for (int64_t output = outputs.lo; output < outputs.hi; ++output) {
    const Interval cells = window.Reads({output, output + 1});
    const int64_t beside = before ? part.lo - cells.lo : cells.hi - part.hi;
    if (beside <= 0) continue;
    side.cells = std::max(side.cells, beside);
    ++side.outputs;
    read = read.Hull(cells);
  }
  side.reads = read.size();
  return side;
}

void ExpectEqual(const WindowEdges::Side& found, const WindowEdges::Side& counted, const Window& window) {
  EXPECT_EQ(found.cells, counted.cells) << window.ToString();
  EXPECT_EQ(found.outputs, counted.outputs) << window.ToString();
  EXPECT_EQ(found.reads, counted.reads) << window.ToString();
}

TEST(WindowEdgesTest, AreWhatTheOutputsOfAPartReadBesideIt) {
  Draw draw = Draw::FromEnvironment();
  int with_edges = 0;
  for (int i = 0; i < 20000; ++i) {
    const Window window = RandomWindow(draw);
    const int64_t stride = window.options().stride;
    const std::optional<WindowEdges> edges = EdgesOf(window);
    const int64_t first = draw.Between(0, 9), count = draw.Between(1, 30);
    const absl::StatusOr<int64_t> alone = window.OutputSize(stride * count);
    ASSERT_EQ(edges.has_value(), alone.ok() && *alone == count) << window.ToString();
    if (!edges.has_value()) continue;
    ++with_edges;
    const Interval outputs = {first, first + count}, part = {stride * first, stride * (first + count)};
    // A shorter part has not as many outputs.
    if (part.size() < edges->before.cells + edges->after.cells) continue;
    ExpectEqual(edges->before, Counted(window, outputs, part, /*before=*/true), window);
    ExpectEqual(edges->after, Counted(window, outputs, part, /*before=*/false), window);
    EXPECT_LE(edges->after.cells, edges->before.cells) << window.ToString();
  }
  EXPECT_GT(with_edges, 1000);
}

TEST(WindowEdgesTest, Examples) {
  const auto edges = [](int64_t kernel, int64_t stride, int64_t dilation, int64_t padding) {
    const WindowEdges found = EdgesOf(*Window::Create({kernel, stride, dilation, padding, padding})).value();
    return std::vector<int64_t>{found.before.cells, found.before.outputs, found.before.reads,
                                found.after.cells,  found.after.outputs,  found.after.reads};
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(edges(3, 1, 1, 1), (Numbers{1, 1, 3, 1, 1, 3}));
  EXPECT_EQ(edges(5, 1, 2, 4), (Numbers{4, 4, 12, 4, 4, 12}));
  EXPECT_EQ(edges(3, 2, 1, 1), (Numbers{1, 1, 3, 0, 0, 0}));
  EXPECT_EQ(edges(7, 2, 1, 3), (Numbers{3, 2, 9, 2, 1, 7}));
  EXPECT_EQ(edges(4, 2, 1, 1), (Numbers{1, 1, 4, 1, 1, 4}));
  EXPECT_EQ(edges(2, 2, 1, 0), (Numbers{0, 0, 0, 0, 0, 0}));
}

TEST(WindowEdgesTest, AbsentWhereAPartAloneHasOtherOutputs) {
  EXPECT_FALSE(EdgesOf(*Window::Create({3, 1, 1, 0, 0})).has_value()) << "fewer";
  EXPECT_FALSE(EdgesOf(*Window::Create({3, 1, 1, 2, 2})).has_value()) << "more";
  EXPECT_FALSE(EdgesOf(*Window::Create({2, 1, 1, 1, 0})).has_value()) << "paddings that differ";
  EXPECT_FALSE(EdgesOf(*Window::Create({3, 1, 1, 1, 1, Boundary::kReflect})).has_value());
}

}  // namespace
}  // namespace adjoin
