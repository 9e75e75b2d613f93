#include "planner/plan/halos_apart.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

// Convolutions "a", "b", "c" and "d" of images in 2x2 parts, with `between` between "a" and "b".
std::string JobOf(const std::string& between) {
  const std::string conv = "conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }\n";
  return JobText(4,
                 "layout { name: \"grid\" partition: [1,1,2,2] }\n"
                 "layer { name: \"a\" input: \"image\" x: \"grid\" " +
                     conv + between + "layer { name: \"b\" " + conv + "layer { name: \"c\" " + conv +
                     "layer { name: \"relu\" activation { fn: \"relu\" } }\n"
                     "layer { name: \"d\" " +
                     conv +
                     "layer { name: \"one\" y: \"first\" repartition {} }\n"
                     "layer { name: \"flat\" flatten { arg: 1 } }\n"
                     "layer { name: \"fc\" linear { out_features: 10 } }\n"
                     "layout { name: \"first\" partition: [1,1,1,1] }\n",
                 "[1, 12, 12]", "fc");
}

Plan PlanOf(const std::string& text) {
  auto parsed = ParseSpec(text, "job.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = Planner::Build(parsed->spec, {{"train", 200}}, BuiltinLayerRules(), &parsed->locations);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::set<std::string> LayersWithHalosApart(const ProgramPlan& program) {
  std::set<std::string> names;
  for (const LayerPlan& layer : program.layer()) {
    if (layer.keeps_halo_apart()) names.insert(layer.name());
  }
  return names;
}

// What the first program, which trains, keeps apart.
std::set<std::string> KeptApart(const std::string& between) {
  const Plan plan = PlanOf(JobOf(between));
  EXPECT_TRUE(plan.program(0).training());
  return LayersWithHalosApart(plan.program(0));
}

TEST(KeepHalosApartTest, WhereTheLayerBeforeKeepsItsOutput) {
  using Names = std::set<std::string>;
  EXPECT_EQ(KeptApart(""), Names({"d"}));
  EXPECT_EQ(KeptApart("layer { name: \"more\" activation { fn: \"relu\" } }\n"), Names({"b", "d"}));
  EXPECT_EQ(KeptApart("layer { name: \"more\" activation { fn: \"tanh\" } }\n"), Names({"b", "d"}));
  // These keep their input, or nothing.
  EXPECT_EQ(KeptApart("layer { name: \"more\" activation { fn: \"gelu\" } }\n"), Names({"d"}));
  EXPECT_EQ(KeptApart("layer { name: \"more\" norm { kind: \"batch\" } }\n"), Names({"d"}));
  EXPECT_EQ(KeptApart("layer { name: \"more\" pool { mode: \"max\" window { kernel: 2 } } }\n"), Names({"d"}));
}

TEST(KeepHalosApartTest, WhereAnotherReaderKeepsIt) {
  // "b" reads what the first keeps for its own backward pass.
  EXPECT_EQ(
      KeptApart("layer { name: \"gelu\" input: \"a\" activation { fn: \"gelu\" } }\n"
                "layer { name: \"sum\" input: [\"gelu\", \"a\"] add {} }\n"
                "layer { name: \"beside\" input: \"a\" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }\n"
                "layer { name: \"both\" input: [\"sum\", \"beside\"] add {} }\n"),
      std::set<std::string>({"beside", "d"}));
}

TEST(KeepHalosApartTest, NotAcrossWhatIsComputedAgain) {
  EXPECT_EQ(KeptApart("layer { name: \"more\" recompute: true activation { fn: \"relu\" } }\n"),
            std::set<std::string>({"d"}));
}

TEST(KeepHalosApartTest, NotWhereNothingTrains) {
  Plan plan = PlanOf(JobOf(""));
  ProgramPlan program = plan.program(0);
  for (LayerPlan& layer : *program.mutable_layer()) layer.clear_keeps_halo_apart();
  program.set_training(false);
  ASSERT_TRUE(KeepHalosApart(plan, &program).ok());
  EXPECT_TRUE(LayersWithHalosApart(program).empty());
  program.set_training(true);
  ASSERT_TRUE(KeepHalosApart(plan, &program).ok());
  EXPECT_EQ(LayersWithHalosApart(program), std::set<std::string>({"d"}));
}

}  // namespace
}  // namespace adjoin
