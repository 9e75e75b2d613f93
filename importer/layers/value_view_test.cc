// Changes of shape and order, compared with the same changes of an array of positions.
#include "importer/layers/value_view.h"

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/test_seed.h"
#include "importer/graph/op_graph.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Extents = std::vector<int64_t>;

// Positions in the base, row-major over `shape`.
struct Positions {
  Extents shape;
  std::vector<int64_t> at;

  static Positions Of(const Extents& shape) {
    Positions all{shape, {}};
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    all.at.resize(static_cast<size_t>(count));
    std::iota(all.at.begin(), all.at.end(), 0);
    return all;
  }
  Positions Permuted(const Extents& order) const {
    Positions result;
    Extents stride(shape.size(), 1), index(shape.size(), 0);
    for (size_t i = shape.size() - 1; i-- > 0;) stride[i] = stride[i + 1] * shape[i + 1];
    for (int64_t dim : order) result.shape.push_back(shape[static_cast<size_t>(dim)]);
    for (size_t n = 0; n < at.size(); ++n) {
      int64_t from = 0, rest = static_cast<int64_t>(n);
      for (size_t i = order.size(); i-- > 0;) {
        from += rest % result.shape[i] * stride[static_cast<size_t>(order[i])];
        rest /= result.shape[i];
      }
      result.at.push_back(at[static_cast<size_t>(from)]);
    }
    return result;
  }
};

Positions Follow(const ViewSteps& steps, const Extents& base) {
  Positions value = Positions::Of(base);
  if (!steps.split.empty()) value.shape = steps.split;
  if (!steps.order.empty()) value = value.Permuted(steps.order);
  if (!steps.merged.empty()) value.shape = steps.merged;
  return value;
}

// Divides an extent, or joins it with the next one.
Extents RandomShape(const Extents& shape, std::mt19937& random) {
  Extents to = shape;
  const size_t i = random() % to.size();
  if (random() % 2 == 0 && i + 1 < to.size()) {
    to[i] *= to[i + 1];
    to.erase(to.begin() + static_cast<ptrdiff_t>(i) + 1);
    return to;
  }
  for (int64_t factor : {2, 3}) {
    if (to[i] % factor != 0 || random() % 2 == 0) continue;
    to[i] /= factor;
    to.insert(to.begin() + static_cast<ptrdiff_t>(i), factor);
    return to;
  }
  to.insert(to.begin() + static_cast<ptrdiff_t>(i), 1);
  return to;
}

TEST(ValueViewTest, ComposesAsArraysDo) {
  std::mt19937 random(TestSeed(1));
  int compared = 0, divided = 0;
  for (int round = 0; round < 2000; ++round) {
    const Extents base = {5, 12, 1, 6};  // 5, the batch, is not divided
    ValueView view = ValueView::Of(base);
    Positions truth = Positions::Of(base);
    for (int step = 0; step < 6; ++step) {
      if (random() % 2 == 0) {
        Extents order(truth.shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        view = view.Permuted(order);
        truth = truth.Permuted(order);
      } else {
        const Extents to = RandomShape(truth.shape, random);
        const auto reshaped = view.Reshaped(to);
        if (!reshaped.ok()) {
          ++divided;
          continue;
        }
        view = *reshaped;
        truth.shape = to;
      }
      ASSERT_EQ(view.shape(), truth.shape);
    }
    const auto steps = view.Steps();
    ASSERT_EQ(steps.ok(), view.BatchDim() == 0 && view.BatchIsAlone());
    if (!steps.ok()) continue;
    const Positions followed = Follow(*steps, base);
    ASSERT_EQ(followed.shape, truth.shape);
    ASSERT_EQ(followed.at, truth.at);
    ++compared;
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(divided, 0);
}

TEST(ValueViewTest, FindsTheBatchAmongDims) {
  const auto split = ValueView::Of({2, 5, 12}).Reshaped({2, 5, 3, 2, 2});
  ASSERT_TRUE(split.ok());
  const ValueView heads = split->Permuted({2, 0, 3, 1, 4});
  EXPECT_EQ(heads.BatchDim(), 1u);
  EXPECT_FALSE(heads.Steps().ok());
  const auto joined = heads.Reshaped({3, 4, 5, 2});
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->BesideBatch(), (std::pair<int64_t, int64_t>(1, 2)));
  EXPECT_THAT(joined->BatchFirst().shape(), ElementsAre(2, 3, 2, 5, 2));
}

TEST(ValueViewTest, KeepsABatchThatIsNotFixed) {
  const ValueView view = ValueView::Of({kAnyExtent, 8, 6});
  const auto split = view.Reshaped({kAnyExtent, 8, 2, 3});
  ASSERT_TRUE(split.ok()) << split.status();
  const auto joined = split->Permuted({0, 2, 1, 3}).Reshaped({kComputedExtent, 8, 3});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->shape(), ElementsAre(kComputedExtent, 8, 3));
  EXPECT_THAT(joined->BatchFirst().shape(), ElementsAre(kAnyExtent, 2, 8, 3));
  EXPECT_THAT(std::string(view.Reshaped({kAnyExtent, 24}).status().message()), HasSubstr("from one sample to another"));
  EXPECT_THAT(std::string(view.Reshaped({4, 24}).status().message()), HasSubstr("from one sample to another"));
}

TEST(ValueViewTest, DoesNotGuessWhichDimABatchOfOneIs) {
  const ValueView view = ValueView::Of({1, 8, 6});
  EXPECT_TRUE(view.Reshaped({1, 48}).ok());
  EXPECT_FALSE(view.Reshaped({8, 6}).ok());
  EXPECT_FALSE(view.Reshaped({1, 1, 48}).ok());
}

TEST(ValueViewTest, RefusesWhatIsNoChangeOfShape) {
  const ValueView view = ValueView::Of({4, 6});
  for (const Extents& to : {Extents{4, 7}, {4, 5}, {2, 12}, {4, 0}, {4, 6, 2}, {kAnyExtent, kAnyExtent}}) {
    EXPECT_FALSE(view.Reshaped(to).ok());
  }
  EXPECT_FALSE(ValueView::Of({4, 0}).Reshaped({4, 0, 1}).ok());
}

TEST(ValueViewTest, TakesAPartOfADivision) {
  const auto split = ValueView::Of({2, 5, 12}).Reshaped({2, 5, 3, 4});
  const auto found = split->FindInBase(2);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->dim, 2);
  EXPECT_EQ(found->outer, 1);
  EXPECT_EQ(found->inner, 4);
  const ValueView one = split->Narrowed(2, *found, 1).WithoutDim(2);
  EXPECT_THAT(one.shape(), ElementsAre(2, 5, 4));
  EXPECT_THAT(one.base(), ElementsAre(2, 5, 4));
  EXPECT_TRUE(one.IsBase());
}

}  // namespace
}  // namespace adjoin
