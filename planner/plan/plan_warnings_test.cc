// What a plan is warned of, and what not.
#include "planner/plan/plan_warnings.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Plan PlanOf(const std::string& text) {
  auto plan = Planner::Build(ParseSpec(text, "job.textproto")->spec, {{"train", 83}}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status() << text;
  return plan.ok() ? *std::move(plan) : Plan();
}

std::vector<std::string> WarningsOf(int ranks, const std::string& network) {
  return PlanWarnings(PlanOf(JobText(ranks, network, "[3, 6]", "fc")));
}

TEST(PlanWarningsTest, NamesRanksThatNoLayerUses) {
  // The batch is cut over ranks 1 and 2, and dim 2, of six, in four parts of which one is empty.
  const std::string network =
      "layout { name: 'batch' partition: [2, 1, 1] rank: [1, 2] }\n"
      "layout { name: 'rows' partition: [1, 1, 4] rank: [1, 4, 3, 2] cut { dim: 2 size: [2, 0, 2, 2] } }\n"
      "layer { name: 'a' input: 'image' x: 'batch' activation { fn: 'relu' } }\n"
      "layer { name: 'r' x: 'rows' activation { fn: 'tanh' } }\n"
      "layer { name: 'f' x: 'batch' flatten {} }\n"
      "layer { name: 'fc' linear { out_features: 2 } }\n";
  EXPECT_THAT(
      WarningsOf(7, network),
      ElementsAre("ranks 0,4-6 have no part of any layer's result; use fewer ranks, or layouts with more parts"));
  // A last batch of three samples leaves a rank without one.
  const std::string by_three = absl::StrReplaceAll(
      network, {{"[2, 1, 1] rank: [1, 2]", "[4, 1, 1]"}, {"rank: [1, 4, 3, 2]", ""}, {"x: 'rows'", ""}});
  EXPECT_THAT(WarningsOf(4, by_three), IsEmpty());
  EXPECT_THAT(WarningsOf(5, by_three), ElementsAre(HasSubstr("rank 4 has no part")));
  EXPECT_THAT(PlanWarnings(PlanOf(kLeNet)), IsEmpty());
  EXPECT_THAT(Planner::Explain(PlanOf(JobText(7, network, "[3, 6]", "fc"))),
              HasSubstr("\nwarning: ranks 0,4-6 have no"));
  EXPECT_THAT(Planner::Explain(PlanOf(kLeNet)), Not(HasSubstr("warning")));
}

TEST(PlanWarningsTest, NamesLayersThatMixSamplesOfAMicroBatch) {
  const auto warnings = [](const std::string& layer, int parts) {
    const std::string text = JobText(1,
                                     absl::StrCat("layer { name: 'mix' input: 'image' ", layer,
                                                  " }\nlayer { name: 'f' input: 'image' flatten {} }\n"
                                                  "layer { name: 'fc' linear { out_features: 2 } }\n"),
                                     "[3, 6]", "fc");
    return PlanWarnings(
        PlanOf(absl::StrReplaceAll(text, {{"batch: 8", absl::StrCat("batch: 8 microbatches: ", parts)}})));
  };
  for (const char* layer : {"roll { arg: [0, 1] }", "roll { arg: [2, 1, -3, 2] }", "flip { arg: [1, 0] }",
                            "repeat { arg: [2, 1, 1] }", "index_select { arg: [0, 0, 0] }"}) {
    EXPECT_THAT(warnings(layer, 4),
                ElementsAre(AllOf(HasSubstr("layer \"mix\" changes the order or the number of samples"),
                                  HasSubstr("in each of the 4 micro-batches"))))
        << layer;
    EXPECT_THAT(warnings(layer, 1), IsEmpty()) << layer;
  }
  for (const char* layer : {"roll { arg: [0, 8] }", "roll { arg: [0, 1, 0, -1, 1, 1] }", "flip { arg: [1, 2] }",
                            "repeat { arg: [1, 2, 1] }", "index_select { arg: [1, 0] }", "activation { fn: 'relu' }"}) {
    EXPECT_THAT(warnings(layer, 4), IsEmpty()) << layer;
  }
}

}  // namespace
}  // namespace adjoin
