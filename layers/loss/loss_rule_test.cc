#include "layers/loss/loss_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "layers/rules/spec_error.h"
#include "planner/plan/operator_plan.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DType kFloat = DType::kFloat32;

Loss LossOf(const std::string& kind) {
  Loss loss;
  loss.set_kind(kind);
  loss.set_input("y");
  loss.set_target("t");
  return loss;
}

Layout Grid(std::vector<int64_t> shape, std::vector<int64_t> partition, Layout::Cuts cuts = {}) {
  int64_t parts = 1;
  for (int64_t n : partition) parts *= n;
  std::vector<int> ranks;
  for (int rank = 0; rank < parts; ++rank) ranks.push_back(rank);
  return *Layout::Partition(std::move(shape), kFloat, std::move(partition), std::move(ranks), std::move(cuts));
}

// [8, 6, 4] cut in the batch over axis 0, with copies along axis 1, in dim 2 along axis 2; ranks 0 to 7.
Layout WithCopies() {
  return *Layout::Create({8, 6, 4}, kFloat, *Mesh::Create({2, 2, 2}),
                         {Placement::Split(0), Placement::Broadcast(), Placement::Split(2)}, {{0, {5, 3}}});
}

int64_t BytesOf(const Layout& from, const Layout& to) {
  const auto op = MakeOperator({"prediction", from, to, {}, 0, true}, 8);
  EXPECT_TRUE(op.ok()) << op.status();
  int64_t bytes = 0;
  for (int64_t sent : op->bytes_forward()) bytes += sent;
  for (int64_t sent : op->bytes_adjoint()) bytes += sent;
  return bytes;
}

TEST(LossRuleTest, APredictionStaysCutAsItIs) {
  const Layout y = Grid({4, 3, 8, 8}, {1, 1, 2, 2}, {{2, {7, 1}}});
  for (const char* kind : {"cross_entropy", "nll"}) {
    const auto outcome = ApplyLossRule({LossOf(kind), y, {4, 8, 8}, DType::kInt64});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->prediction, y);
    EXPECT_EQ(outcome->target.dtype(), DType::kInt64);
    for (int rank = 0; rank < 4; ++rank) {
      const Box box = y.BoxOf(rank), beside = outcome->target.BoxOf(rank);
      EXPECT_EQ(beside[0], box[0]);
      EXPECT_EQ(beside[1], box[2]);
      EXPECT_EQ(beside[2], box[3]);
    }
    EXPECT_THAT(outcome->movement, IsEmpty());
    EXPECT_EQ(outcome->spec.reduction(), "mean");
    EXPECT_EQ(outcome->spec.weight(), 1);
  }
  const auto outcome = ApplyLossRule({LossOf("mse"), y, y.shape(), kFloat});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->prediction, y);
  EXPECT_EQ(outcome->target, y);
}

TEST(LossRuleTest, OfCopiesTheFirstCountsAndNothingIsSent) {
  const Layout y = WithCopies();
  const auto outcome = ApplyLossRule({LossOf("huber"), y, y.shape(), kFloat});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->prediction.mesh().ranks(), ElementsAre(0, 1, 4, 5));
  EXPECT_FALSE(outcome->prediction.HasKind(Placement::Kind::kBroadcast));
  for (int rank : {0, 1, 4, 5}) EXPECT_EQ(outcome->prediction.BoxOf(rank), y.BoxOf(rank)) << rank;
  EXPECT_EQ(BytesOf(y, outcome->prediction), 0);
}

TEST(LossRuleTest, RanksThatShareTheClassesDivideTheirSamples) {
  // [6, 10] on ranks 0 and 1, each half of the classes: rank 0 gets samples 0 to 2 whole, rank 1 the others.
  const Layout y = Grid({6, 10}, {1, 2});
  const auto outcome = ApplyLossRule({LossOf("cross_entropy"), y, {6}, DType::kInt64});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->prediction.BoxOf(0).ToString(), Box({{0, 3}, {0, 10}}).ToString());
  EXPECT_EQ(outcome->prediction.BoxOf(1).ToString(), Box({{3, 6}, {0, 10}}).ToString());
  EXPECT_EQ(outcome->target.BoxOf(1).ToString(), Box({{3, 6}}).ToString());
  EXPECT_EQ(BytesOf(y, outcome->prediction), 2 * (2 * 3 * 5 * 4)) << "forward and back, half of each rank's";
}

