// A network under limits of memory: a layout that fits, or the least that would.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/auto/auto_plan.h"
#include "planner/spec/spec_include.h"

namespace adjoin {
namespace {

absl::StatusOr<AutoPlan> Chosen(const JobSpec& job, const AutoOptions& options) {
  return PlanAutomatically(job, {}, BuiltinLayerRules(), CostModel::Default(), options);
}

TEST(AutoMemoryTest, FitsAMemoryOrSaysTheLeast) {
  const auto loaded = LoadSpec("examples/unet/unet3d.textproto", {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const JobSpec& job = loaded->parsed.spec;
  const auto free = Chosen(job, {});
  ASSERT_TRUE(free.ok()) << free.status();
  int fits = 0;
  for (const double share : {0.95, 0.9, 0.8, 0.7, 0.5, 0.01}) {
    const int64_t limit = static_cast<int64_t>(static_cast<double>(free->memory.bytes) * share);
    const auto chosen = Chosen(job, {.memory_bytes = limit});
    if (!chosen.ok()) {
      EXPECT_EQ(chosen.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_NE(chosen.status().message().find("the least that was found needs"), std::string::npos);
      EXPECT_NE(chosen.status().message().find("layer \""), std::string::npos) << chosen.status();
      continue;
    }
    ++fits;
    EXPECT_LE(chosen->memory.bytes, limit);
    EXPECT_LE(chosen->report.lower_bound_seconds(), chosen->report.chosen_seconds());
    EXPECT_GE(chosen->report.chosen_seconds(), free->report.lower_bound_seconds() - 1e-12);
  }
  EXPECT_GT(fits, 1);
  EXPECT_LT(fits, 6);
}

}  // namespace
}  // namespace adjoin
