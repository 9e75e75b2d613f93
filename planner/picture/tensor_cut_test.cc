// The boxes of pictures are the layout's: compared with Layout, and cell by cell with what each rank holds and reads.
#include "planner/picture/tensor_cut.h"

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "layers/rules/layout_proto.h"
#include "planner/picture/drawing.h"
#include "planner/picture/tensor_drawing.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }

  Layout Tensor(int dims) {
    std::vector<int64_t> shape, mesh;
    std::vector<Placement> placements;
    for (int dim = 0; dim < dims; ++dim) shape.push_back(Between(1, 9));
    for (int axis = static_cast<int>(Between(1, 3)); axis > 0; --axis) {
      mesh.push_back(Between(1, 3));
      const int64_t kind = Between(0, 5);
      placements.push_back(kind == 0   ? Placement::Broadcast()
                           : kind == 1 ? Placement::Partial()
                                       : Placement::Split(static_cast<int>(Between(0, dims - 1))));
    }
    return *Layout::Create(shape, DType::kFloat32, *Mesh::Create(mesh), placements);
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<std::pair<int64_t, int64_t>> Key(const Box& box) {
  std::vector<std::pair<int64_t, int64_t>> key;
  for (int dim = 0; dim < box.dims(); ++dim) key.emplace_back(box[dim].lo, box[dim].hi);
  return key;
}

TEST(TensorCut, HasEveryRanksBoxAndNoOther) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 500; ++i) {
    Random random(seed + i);
    const Layout layout = random.Tensor(static_cast<int>(random.Between(1, 5)));
    const TensorCut cut = TensorCut::Of(layout);
    SCOPED_TRACE(layout.ToString() + " ADJOIN_TEST_SEED=" + std::to_string(seed + i));
    std::map<int, Box> of_rank;
    std::set<std::vector<std::pair<int64_t, int64_t>>> boxes;
    for (const CutBox& box : cut.boxes()) {
      EXPECT_TRUE(boxes.insert(Key(box.box)).second) << "a box twice";
      for (const int rank : box.ranks)
        EXPECT_TRUE(of_rank.emplace(rank, box.box).second) << "rank " << rank << " twice";
    }
    int64_t held = 0;
    for (const int rank : layout.mesh().ranks()) {
      const Box own = layout.BoxOf(rank);
      EXPECT_EQ(of_rank.count(rank), own.empty() ? 0u : 1u);
      if (!own.empty()) {
        EXPECT_EQ(of_rank.at(rank), own);
      }
      held += own.Volume();
    }
    // Cell by cell: each is in one box, which as many ranks hold as the layout has copies and terms.
    const Box whole = Box::Whole(layout.shape());
    for (int64_t cell = 0; cell < whole.Volume(); ++cell) {
      const std::vector<int64_t> index = whole.CellAt(cell);
      int in = 0;
      for (const CutBox& box : cut.boxes()) {
        bool inside = true;
        for (int dim = 0; dim < layout.dims(); ++dim) inside = inside && box.box[dim].Contains(index[dim]);
        if (!inside) continue;
        ++in;
        EXPECT_EQ(static_cast<int64_t>(box.ranks.size()), cut.Holders());
        held -= static_cast<int64_t>(box.ranks.size());
      }
      EXPECT_EQ(in, 1);
    }
    EXPECT_EQ(held, 0);
  }
}

TEST(TensorCut, HalosAreTheCellsThatWindowsReadBeyondTheBox) {
  const uint64_t seed = TestSeed(2000);
  for (uint64_t i = 0; i < 300; ++i) {
    Random random(seed + i);
    const int64_t n = random.Between(4, 20), kernel = random.Between(1, 4), stride = random.Between(1, 2),
                  pad = random.Between(0, kernel / 2), ranks = random.Between(1, 4);
    SCOPED_TRACE("ADJOIN_TEST_SEED=" + std::to_string(seed + i));
    const Window window = *Window::Create({.kernel = kernel, .stride = stride, .pad_lo = pad, .pad_hi = pad});
    std::vector<int> order(ranks);
    std::iota(order.begin(), order.end(), 0);
    const Layout x = *Layout::Partition({2, n}, DType::kFloat32, {1, ranks}, order);
    const Layout y = *Layout::Partition({2, *window.OutputSize(n)}, DType::kFloat32, {1, ranks}, order);
    OperatorPlan op;
    *op.mutable_from() = ToProto(x);
    *op.mutable_to() = ToProto(y);
    *op.add_reading() = ToProto(1, Reading(window));
    TensorCut cut = TensorCut::Of(x);
    ASSERT_TRUE(cut.AddHalos(op).ok());
    ASSERT_TRUE(cut.AddHalos(op).ok()) << "added twice, shown once";
    for (int rank = 0; rank < ranks; ++rank) {
      std::set<int64_t> reads;  // by the definition of a window
      const Interval outputs = y.BoxOf(rank)[1];
      for (int64_t output = outputs.lo; output < outputs.hi; ++output) {
        for (int64_t tap = 0; tap < kernel; ++tap) {
          const int64_t cell = output * stride - pad + tap;
          if (cell >= 0 && cell < n && !x.BoxOf(rank)[1].Contains(cell)) reads.insert(cell);
        }
      }
      std::multiset<int64_t> shown;
      for (const HaloBox& halo : cut.halos()) {
        if (halo.rank != rank) continue;
        EXPECT_EQ(halo.box[0], (Interval{0, 2}));
        for (int64_t cell = halo.box[1].lo; cell < halo.box[1].hi; ++cell) shown.insert(cell);
      }
      for (const int64_t cell : reads) EXPECT_EQ(shown.count(cell), 1u) << "rank " << rank << " cell " << cell;
      // Windows with a stride leave cells between them out; what is fetched is their hull.
      if (stride <= kernel && !x.BoxOf(rank).empty()) {
        EXPECT_EQ(shown.size(), reads.size());
      }
    }
  }
}

