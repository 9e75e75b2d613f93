// Parts of parameters, and how they stand beside other tensors.
#include "importer/layers/parameter_view.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using testing::ElementsAre;

TEST(ParameterViewTest, OfAClassTokenIsOnePerSample) {
  const auto token = ParameterView::Of({1, 1, 8}).Expanded({4, 1, 8});
  ASSERT_TRUE(token.ok());
  EXPECT_TRUE(token->IsOnePerSample(4));
  EXPECT_FALSE(token->IsOnePerSample(3));
  EXPECT_FALSE(token->IsWholePerSample(4));
  const auto queries = ParameterView::Of({5, 8}).Reshaped({1, 5, 8});
  ASSERT_TRUE(queries.ok());
  EXPECT_TRUE(queries->Expanded({4, 5, 8})->IsWholePerSample(4));
}

TEST(ParameterViewTest, OfATableHasItsFirstRows) {
  const auto rows = ParameterView::Of({16, 8}).First(0, 6);
  ASSERT_TRUE(rows.ok());
  EXPECT_THAT(rows->length(), ElementsAre(6, 8));
  EXPECT_THAT(rows->shape(), ElementsAre(6, 8));
  EXPECT_THAT(*rows->OrderBeside({2, 6, 8}), ElementsAre(0, 1, 2));
  EXPECT_FALSE(ParameterView::Of({16, 8}).First(0, 17).ok());
}

TEST(ParameterViewTest, TurnsTheOtherTensorToItsDims) {
  // A number for each channel, beside [batch, channels, rows, columns].
  const auto channels = ParameterView::Of({3}).Reshaped({1, 3, 1, 1});
  ASSERT_TRUE(channels.ok());
  EXPECT_THAT(*channels->OrderBeside({2, 3, 4, 5}), ElementsAre(0, 3, 2, 1));
  EXPECT_THAT(*ParameterView::Of({3, 1, 1}).OrderBeside({2, 3, 4, 5}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*ParameterView::Of({6, 4}).Permuted({1, 0})->OrderBeside({2, 4, 6}), ElementsAre(0, 2, 1));
}

TEST(ParameterViewTest, RefusesWhatIsLargerOrOfTheBatch) {
  EXPECT_FALSE(ParameterView::Of({2, 8}).OrderBeside({2, 8}).ok()) << "numbers for each sample";
  EXPECT_FALSE(ParameterView::Of({5, 8}).OrderBeside({2, 1, 8}).ok()) << "repeats the other tensor";
  EXPECT_FALSE(ParameterView::Of({4, 8}).Reshaped({32}).ok());
  EXPECT_FALSE(ParameterView::Of({4, 8}).Expanded({3, 4, 16}).ok());
}

TEST(ParameterViewTest, RefusesDimsThatItDoesNotHave) {
  const ParameterView view = ParameterView::Of({4, 8});
  EXPECT_TRUE(view.Permuted({1, 0}).ok());
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{0}, {0, 0}, {0, 2}, {-1, 0}, {2, 1, 0}}) {
    EXPECT_FALSE(view.Permuted(order).ok());
  }
  EXPECT_FALSE(view.First(2, 1).ok());
  EXPECT_FALSE(view.WithoutDim(2).ok());
  EXPECT_TRUE(view.WithDim(2).ok());
  EXPECT_FALSE(view.WithDim(3).ok());
}

}  // namespace
}  // namespace adjoin