TEST(LossRuleTest, RanksThatShareTheClassesDivideTheirLongestDim) {
  // Mesh: classes over 2, rows of the image over 2, cut at 9 of 12; a rank's part of dim 2 is longer than the batch
  // of 2.
  const Layout y = *Layout::Create({2, 4, 12}, kFloat, *Mesh::Create({2, 2}),
                                   {Placement::Split(1), Placement::Split(2)}, {{2, {9, 3}}});
  const auto outcome = ApplyLossRule({LossOf("nll"), y, {2, 12}, DType::kInt64});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // Ranks 0 and 2 share rows 0 to 8, ranks 1 and 3 rows 9 to 11.
  EXPECT_EQ(outcome->prediction.BoxOf(0).ToString(), Box({{0, 2}, {0, 4}, {0, 5}}).ToString());
  EXPECT_EQ(outcome->prediction.BoxOf(2).ToString(), Box({{0, 2}, {0, 4}, {5, 9}}).ToString());
  EXPECT_EQ(outcome->prediction.BoxOf(1).ToString(), Box({{0, 2}, {0, 4}, {9, 11}}).ToString());
  EXPECT_EQ(outcome->prediction.BoxOf(3).ToString(), Box({{0, 2}, {0, 4}, {11, 12}}).ToString());
  EXPECT_EQ(outcome->target.BoxOf(3).ToString(), Box({{0, 2}, {11, 12}}).ToString());
}

TEST(LossRuleTest, ProbabilitiesLieBesideTheirClasses) {
  const Layout y = Grid({6, 10}, {1, 2});
  Loss loss = LossOf("cross_entropy");
  for (int i = 0; i < 10; ++i) loss.add_class_weight(0.5);
  const auto outcome = ApplyLossRule({loss, y, {6, 10}, kFloat});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->prediction.BoxOf(1).ToString(), Box({{3, 6}, {0, 10}}).ToString());
  EXPECT_EQ(outcome->target, outcome->prediction);
  EXPECT_THAT(outcome->movement, IsEmpty()) << "a mean is over all positions";
  EXPECT_TRUE(IsClassification(loss, "int64"));
  EXPECT_FALSE(IsClassification(loss, "float32"));
}

TEST(LossRuleTest, OneNumberForEachSampleLiesBesideItsPrediction) {
  // Both ranks share the only column; each then compares half of the samples.
  const Layout y = Grid({6, 1}, {1, 2});
  const auto outcome = ApplyLossRule({LossOf("mse"), y, {6}, kFloat});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->prediction.BoxOf(1).ToString(), Box({{3, 6}, {0, 1}}).ToString());
  EXPECT_EQ(outcome->target.BoxOf(1).ToString(), Box({{3, 6}}).ToString());
  EXPECT_EQ(ApplyLossRule({LossOf("mse"), y, {6, 1}, kFloat})->prediction, y);
  for (const char* kind : {"dice", "cross_entropy"}) {
    EXPECT_FALSE(ApplyLossRule({LossOf(kind), y, {6}, kFloat}).ok()) << kind << " needs a number for each class";
  }
}

TEST(LossRuleTest, TargetsAreCountedWhereNotAllWeighTheSame) {
  const Layout y = Grid({6, 3}, {2, 1});
  Loss weighted = LossOf("cross_entropy");
  for (double weight : {1.0, 2.0, 0.5}) weighted.add_class_weight(weight);
  Loss ignoring = LossOf("nll");
  ignoring.set_ignore_index(2);
  for (const Loss& spec : {weighted, ignoring}) {
    const auto outcome = ApplyLossRule({spec, y, {6}, DType::kInt64});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(outcome->movement.size(), 1u);
    EXPECT_EQ(outcome->movement[0].role, "count");
    EXPECT_FALSE(outcome->movement[0].differentiable);
    EXPECT_TRUE(outcome->movement[0].from.HasKind(Placement::Kind::kPartial));
    EXPECT_EQ(outcome->movement[0].to, *outcome->movement[0].from.Dual());
    Loss sum = spec;
    sum.set_reduction("sum");
    EXPECT_THAT(ApplyLossRule({sum, y, {6}, DType::kInt64})->movement, IsEmpty());
  }
}