TEST(TensorCut, DifferencesOfBoxesHaveEachCellOnce) {
  Random random(TestSeed(3000));
  for (int i = 0; i < 500; ++i) {
    const auto box = [&] {
      std::vector<Interval> dims;
      for (int dim = 0; dim < 3; ++dim) {
        const int64_t lo = random.Between(0, 5);
        dims.push_back({lo, lo + random.Between(0, 4)});
      }
      return Box(dims);
    };
    const Box a = box(), b = box();
    int64_t volume = 0;
    const std::vector<Box> pieces = BoxDifference(a, b);
    for (size_t p = 0; p < pieces.size(); ++p) {
      volume += pieces[p].Volume();
      EXPECT_TRUE(a.Contains(pieces[p]));
      EXPECT_TRUE(pieces[p].Intersect(b).empty());
      for (size_t q = 0; q < p; ++q) EXPECT_TRUE(pieces[p].Intersect(pieces[q]).empty());
    }
    EXPECT_EQ(volume, a.Volume() - a.Intersect(b).Volume());
  }
}

// A rectangle on the page is its box, in pixels.
TEST(TensorDrawing, RectanglesAreTheBoxesInProportion) {
  const Layout layout = *Layout::Partition({20, 30}, DType::kFloat32, {2, 3}, {0, 1, 2, 3, 4, 5}, {{1, {6, 15, 9}}});
  const TensorPicture picture = DrawTensor(TensorCut::Of(layout), TensorView::ForDims(2), /*side=*/90);
  EXPECT_EQ(picture.note, "");
  for (int rank = 0; rank < 6; ++rank) {
    const Box box = layout.BoxOf(rank);
    int found = 0;
    for (const Drawing::Shape& shape : picture.drawing.shapes()) {
      if (shape.kind != Drawing::Kind::kRect || shape.style != "b " + ColourOf(rank)) continue;
      ++found;
      EXPECT_NEAR(shape.points[0].x, 3.0 * box[1].lo, 1e-9);
      EXPECT_NEAR(shape.points[0].y, 3.0 * box[0].lo, 1e-9);
      EXPECT_NEAR(shape.width, 3.0 * box[1].size(), 1e-9);
      EXPECT_NEAR(shape.height, 3.0 * box[0].size(), 1e-9);
      EXPECT_EQ(shape.text, "rank " + std::to_string(rank) + ": " + box.ToString());
    }
    EXPECT_EQ(found, 1) << rank;
  }
}

TEST(TensorDrawing, BlocksShowAllBoxesThatReachAVisibleSide) {
  std::vector<int> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Layout layout = *Layout::Partition({1, 1, 8, 8, 8}, DType::kFloat32, {1, 1, 2, 2, 2}, ranks);
  const TensorPicture picture = DrawTensor(TensorCut::Of(layout), TensorView::ForDims(5), 60);
  std::set<std::string> shown;
  for (const Drawing::Shape& shape : picture.drawing.shapes()) {
    if (shape.kind == Drawing::Kind::kPolygon && shape.style[0] == 'b') shown.insert(shape.style);
  }
  EXPECT_EQ(shown.size(), 7u) << "the one behind, below, to the left is hidden";
}

TEST(TensorDrawing, SaysHowManyOfTooManyPartsAreDrawn) {
  std::vector<int> ranks(4096);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Layout layout = *Layout::Partition({64, 3, 512, 512}, DType::kFloat32, {4, 1, 32, 32}, ranks);
  const TensorPicture picture = DrawTensor(TensorCut::Of(layout), TensorView::ForDims(4), 84);
  EXPECT_NE(picture.note.find(" of 4096 parts drawn"), std::string::npos) << picture.note;
  EXPECT_LT(picture.drawing.shapes().size(), 400u);
}

TEST(TensorDrawing, DrawsEveryShape) {
  const uint64_t seed = TestSeed(4000);
  for (uint64_t i = 0; i < 500; ++i) {
    Random random(seed + i);
    const Layout layout = random.Tensor(static_cast<int>(random.Between(1, 7)));
    SCOPED_TRACE(layout.ToString());
    const TensorPicture picture = DrawTensor(TensorCut::Of(layout), TensorView::ForDims(layout.dims()), 84);
    EXPECT_FALSE(picture.drawing.shapes().empty());
    EXPECT_LT(picture.drawing.right(), 480);
    EXPECT_LT(picture.drawing.bottom(), 420);
  }
  EXPECT_FALSE(DrawTensor(TensorCut::Of(Layout::Owner({}, DType::kFloat32, 3)), TensorView::ForDims(0), 84)
                   .drawing.shapes()
                   .empty());
  EXPECT_EQ(DrawTensor(TensorCut::Of(Layout::Owner({0, 4}, DType::kFloat32, 0)), TensorView::ForDims(2), 84).note,
            "no cells");
}

TEST(TensorView, FollowsPermutedDims) {
  const TensorView volume = TensorView::ForDims(5);
  EXPECT_EQ(volume.roles, "NCsss");
  EXPECT_EQ(volume.Permuted({0, 2, 3, 4, 1}).roles, "NsssC");
  EXPECT_EQ(volume.Permuted({0, 2, 3, 4, -4}).roles, "NsssC");
  EXPECT_EQ(volume.Permuted({0, 0, 0, 0, 0}).roles, "NCsss");
  EXPECT_EQ(TensorView::WithoutChannels(4).roles, "Nsss");
  EXPECT_EQ(TensorView::ForDims(2).roles, "ss");
}

}  // namespace
}  // namespace adjoin
