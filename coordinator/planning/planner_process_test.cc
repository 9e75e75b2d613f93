// Planners in processes of their own, which are this program again.
#include "coordinator/planning/planner_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/planning/plan_maker.h"
#include "coordinator/planning/planner_pool.h"
#include "coordinator/planning/spec_planner.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSeen = 100;  // samples that the files of an earlier job had
constexpr int64_t kBatch = 64;  // of every job
constexpr int64_t kTail = kSeen % kBatch;

// The rule of "flatten", which comes to a limit of the planner where the plan is one for kSeen samples: a layer with
// the name "spins" takes for ever, one with the name "fills" all memory.
absl::StatusOr<LayerOutcome> Flatten(const LayerRequest& request) {
  if (request.input[0].shape()[0] == kTail) {
    while (request.spec.name() == "spins") pause();
    if (request.spec.name() == "fills") std::get_new_handler()();  // as the allocator does, under sanitizers too
  }
  return (*BuiltinLayerRules().Find("flatten"))(request);
}

const LayerRules& Rules() {
  static const LayerRules* rules = [] {
    auto* made = new LayerRules;
    for (const std::string& kind : BuiltinLayerRules().Kinds()) {
      made->Register(kind, kind == "flatten" ? LayerRule(Flatten) : *BuiltinLayerRules().Find(kind)).IgnoreError();
    }
    return made;
  }();
  return *rules;
}

PlanTask Task(const std::string& layer) {
  SubmittedSpec written;
  written.source = absl::StrCat(R"(name: "small" kind: TRAIN ranks: 1 seed: 1 output_dir: "out"
layer { name: ")",
                                layer, R"(" input: "image" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "train"
  field { name: "image" idx { path: "images.idx" } shape: [1, 28, 28] }
  field { name: "label" idx { path: "labels.idx" } dtype: "int64" } }
train { dataset: "train" batch: )",
                                kBatch, R"( epochs: 1 optimizer { sgd { lr: 0.01 } } }
)");
  PlanTask task;
  task.owner = "alice";
  task.name = "job.textproto";
  task.spec = std::make_shared<const SubmittedSpec>(std::move(written));
  return task;
}

std::vector<DatasetSize> Sizes(int64_t samples) {
  std::vector<DatasetSize> sizes(1);
  sizes[0].set_name("train");
  sizes[0].set_samples(samples);
  return sizes;
}

// A planner that has seen a job on these files with kSeen samples before every plan.
class KnowingMaker final : public PlanMaker {
 public:
  explicit KnowingMaker(absl::Duration limit) : process_(WithLimit(limit)) {}
  absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) override {
    PlanTask earlier = Task("flat");
    earlier.sizes = Sizes(kSeen);
    absl::StatusOr<PlanAnswer> planned = process_.Make(earlier, go_on);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return process_.Make(task, go_on);
  }

 private:
  static PlannerProcessOptions WithLimit(absl::Duration limit) {
    PlannerProcessOptions options;
    options.limit = limit;
    return options;
  }
  PlannerProcess process_;
};

absl::StatusOr<PlanAnswer> PlanAfterAnEarlierJob(const PlanTask& task, absl::Duration limit) {
  PlannerPool pool({.planners = 2}, [limit] { return std::make_unique<KnowingMaker>(limit); });
  return PlanAndWait(pool, task, [] { return false; });
}

// For the plan of the earlier job as well, and the start of the planner.
constexpr absl::Duration kLimit = absl::Seconds(15);

TEST(PlannerProcessTest, APlanForTheSizesOfAnEarlierJobComesWithTheFirstAnswer) {
  const absl::StatusOr<PlanAnswer> answer = PlanAfterAnEarlierJob(Task("flat"), absl::Minutes(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->expected_size_size(), 1);
  EXPECT_EQ(answer->expected_size(0).samples(), kSeen);
  EXPECT_NE(answer->plan(), "");
}

TEST(PlannerProcessTest, WhereTheSizesOfAnEarlierJobTakeAllTimeTheJobIsCheckedWithoutThem) {
  const absl::StatusOr<PlanAnswer> answer = PlanAfterAnEarlierJob(Task("spins"), kLimit);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->spec().name(), "small");
  EXPECT_EQ(answer->plan(), "") << "a worker tells the sizes first";
}

TEST(PlannerProcessTest, WhereTheSizesOfAnEarlierJobTakeAllMemoryTheJobIsCheckedWithoutThem) {
  const absl::StatusOr<PlanAnswer> answer = PlanAfterAnEarlierJob(Task("fills"), absl::Minutes(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->spec().name(), "small");
  EXPECT_EQ(answer->plan(), "");
}

TEST(PlannerProcessTest, APlanThatComesToALimitWithItsOwnSizesIsRefused) {
  PlanTask task = Task("fills");
  task.sizes = Sizes(kSeen);
  const absl::Status filled = PlanAfterAnEarlierJob(task, absl::Minutes(1)).status();
  EXPECT_EQ(filled.code(), absl::StatusCode::kResourceExhausted) << filled;
  EXPECT_THAT(std::string(filled.message()), AllOf(HasSubstr("job.textproto"), HasSubstr("--plan-memory-mb")));
  task = Task("spins");
  task.sizes = Sizes(kSeen);
  const absl::Status spun = PlanAfterAnEarlierJob(task, kLimit).status();
  EXPECT_EQ(spun.code(), absl::StatusCode::kDeadlineExceeded) << spun;
  EXPECT_THAT(std::string(spun.message()), HasSubstr("--plan-seconds"));
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (adjoin::IsPlannerProcess(argc, argv)) return adjoin::RunPlannerProcess(argv, adjoin::Rules());
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
