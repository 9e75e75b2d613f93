#include "verify/recut.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JobSpec Parse(const std::string& text) {
  JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

TEST(RecutPartsTest, FewerRanks) {
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 2), ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 3), ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 1), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(RecutParts({4, 1}, 4, 3), ElementsAre(3, 1));
  EXPECT_THAT(RecutParts({4, 4}, 16, 4), ElementsAre(2, 2));
  EXPECT_THAT(RecutParts({4, 4}, 16, 6), ElementsAre(3, 2));
  EXPECT_THAT(RecutParts({2, 1}, 4, 2), ElementsAre(2, 1));
  EXPECT_THAT(RecutParts({16, 16, 16}, 4096, 1), ElementsAre(1, 1, 1));
}

TEST(RecutPartsTest, MoreRanks) {
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 8), ElementsAre(1, 1, 4, 2));
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 16), ElementsAre(1, 1, 4, 4));
  EXPECT_THAT(RecutParts({1, 2}, 4, 24), ElementsAre(1, 12));
  EXPECT_THAT(RecutParts({1, 1, 2, 2}, 4, 7), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(RecutParts({1, 1}, 1, 4), ElementsAre(1, 1));
}

constexpr char kJob[] = R"job(
  ranks: 4
  layout { name: "grid" partition: [1, 1, 2, 2] cut { dim: 2 size: [3, 5] } cut { dim: 3 size: [1, 7] } }
  layout { name: "late" partition: [2, 1] rank: [2, 3] }
  layout { name: "mesh" mesh { size: 2 } mesh { size: 2 } sbp: ["S(1)", "B"] cut { dim: 1 size: [2, 6] } }
  layer { name: "a" input: "x" x: "grid" home: OWNER owner: 3 linear { out_features: 2 } }
  dataset { name: "data" field { name: "x" shape: [1, 8, 8] } }
  train { dataset: "data" })job";

TEST(RecutTest, ItsOwnNumberChangesNothing) {
  const JobSpec spec = Parse(kJob);
  EXPECT_EQ(Recut(spec, 4).SerializeAsString(), spec.SerializeAsString());
}

TEST(RecutTest, KeepsWhatStillFits) {
  const JobSpec two = Recut(Parse(kJob), 2);
  EXPECT_EQ(two.ranks(), 2);
  EXPECT_THAT(two.layout(0).partition(), ElementsAre(1, 1, 2, 1));
  ASSERT_EQ(two.layout(0).cut_size(), 1);
  EXPECT_EQ(two.layout(0).cut(0).dim(), 2);
  EXPECT_THAT(two.layout(1).partition(), ElementsAre(2, 1));
  EXPECT_THAT(two.layout(1).rank(), IsEmpty());
  EXPECT_EQ(two.layout(2).mesh(0).size(), 2);
  EXPECT_EQ(two.layout(2).mesh(1).size(), 1);
  EXPECT_EQ(two.layout(2).cut_size(), 1);
  EXPECT_EQ(two.layer(0).owner(), 0);
  EXPECT_EQ(two.layer(0).home(), OWNER);

  const JobSpec eight = Recut(Parse(kJob), 8);
  EXPECT_THAT(eight.layout(0).partition(), ElementsAre(1, 1, 4, 2));
  ASSERT_EQ(eight.layout(0).cut_size(), 1);
  EXPECT_EQ(eight.layout(0).cut(0).dim(), 3);
  EXPECT_THAT(eight.layout(1).partition(), ElementsAre(4, 1));
  EXPECT_THAT(eight.layout(1).rank(), IsEmpty());

  const JobSpec six = Recut(Parse(kJob), 6);
  EXPECT_THAT(six.layout(1).rank(), ElementsAre(2, 3));
}

TEST(RecutTest, WeightsBeginAgainOnMoreRanks) {
  const JobSpec job = Parse(R"(ranks: 2 rank_weight: [1, 3] layout { name: "b" partition: [2, 1] })");
  EXPECT_THAT(Recut(job, 1).rank_weight(), ElementsAre(1));
  EXPECT_THAT(Recut(job, 5).rank_weight(), ElementsAre(1, 3, 1, 3, 1));
  EXPECT_THAT(Recut(Parse("ranks: 2"), 3).rank_weight(), IsEmpty());
}

TEST(RecutTest, OfOneRankFieldsAreCutByBatch) {
  const JobSpec three = Recut(Parse(R"(
    ranks: 1
    layer { name: "a" input: "x" activation { fn: "relu" } }
    layer { name: "b" input: ["a", "x"] add {} }
    dataset { name: "data" field { name: "x" shape: [1, 8, 8] } }
    train { dataset: "data" })"),
                              3);
  ASSERT_EQ(three.layout_size(), 1);
  EXPECT_THAT(three.layout(0).partition(), ElementsAre(3, 1, 1, 1));
  EXPECT_THAT(three.layer(0).x(), ElementsAre(three.layout(0).name()));
  EXPECT_THAT(three.layer(1).x(), ElementsAre("", three.layout(0).name()));
}

}  // namespace
}  // namespace adjoin
