// The rank that is said to need most memory is the one that needs most of all.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

Plan PlanOf(const std::string& text) {
  const auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = parsed.ok() ? Planner::Build(parsed->spec, {}, BuiltinLayerRules()) : parsed.status();
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

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
  return PlanOf(text);
}

// `differ`: some rank needs less than another.
void ExpectLargest(const Plan& plan, bool differ = true) {
  const auto largest = PredictLargestMemory(plan);
  ASSERT_TRUE(largest.ok()) << largest.status();
  int64_t most = 0, least = 0;
  for (int rank = 0; rank < static_cast<int>(plan.spec().ranks()); ++rank) {
    const auto memory = PredictMemory(plan, rank);
    ASSERT_TRUE(memory.ok()) << memory.status();
    most = std::max(most, memory->bytes);
    least = rank == 0 ? memory->bytes : std::min(least, memory->bytes);
  }
  EXPECT_EQ(largest->bytes, most);
  EXPECT_TRUE(!differ || least < most) << "all ranks need the same";
}

void ExpectLargestOfAll(int ranks, const std::string& partition, const std::string& read, const std::string& extents) {
  SCOPED_TRACE(absl::StrCat(partition, " of ", extents));
  ExpectLargest(PlannedOn(ranks, partition, read, extents));
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

// Two linear layers on a rank each: `first` follows the one on rank 0, `second` that on rank 1.
Plan TwoStages(const std::string& first, const std::string& second) {
  return PlanOf(absl::StrCat(R"job(name: "n" kind: TRAIN ranks: 2 seed: 1 output_dir: "out"
      dataset { name: "train" field { name: "x" shape: [64] synthetic { kind: "normal" samples: 64 } }
                field { name: "target" shape: [64] synthetic { kind: "normal" samples: 64 } } }
      layout { name: "zero" partition: [1, 1] rank: [0] }
      layout { name: "one" partition: [1, 1] rank: [1] }
      layer { name: "fc0" input: "x" x: "zero" w: "zero" linear { out_features: 64 } } )job",
                             first, R"job(
      layer { name: "fc1" x: "one" w: "one" y: "one" linear { out_features: 64 } } )job",
                             second, R"job(
      loss { kind: "mse" input: "last" target: "target" }
      train { dataset: "train" batch: 64 steps: 1 optimizer { sgd { lr: 0.1 } } })job"));
}

// Both have parts of equal bytes: a field, what the linear layer returns and what the next layer does. A rectifier
// keeps what it returns, and mish what it reads as well.
TEST(LargestMemoryTest, IsThatOfTheRankWhoseLayersKeepMore) {
  const Plan plan = TwoStages(R"(layer { name: "relu" activation { fn: "relu" } })",
                              R"(layer { name: "last" activation { fn: "mish" } })");
  ExpectLargest(plan);
  const auto largest = PredictLargestMemory(plan);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->rank, 1);
}

// A pipeline of 32 stages of four ranks. Each layer is wider than the one before, and yet the first stage needs most,
// since it has most micro-batches at once.
TEST(LargestMemoryTest, IsThatOfTheStageWithMostMicrobatches) {
  std::string layouts, layers;
  for (int stage = 0; stage < 32; ++stage) {
    const int first = 4 * stage;
    absl::StrAppend(&layouts, "layout { name: \"on", stage, "\" partition: [4, 1] rank: [", first, ", ", first + 1,
                    ", ", first + 2, ", ", first + 3, "] }\n");
    const std::string on = absl::StrCat("\"on", stage, "\"");
    absl::StrAppend(
        &layers, "layer { name: \"to", stage, "\" ",
        stage == 0 ? "input: \"x\" x: \"on0\" activation { fn: \"mish\" }" : absl::StrCat("y: ", on, " repartition {}"),
        " }\nlayer { name: \"fc", stage, "\" linear { out_features: ", 64 + stage, " } }\nlayer { name: \"act", stage,
        "\" activation { fn: \"mish\" } }\n");
  }
  const Plan plan = PlanOf(absl::StrCat(R"job(name: "n" kind: TRAIN ranks: 128 seed: 1 output_dir: "out"
      dataset { name: "train" field { name: "x" shape: [64] synthetic { kind: "normal" samples: 8192 } }
                field { name: "target" shape: [95] synthetic { kind: "normal" samples: 8192 } } }
      )job",
                                        layouts, layers, R"job(
      loss { kind: "mse" input: "act31" target: "target" }
      train { dataset: "train" batch: 8192 microbatches: 64 microbatches_in_flight: 32 steps: 1
              optimizer { sgd { lr: 0.1 } } })job"));
  ExpectLargest(plan);
  const auto largest = PredictLargestMemory(plan);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_LT(largest->rank, 8) << "the first stage has most micro-batches; the second has one fewer, and also receives";
}

// Chains of layers of one width, each on some rank.
TEST(LargestMemoryTest, IsThatOfAllWhereLayersAreOnDifferentRanks) {
  const uint64_t seed = TestSeed(20);
  for (uint64_t job = seed; job < seed + 40; ++job) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(job));
    const auto below = [&random](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
    const int ranks = 2 + below(9);
    std::string text = absl::StrCat("name: \"n\" kind: TRAIN ranks: ", ranks, R"job( seed: 1 output_dir: "out"
      dataset { name: "train" field { name: "x" shape: [32] synthetic { kind: "normal" samples: 64 } }
                field { name: "target" shape: [32] synthetic { kind: "normal" samples: 64 } } }
      )job");
    for (int rank = 0; rank < ranks; ++rank) {
      absl::StrAppend(&text, "layout { name: \"on", rank, "\" partition: [1, 1] rank: [", rank, "] }\n");
    }
    const int layers = 4 + below(12);
    for (int i = 0; i < layers; ++i) {
      const std::string on = absl::StrCat("\"on", below(ranks), "\"");
      const char* const activations[] = {"relu", "mish", "gelu", "silu", "tanh"};
      absl::StrAppend(&text, "layer { name: \"l", i, "\" ", i == 0 ? "input: \"x\" " : "", "x: ", on);
      if (below(2) == 0) {
        absl::StrAppend(&text, " w: ", on, " y: ", on, " linear { out_features: 32 } }\n");
      } else {
        absl::StrAppend(&text, " activation { fn: \"", activations[below(5)], "\" } }\n");
      }
    }
    absl::StrAppend(&text, "loss { kind: \"mse\" input: \"l", layers - 1, R"job(" target: "target" }
      train { dataset: "train" batch: 64 steps: 1 optimizer { sgd { lr: 0.1 momentum: 0.9 } } })job");
    SCOPED_TRACE(absl::StrCat("ADJOIN_TEST_SEED=", job, "\n", text));
    ExpectLargest(PlanOf(text), false);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace adjoin
