#include "planner/plan/file_halos.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/distribution.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

Plan PlanOf(const std::string& text) {
  auto parsed = ParseSpec(text, "job.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = Planner::Build(parsed->spec, {{"train", 200}, {"test", 100}}, BuiltinLayerRules(), &parsed->locations);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Returns a job of two layers that read "image": `first` with padding, `second` without a halo.
std::string TwoReaders(const std::string& first, const std::string& second) {
  return JobText(4,
                 "layout { name: \"grid\" partition: [1,1,2,2] }\n"
                 "layer { name: \"a\" input: \"image\" x: \"grid\" " +
                     first +
                     " }\n"
                     "layer { name: \"b\" input: \"image\" x: \"grid\" " +
                     second +
                     " }\n"
                     "layer { name: \"sum\" input: [\"a\", \"b\"] add {} }\n"
                     "layer { name: \"one\" y: \"first\" repartition {} }\n"
                     "layer { name: \"flat\" flatten { arg: 1 } }\n"
                     "layer { name: \"fc\" linear { out_features: 10 } }\n"
                     "layout { name: \"first\" partition: [1,1,1,1] }\n",
                 "[1, 12, 12]", "fc");
}

const LayerPlan& LayerOf(const ProgramPlan& program, const std::string& name) {
  for (const LayerPlan& layer : program.layer()) {
    if (layer.name() == name) return layer;
  }
  ADD_FAILURE() << name;
  return program.layer(0);
}

const OperatorPlan* OperatorOf(const ProgramPlan& program, const std::string& name) {
  for (const OperatorPlan& op : program.op()) {
    if (op.name() == name) return &op;
  }
  return nullptr;
}

// Expects that every use has the index of its own operator.
void ExpectUsesFit(const ProgramPlan& program) {
  for (const LayerPlan& layer : program.layer()) {
    for (const OperatorUse& use : layer.op()) {
      ASSERT_LT(use.index(), static_cast<uint32_t>(program.op_size()));
      EXPECT_EQ(program.op(use.index()).name(), layer.name() + "." + use.role());
    }
  }
  for (int i = 0; i < program.loss_size(); ++i) {
    for (const OperatorUse& use : program.loss(i).op()) {
      EXPECT_EQ(program.op(use.index()).name(), "loss" + std::to_string(i) + "." + use.role());
    }
  }
  EXPECT_EQ(program.op(program.report_op()).name(), "report");
}

TEST(ReadHalosFromFilesTest, RemovesTheExchangeOfTheFirstLayer) {
  const Plan before = PlanOf(kLeNet);
  Plan after = before;
  ReadHalosFromFiles(&after);
  ASSERT_EQ(after.program_size(), before.program_size());
  for (int i = 0; i < after.program_size(); ++i) {
    const ProgramPlan& was = before.program(i);
    const ProgramPlan& is = after.program(i);
    SCOPED_TRACE(is.name());
    const OperatorPlan* exchange = OperatorOf(was, "conv1.x");
    ASSERT_NE(exchange, nullptr);
    EXPECT_EQ(OperatorOf(is, "conv1.x"), nullptr);
    EXPECT_EQ(is.op_size(), was.op_size() - 1);
    ExpectUsesFit(is);
    const ValuePlan& image = is.value(LayerOf(is, "conv1").input(0));
    EXPECT_EQ(image.name(), "image");
    EXPECT_EQ(image.read().SerializeAsString(), exchange->SerializeAsString());
    // 28 + 2 * 2 rows, in halves of 14 that reach 2 beyond on both sides, zeros or the neighbour's.
    auto ends = DistributionsOf(image.read());
    ASSERT_TRUE(ends.ok());
    EXPECT_EQ(ends->to.View(0).shape[2], 18);
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(is.bytes_per_step(rank), was.bytes_per_step(rank) - exchange->bytes_forward(rank));
      EXPECT_GT(exchange->bytes_forward(rank), 0);
    }
  }
}

TEST(ReadHalosFromFilesTest, AnotherReaderOfTheFieldKeepsItsOwn) {
  Plan plan = PlanOf(TwoReaders("conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } }",
                                "conv { out_channels: 2 window { kernel: 1 } }"));
  ReadHalosFromFiles(&plan);
  const ProgramPlan& program = plan.program(0);
  ExpectUsesFit(program);
  const ValuePlan& a = program.value(LayerOf(program, "a").input(0));
  const ValuePlan& b = program.value(LayerOf(program, "b").input(0));
  EXPECT_TRUE(a.has_read());
  EXPECT_FALSE(b.has_read());
  EXPECT_EQ(b.name(), "image");
  EXPECT_EQ(a.name(), "image#2");
  EXPECT_EQ(a.field(), "image");
}

TEST(ReadHalosFromFilesTest, MinusInfinityIsNotReadFromAFile) {
  Plan plan = PlanOf(TwoReaders("pool { mode: \"max\" window { kernel: 3 stride: 1 pad_lo: 1 } }",
                                "conv { out_channels: 1 window { kernel: 1 } }"));
  ReadHalosFromFiles(&plan);
  const ProgramPlan& program = plan.program(0);
  ExpectUsesFit(program);
  EXPECT_FALSE(program.value(LayerOf(program, "a").input(0)).has_read());
  EXPECT_NE(OperatorOf(program, "a.x"), nullptr);
}

}  // namespace
}  // namespace adjoin