TEST(LossRuleTest, DiceSumsPerClassOverAllRanksAndCountsOnce) {
  const Layout y = Grid({6, 3, 4}, {1, 2, 2});
  for (const bool classes : {true, false}) {
    const auto outcome = classes ? ApplyLossRule({LossOf("dice"), y, {6, 4}, DType::kInt64})
                                 : ApplyLossRule({LossOf("dice"), y, {6, 3, 4}, kFloat});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->prediction, y) << "the classes stay cut";
    // The ranks that share the classes all read their pixels' targets.
    EXPECT_EQ(outcome->target.BoxOf(0) == outcome->target.BoxOf(2), classes);
    EXPECT_EQ(outcome->spec.smooth(), 1);
    ASSERT_EQ(outcome->movement.size(), 2u);
    const LossMovement& sums = outcome->movement[0];
    EXPECT_EQ(sums.role, "sums");
    EXPECT_TRUE(sums.differentiable);
    EXPECT_EQ(sums.from.BoxOf(0).ToString(), Box({{0, 3}, {0, 2}}).ToString());
    EXPECT_EQ(sums.from.BoxOf(3).ToString(), Box({{0, 3}, {2, 3}}).ToString());
    EXPECT_EQ(sums.to.BoxOf(3).ToString(), Box({{0, 3}, {0, 3}}).ToString());
    EXPECT_EQ(outcome->movement[1].role, "share");
    EXPECT_TRUE(outcome->movement[1].differentiable);
    EXPECT_EQ(outcome->movement[1].to, *outcome->movement[1].from.Dual());
    EXPECT_EQ(BytesOf(outcome->movement[1].from, outcome->movement[1].to), 0);
  }
}

TEST(LossRuleTest, TheVarianceIsMovedBesideThePrediction) {
  const Layout y = Grid({6, 3, 8}, {2, 1, 2}), other = Grid({6, 3, 8}, {1, 3, 1}), one = Grid({6, 3, 1}, {3, 1, 1});
  Loss loss = LossOf("gaussian_nll");
  loss.set_variance("v");
  for (const Layout* variance : {&y, &other, &one}) {
    const auto outcome = ApplyLossRule({loss, y, {6, 3, 8}, kFloat, variance});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->prediction, y);
    EXPECT_EQ(outcome->spec.eps(), 1e-6);
    ASSERT_EQ(outcome->movement.size(), 1u);
    const LossMovement& movement = outcome->movement[0];
    EXPECT_EQ(movement.role, "variance");
    EXPECT_TRUE(movement.differentiable);
    EXPECT_EQ(movement.from, *variance);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(movement.to.BoxOf(rank)[0], y.BoxOf(rank)[0]);
      EXPECT_EQ(movement.to.BoxOf(rank)[2].size(), variance == &one ? 1 : 4);
    }
  }
}

TEST(LossRuleTest, TheSumsOfACosineAreDividedOverTheRanksThatShareChannels) {
  const Layout whole = Grid({6, 3, 4}, {3, 1, 2}), cut = Grid({6, 3, 4}, {1, 2, 2});
  const auto beside = ApplyLossRule({LossOf("cosine"), whole, whole.shape(), kFloat});
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(BytesOf(beside->movement[0].from, beside->movement[0].to), 0);
  const auto outcome = ApplyLossRule({LossOf("cosine"), cut, cut.shape(), kFloat});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->prediction, cut) << "the channels stay cut";
  EXPECT_EQ(outcome->target, cut);
  ASSERT_EQ(outcome->movement.size(), 1u);
  const LossMovement& sums = outcome->movement[0];
  EXPECT_EQ(sums.role, "sums");
  EXPECT_TRUE(sums.differentiable);
  // Ranks 0 and 2 share columns 0 and 1; each has all samples' sums of its channels, and then half of the samples.
  EXPECT_EQ(sums.from.BoxOf(2).ToString(), Box({{0, 6}, {0, 3}, {0, 2}}).ToString());
  EXPECT_EQ(sums.to.BoxOf(0).ToString(), Box({{0, 3}, {0, 3}, {0, 2}}).ToString());
  EXPECT_EQ(sums.to.BoxOf(2).ToString(), Box({{3, 6}, {0, 3}, {0, 2}}).ToString());
}

