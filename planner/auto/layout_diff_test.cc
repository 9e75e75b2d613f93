#include "planner/auto/layout_diff.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/roles.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

// A network of two convolutions; `layouts` are the job's, `first` and `second` what the layers say of theirs.
Plan Planned(const std::string& layouts, const std::string& first, const std::string& second) {
  const std::string text = R"job(kind: TRAIN ranks: 4
dataset { name: "train"
  field { name: "image" shape: [1, 8, 8] synthetic { kind: "normal" samples: 8 } }
  field { name: "target" shape: [2, 8, 8] synthetic { kind: "normal" samples: 8 } } }
)job" + layouts + R"job(
layer { name: "conv1" input: "image" )job" +
                           first + R"job( conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "conv2" )job" +
                           second + R"job( conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "mse" input: "conv2" target: "target" }
train { dataset: "train" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
output_dir: "out")job";
  const auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return Plan();
  auto plan = Planner::Build(parsed->spec, {}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

TEST(LayoutDiffTest, OtherNamesOfEqualLayoutsAreNoDifference) {
  const Plan grid = Planned(R"(layout { name: "grid" partition: [1, 1, 2, 2] })", R"(x: "grid")", "");
  const Plan mesh = Planned(R"job(layout { name: "mesh" mesh { size: 2 } mesh { size: 1 } mesh { size: 2 }
                                                        sbp: "S(2)" sbp: "B" sbp: "S(3)" })job",
                            R"(x: "mesh")", R"(x: "mesh")");
  EXPECT_EQ(DiffOfLayouts(grid, mesh), "  no layer differs\n");
}

TEST(LayoutDiffTest, EqualNamesOfOtherLayoutsAreADifference) {
  const Plan before = Planned(R"(layout { name: "grid" partition: [1, 1, 2, 2] })", R"(x: "grid")", "");
  const Plan after = Planned(R"(layout { name: "grid" partition: [4, 1, 1, 1] })", R"(x: "grid")", "");
  EXPECT_EQ(DiffOfLayouts(before, after), "  conv1 .. conv2: 4x1x1x1, was 1x1x2x2\n");
}

TEST(LayoutDiffTest, OtherRanksAndOtherCutsAreDifferences) {
  const Plan before = Planned(R"(layout { name: "grid" partition: [1, 1, 2, 1] })", R"(x: "grid")", "");
  const Plan ranks = Planned(R"(layout { name: "grid" partition: [1, 1, 2, 1] rank: [2, 3] })", R"(x: "grid")", "");
  EXPECT_EQ(DiffOfLayouts(before, ranks), "  conv1 .. conv2: 1x1x2x1 on ranks 2-3, was 1x1x2x1\n");
  const Plan cut =
      Planned(R"(layout { name: "grid" partition: [1, 1, 2, 1] cut { dim: 2 size: [5, 3] } })", R"(x: "grid")", "");
  EXPECT_EQ(DiffOfLayouts(before, cut), "  conv1: 1x1x2x1 [dim 2: 5+3] -> 1x1x2x1, was 1x1x2x1\n");
}

TEST(LayoutDiffTest, TellsWhichInputIsReadOtherwise) {
  const auto planned = [](const std::string& x) {
    const auto parsed = ParseSpec(R"job(name: "n" kind: TRAIN ranks: 4 seed: 1
        dataset { name: "train" field { name: "image" shape: [1, 8, 8] synthetic { kind: "normal" samples: 8 } }
                  field { name: "target" shape: [1, 8, 8] synthetic { kind: "normal" samples: 8 } } }
        layout { name: "rows" partition: [1, 1, 4, 1] }
        layout { name: "columns" partition: [1, 1, 1, 4] }
        layer { name: "a" input: "image" x: "rows" conv { out_channels: 1 window { kernel: 1 } } }
        layer { name: "b" input: "image" x: "rows" conv { out_channels: 1 window { kernel: 1 } } }
        layer { name: "c" input: "image" x: "columns" conv { out_channels: 1 window { kernel: 1 } } }
        layer { name: "sum" input: ["a", "b", "c"] x: )job" +
                                      x + R"job( add {} }
        loss { kind: "mse" input: "sum" target: "target" }
        train { dataset: "train" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
        output_dir: "out")job",
                                  "job");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    auto plan = parsed.ok() ? Planner::Build(parsed->spec, {}, BuiltinLayerRules()) : parsed.status();
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : Plan();
  };
  Plan first = planned(R"(["rows", "rows", "rows"])");
  EXPECT_EQ(DiffOfLayouts(first, first), "  no layer differs\n");
  // The second input where it lies, or the third: as a layer of one's own might read them.
  const auto with_reads = [&first](const std::vector<int>& other) {
    Plan plan = first;
    ProgramPlan& program = *plan.mutable_program(0);
    LayerPlan& sum = *program.mutable_layer(3);
    sum.clear_op();
    for (const int input : other) {
      OperatorUse& use = *sum.add_op();
      use.set_role(InputRole(input));
      use.set_index(static_cast<uint32_t>(program.op_size()));
      OperatorPlan& op = *program.add_op();
      *op.mutable_from() = program.value(static_cast<int>(sum.input(input))).layout();
      *op.mutable_to() = program.value(static_cast<int>(program.layer(2).output())).layout();
    }
    return plan;
  };
  EXPECT_EQ(DiffOfLayouts(with_reads({0}), with_reads({1})),
            "  sum: 1x1x4x1,1x1x1x4,1x1x1x4 -> 1x1x4x1, was 1x1x1x4,1x1x4x1,1x1x1x4 -> 1x1x4x1\n");
}

TEST(LayoutDiffTest, NamesLayersThatOnlyOneHas) {
  const Plan before = Planned(R"(layout { name: "grid" partition: [1, 1, 2, 2] })", R"(x: "grid")", "");
  Plan after = before;
  after.mutable_program(0)->mutable_layer(1)->set_name("act");
  EXPECT_EQ(DiffOfLayouts(before, after), "  act: only here\n  relu: only there\n");
}

}  // namespace
}  // namespace adjoin
