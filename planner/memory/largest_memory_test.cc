// The rank that is said to need most memory is the one that needs most of all.
#include <algorithm>
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

// `read` and `extents`: of the image, and of what the first convolution, without padding, makes of it.
Plan PlannedOn(int ranks, const std::string& partition, const std::string& read, const std::string& extents) {
  const std::string text =
      absl::StrCat("name: \"n\" kind: TRAIN ranks: ", ranks, " seed: 1 output_dir: \"out\"\n",
                   "dataset { name: \"train\" field { name: \"image\" shape: [2, ", read, "]", R"job(
                       synthetic { kind: "normal" samples: 64 } } field { name: "target" shape: [4, )job",
                   extents, R"job(] synthetic { kind: "normal" samples: 64 } } }
      layout { name: "grid" partition: [)job",
                   partition, R"job(] }
      layer { name: "conv1" input: "image" x: "grid" conv { out_channels: 8 window { kernel: 3 } } }
      layer { name: "norm" norm { kind: "batch" } }
      layer { name: "relu" activation { fn: "relu" } }
      layer { name: "conv2" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
      loss { kind: "mse" input: "conv2" target: "target" }
      train { dataset: "train" batch: 4 steps: 1 optimizer { adam { lr: 0.1 } } })job");
  const auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = parsed.ok() ? Planner::Build(parsed->spec, {}, BuiltinLayerRules()) : parsed.status();
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

void ExpectLargestOfAll(int ranks, const std::string& partition, const std::string& read, const std::string& extents) {
  SCOPED_TRACE(absl::StrCat(partition, " of ", extents));
  const Plan plan = PlannedOn(ranks, partition, read, extents);
  const auto largest = PredictLargestMemory(plan);
  ASSERT_TRUE(largest.ok()) << largest.status();
  int64_t most = 0, least = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto memory = PredictMemory(plan, rank);
    ASSERT_TRUE(memory.ok()) << memory.status();
    most = std::max(most, memory->bytes);
    least = rank == 0 ? memory->bytes : std::min(least, memory->bytes);
  }
  EXPECT_EQ(largest->bytes, most);
  EXPECT_LT(least, most) << "all ranks need the same";
}

TEST(LargestMemoryTest, IsThatOfARankBetweenOthers) {
  ExpectLargestOfAll(64, "1, 1, 4, 4, 4", "34, 34, 34", "32, 32, 32");
  ExpectLargestOfAll(27, "1, 1, 3, 3, 3", "26, 26, 26", "24, 24, 24");
  ExpectLargestOfAll(12, "1, 1, 3, 4", "50, 66", "48, 64");
}

TEST(LargestMemoryTest, IsThatOfARankBetweenOthersOfMany) {
  ExpectLargestOfAll(128, "2, 1, 4, 4, 4", "34, 34, 34", "32, 32, 32");
  ExpectLargestOfAll(100, "1, 1, 10, 10", "82, 92", "80, 90");
}

TEST(LargestMemoryTest, IsThatOfTheLargestPart) {
  ExpectLargestOfAll(12, "1, 1, 3, 4", "51, 68", "49, 66");
  ExpectLargestOfAll(81, "1, 1, 9, 9", "95, 76", "93, 74");
}

}  // namespace
}  // namespace adjoin