TEST(LossRuleTest, SaysWhatIsWrongWithTheFields) {
  struct Case {
    std::string kind;
    std::function<void(Loss&)> change;
    std::string field, message;
  };
  const Case cases[] = {
      {"", [](Loss&) {}, "", "kind is missing"},
      {"hinge", [](Loss&) {}, "kind",
       "loss \"hinge\" is not known; these are: bce, bce_with_logits, cosine, cross_entropy, dice"},
      {"mse", [](Loss& l) { l.set_reduction("batchmean"); }, "reduction", "write \"mean\" or \"sum\""},
      {"kl_div", [](Loss& l) { l.set_reduction("none"); }, "reduction", "write \"mean\" or \"batchmean\" or \"sum\""},
      {"dice", [](Loss& l) { l.set_reduction("sum"); }, "reduction", "write \"mean\""},
      {"mse", [](Loss& l) { l.add_class_weight(1); }, "class_weight[0]", "class_weight is for cross_entropy, nll;"},
      {"nll", [](Loss& l) { l.set_label_smoothing(0.1); }, "label_smoothing", "label_smoothing is for cross_entropy;"},
      {"dice", [](Loss& l) { l.set_ignore_index(0); }, "ignore_index", "ignore_index is for cross_entropy, nll;"},
      {"l1", [](Loss& l) { l.set_smooth(0); }, "smooth", "smooth is for dice;"},
      {"cross_entropy", [](Loss& l) { l.set_label_smoothing(1); }, "label_smoothing", "must be in [0, 1)"},
      {"cross_entropy", [](Loss& l) { l.add_class_weight(-1); }, "class_weight[0]", "at least 0"},
      {"huber", [](Loss& l) { l.set_delta(-1); }, "delta", "above 0"},
      {"poisson_nll", [](Loss& l) { l.set_eps(-1); }, "eps", "above 0"},
      {"dice", [](Loss& l) { l.set_smooth(-1); }, "smooth", "at least 0"},
      {"mse", [](Loss& l) { l.set_weight(1.0 / 0.0); }, "weight", "a finite number"},
      {"gaussian_nll", [](Loss&) {}, "", "variance is missing: the layer"},
      {"mse", [](Loss& l) { l.set_variance("v"); }, "variance", "variance is for gaussian_nll;"},
  };
  for (const Case& c : cases) {
    Loss loss = LossOf(c.kind);
    c.change(loss);
    const absl::Status status = CheckLossFields(loss);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.kind << " " << c.field;
    EXPECT_EQ(FieldOf(status), c.field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(LossRuleTest, SaysWhatIsWrongWithTheTarget) {
  const Layout y = Grid({6, 3, 4}, {2, 1, 1}), rows = Grid({6}, {2}), three = Grid({6, 3}, {2, 1});
  Loss weighted = LossOf("cross_entropy"), positive = LossOf("bce_with_logits");
  weighted.add_class_weight(1);
  positive.add_pos_weight(1);
  positive.add_pos_weight(1);
  struct Case {
    LossRequest request;
    std::string field, message;
  };
  Loss gaussian = LossOf("gaussian_nll");
  gaussian.set_variance("v");
  const Layout narrow = Grid({6, 1, 4}, {2, 1, 1}), wrong_type = y.WithDType(DType::kFloat64);
  Loss ignoring = LossOf("cross_entropy");
  ignoring.set_ignore_index(1);
  const Loss nll = LossOf("nll"), cosine = LossOf("cosine");
  const Loss cross_entropy = LossOf("cross_entropy"), mse = LossOf("mse"), dice = LossOf("dice");
  const Case cases[] = {
      {{cross_entropy, y, {6, 4}, kFloat}, "target", "write dtype: \"int64\""},
      {{cross_entropy, y, {6, 4, 3}, kFloat}, "target", "the field needs shape: [3, 4]"},
      {{nll, y, {6, 3, 4}, kFloat}, "target", "write dtype: \"int64\""},
      {{ignoring, y, {6, 3, 4}, kFloat}, "ignore_index", "holds probabilities; leave it out"},
      {{cross_entropy, y, {6}, DType::kInt64}, "target", "the field needs shape: [4]"},
      {{cross_entropy, rows, {6}, DType::kInt64}, "input", "needs a prediction [batch, classes, ...]"},
      {{cosine, rows, {6}, kFloat}, "input", "needs a prediction [batch, channels, ...]"},
      {{cross_entropy, y, {3, 4}, DType::kInt64}, "input", "dim 0 must stay the batch"},
      {{mse, y, {6, 4}, DType::kInt64}, "target", "leave dtype out of the field"},
      {{mse, y, {6, 4}, kFloat}, "target", "the field needs shape: [3, 4]"},
      {{mse, rows, {6, 1}, kFloat}, "target", "the field needs no shape"},
      {{mse, three, {6}, kFloat}, "target", "the field needs shape: [3]"},
      {{mse, y.WithDType(DType::kInt64), {6, 3, 4}, kFloat}, "input", "floating-point"},
      {{dice, y, {6, 4}, kFloat}, "target", "the field needs shape: [3, 4]"},
      {{weighted, y, {6, 4}, DType::kInt64}, "class_weight[0]", "has 1 values, but \"y\" has 3 classes"},
      {{positive, y, {6, 3, 4}, kFloat}, "pos_weight[0]", "has 2 values, but \"y\" has 3 channels"},
      {{gaussian, y, {6, 3, 4}, kFloat, &narrow}, "variance", "must have this shape, or 6x3x1"},
      {{gaussian, y, {6, 3, 4}, kFloat, &wrong_type}, "variance", "they must be of one type"},
  };
  for (const Case& c : cases) {
    const auto outcome = ApplyLossRule(c.request);
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(outcome.status()), c.field) << outcome.status();
    EXPECT_THAT(std::string(outcome.status().message()), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace adjoin
