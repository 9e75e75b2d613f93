// What ranks of a node share for short messages is in the predicted size of their processes.
#include "planner/memory/resident_size.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

// Every rank has a part of the batch and all weights: what moves is the sum of the gradients.
ResidentSize SizeOf(int ranks, int layers, int width, const std::string& more = "") {
  std::string text = absl::StrCat("name: \"n\" kind: TRAIN ranks: ", ranks, " seed: 1 output_dir: \"out\" ", more,
                                  " dataset { name: \"train\" field { name: \"x\" shape: [", width,
                                  R"job(] synthetic { kind: "normal" samples: 64 } }
      field { name: "target" shape: [)job",
                                  width, R"job(] synthetic { kind: "normal" samples: 64 } } }
      layout { name: "batch" partition: [)job",
                                  ranks, ", 1] }\n");
  for (int i = 0; i < layers; ++i) {
    absl::StrAppend(&text, "layer { name: \"l", i, "\" ", i == 0 ? "input: \"x\" " : "",
                    "x: \"batch\" linear { bias: false out_features: ", width, " } }\n");
  }
  absl::StrAppend(&text, "loss { kind: \"mse\" input: \"l", layers - 1, R"job(" target: "target" }
      train { dataset: "train" batch: 8 steps: 1 optimizer { sgd { lr: 0.1 } } })job");
  const auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto plan = parsed.ok() ? Planner::Build(parsed->spec, {}, BuiltinLayerRules()) : parsed.status();
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const auto memory = PredictLargestMemory(*plan);
  EXPECT_TRUE(memory.ok()) << memory.status();
  const auto size = memory.ok() ? PredictResidentSize(*plan, *memory) : memory.status();
  EXPECT_TRUE(size.ok()) << size.status();
  return size.ok() ? *size : ResidentSize();
}

constexpr int64_t kNumbers = 4096;  // more than the sums of a few numbers take that a step ends with

TEST(ResidentSizeTest, OneRankSharesNothing) { EXPECT_EQ(SizeOf(1, 4, 64).shared, 0); }

// 16 KiB of a gradient come and go, each through two slots.
TEST(ResidentSizeTest, ASmallGradientIsInBothArenas) {
  const int64_t shared = SizeOf(2, 1, 64).shared;
  EXPECT_GE(shared, 4 * 64 * 64 * 4);
  EXPECT_LE(shared, 4 * 64 * 64 * 4 + kNumbers);
}

TEST(ResidentSizeTest, LongMessagesAreInNone) { EXPECT_LE(SizeOf(2, 2, 512).shared, kNumbers); }

// 300 gradients of 256 KiB each: an arena's 64 MiB are less than twice that.
TEST(ResidentSizeTest, AnArenaHasAnEnd) { EXPECT_EQ(SizeOf(2, 300, 256).shared, int64_t{128} << 20); }

TEST(ResidentSizeTest, IsInTheSizeOfTheProcess) {
  const ResidentSize size = SizeOf(2, 40, 256), small = SizeOf(2, 1, 64);
  EXPECT_GE(size.shared, 4 * 40 * (int64_t{256} << 10));
  EXPECT_GE(size.program - small.program, size.shared - small.shared);
  EXPECT_GE(size.total, size.program);
}

TEST(ResidentSizeTest, TensorsOfADeviceAreInNone) { EXPECT_EQ(SizeOf(2, 4, 64, "resources { gpus: 1 }").shared, 0); }

}  // namespace
}  // namespace adjoin
