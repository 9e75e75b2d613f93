#include "coordinator/services/spec_planning.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/idempotency_keys.h"
#include "coordinator/planning/plan_maker.h"
#include "coordinator/planning/planner_pool.h"
#include "layers/builtin/builtin_rules.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

class SpecPlanningTest : public ::testing::Test {
 protected:
  static std::string Spec(const std::string& source) {
    return absl::StrCat(R"(name: "small" kind: TRAIN ranks: 1 seed: 1
layer { name: "fc" input: "x" linear { out_features: 10 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train" field { name: "x" )",
                        source, R"( shape: [4] }
  field { name: "y" synthetic { kind: "normal" samples: 100 } shape: [10] } }
train { dataset: "train" batch: 10 epochs: 1 optimizer { sgd { lr: 0.01 } } }
output_dir: "out"
)");
  }
  absl::StatusOr<NewJob> Read(const std::string& text, const std::string& key = "") {
    SubmitRequest request;
    request.set_spec_source(text);
    request.set_spec_file("job.textproto");
    request.set_idempotency_key(key);
    return ReadSubmission(request, "alice", pool_, [] { return false; });
  }

  PlannerPool pool_{{}, [] { return std::make_unique<InProcessMaker>(BuiltinLayerRules()); }};
};

TEST_F(SpecPlanningTest, AJobThatReadsNoFileComesWithItsPlan) {
  absl::StatusOr<NewJob> job = Read(Spec(R"(synthetic { kind: "normal" samples: 100 })"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.name(), "small");
  EXPECT_EQ(job->place_of("dataset[0]"), "job.textproto:4:1");
  ASSERT_TRUE(job->plan.has_value());
  EXPECT_EQ(job->plan->hash.size(), 32);
  Plan plan;
  ASSERT_TRUE(plan.ParseFromString(job->plan->plan));
  EXPECT_EQ(plan.dataset(0).samples(), 100);

  job = Read(Spec(R"(npy { path: "x.npy" })"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->plan.has_value()) << "a worker tells first how many samples the file has";
  EXPECT_EQ(job->place_of("dataset[0].field[0].npy.path[0]"), "job.textproto:4:49");
}

TEST_F(SpecPlanningTest, AJobWithAKeyComesWithTheHashOfItsSpec) {
  const std::string text = Spec(R"(npy { path: "x.npy" })");
  absl::StatusOr<NewJob> job = Read(text, "key");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec_hash, SpecHash(job->spec));
  job = Read(text);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec_hash, "") << "nobody asks for it";
}

}  // namespace
}  // namespace adjoin
