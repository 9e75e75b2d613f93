// What ends a session before all is done: a loss that is not finite, a drain, an abort.
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/deadline.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/data/idx_test_files.h"
#include "worker/model/safetensors.h"
#include "worker/session/session.h"
#include "worker/session/session_fixture.h"
#include "worker/training/session_activity.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// All ranks report the same, whichever rank has the value.
void ExpectHopeless(const std::vector<absl::Status>& statuses, const std::string& text) {
  ASSERT_EQ(statuses.size(), 2u);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(status, statuses[0]);
  }
}

TEST_F(SessionTest, ALossThatIsNotFiniteEndsTheJob) {
  spec_.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e30);
  const std::vector<absl::Status> statuses = RunCollect();
  ExpectHopeless(statuses, "; the first value that is not finite is in ");
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("step "), HasSubstr("the loss is"), HasSubstr("of layer \""),
                    HasSubstr("; training cannot go on (a smaller learning rate may help)")));
}

// fc is on rank 1 only, the rows of conv are on both, the row of the planted pixel is on rank 1.
TEST_F(SessionTest, NamesTheFirstValueThatIsNotFinite) {
  // Weights of 0.1, but for the last one of parameter `name`.
  const auto plant = [&](const std::string& name, float value) {
    const std::vector<SafetensorsEntry> entries = {{"conv.weight", DType::kFloat32, {2, 1, 3, 3}},
                                                   {"conv.bias", DType::kFloat32, {2}},
                                                   {"fc.weight", DType::kFloat32, {2, 72}},
                                                   {"fc.bias", DType::kFloat32, {2}}};
    auto writer = SafetensorsWriter::Create(root_ + "planted.safetensors", entries);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : entries) {
      std::vector<float> values(entry.Bytes() / sizeof(float), 0.1f);
      if (entry.name == name) values.back() = value;
      ASSERT_TRUE((*writer)->Append(values.data(), entry.Bytes()).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  spec_.mutable_weights()->set_init_from("planted.safetensors");
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  plant("fc.bias", kNan);
  ExpectHopeless(RunCollect(),
                 "step 1: the loss is nan; the first value that is not finite is in parameter \"fc.bias\" of"
                 " layer \"fc\"; training cannot go on (a smaller");
  plant("fc.weight", 3e38f);
  spec_.mutable_dataset(0)->mutable_field(0)->set_scale(10);
  ExpectHopeless(RunCollect(), "the first value that is not finite is in the output of layer \"fc\"; training cannot");

  spec_.clear_weights();
  std::vector<double> images(kSamples * 36, 0.5);
  for (int64_t sample = 0; sample < kSamples; ++sample) images[sample * 36 + 35] = kNan;
  WriteFile(root_ + "images", IdxBytes(IdxType::kFloat32, {kSamples, 6, 6}, images));
  const std::vector<absl::Status> data = RunCollect();
  ExpectHopeless(data,
                 "the first value that is not finite is in field \"image\" of the data, an input of layer \"conv\";"
                 " training cannot go on");
  EXPECT_EQ(std::string(data[0].message()).find("learning rate"), std::string::npos) << "it would not help";
}

// Rank 1 alone is asked, in mid-training.
TEST_F(SessionTest, ADrainStopsAllRanksAfterTheSameStep) {
  spec_.mutable_train()->set_epochs(100000);
  std::atomic<bool> asked{false};
  SessionActivity activity;
  bool trained = false;
  std::thread daemon([&] {
    const Deadline deadline = Deadline::After(absl::Seconds(30));
    while (!trained && !deadline.Expired()) {
      const RankPulse pulse = activity.Now();
      trained = pulse.phase() == "training" && pulse.step() >= 3;
    }
    asked = true;
  });
  const absl::Status status = Run([&](int rank, SessionOptions& options) {
    options.epoch = 2;
    if (rank != 1) return;
    options.activity = &activity;
    options.drain = &asked;
  });
  daemon.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(trained);
  const int64_t step = results_[0].drained_step.value_or(0);
  EXPECT_GE(step, 3);
  for (const SessionResult& result : results_) {
    EXPECT_EQ(result.drained_step, step);
    EXPECT_EQ(result.final.step(), step);
    int64_t steps = 0;
    for (const auto& [program, count] : result.steps) steps += count;
    EXPECT_EQ(steps, step);
    const int rank = static_cast<int>(&result - results_.data());
    EXPECT_EQ(result.bytes_sent.at("train"), result.steps.at("train") * plan_.program(0).bytes_per_step(rank));
    EXPECT_TRUE(result.artifacts.empty());
  }
  EXPECT_GT(activity.Now().step_seconds(), 0);
  EXPECT_TRUE(Metrics().empty()) << "nothing is published";
}

// The last step of training is kept; the evaluation ends early.
TEST_F(SessionTest, ADrainEndsTheEvaluation) {
  spec_.mutable_train()->set_steps(1);
  const std::atomic<bool> asked{true};
  const auto ask = [&](int rank, SessionOptions& options) {
    options.epoch = 3;
    if (rank == 0) options.drain = &asked;
  };
  absl::Status status = Run(ask);
  ASSERT_TRUE(status.ok()) << status;
  for (const SessionResult& result : results_) EXPECT_EQ(result.drained_step, 1);
  EXPECT_EQ(results_[0].final.phase(), "evaluating");
  EXPECT_TRUE(Metrics().empty()) << "nothing is published";

  spec_.clear_evaluate();
  status = Run(ask);
  ASSERT_TRUE(status.ok()) << status;
  for (const SessionResult& result : results_) EXPECT_FALSE(result.drained_step.has_value()) << "all was done";
  EXPECT_EQ(Metrics().size(), 2u);
}

TEST_F(SessionTest, AnAbortEndsTheSession) {
  auto plan = Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = RunRanks(2, TransportKind::kInMemory, 4, [&](Transport& t) -> absl::Status {
    SessionOptions options;
    options.plan = *plan;
    options.data_root = root_;
    options.output_root = root_;
    options.transport = &t;
    options.on_progress = [&](const JobProgress& p) {
      if (t.rank() == 1) t.Abort(absl::CancelledError("told to stop"));
    };
    return RunSession(options).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("told to stop"));
}

}  // namespace
}  // namespace adjoin
