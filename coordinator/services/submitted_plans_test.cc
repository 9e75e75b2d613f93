// How often a submission is planned, from the text that a user sends to the job that is accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/planning/plan_answer.h"
#include "coordinator/planning/plan_maker.h"
#include "coordinator/planning/spec_planner.h"
#include "coordinator/services/spec_planning.h"
#include "coordinator/store/store.h"
#include "layers/builtin/builtin_rules.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

constexpr ConnectionId kWorker = 1;

// One planner, which makes each plan at once and counts them.
class CountingPlanner final : public SpecPlanner {
 public:
  absl::StatusOr<uint64_t> Start(PlanTask task, PlanDone done) override {
    ++plans_;
    absl::StatusOr<PlanAnswer> answer = maker_.Make(task, [] { return true; });
    if (answer.ok() && answer->error() != 0) {
      answer = absl::Status(static_cast<absl::StatusCode>(answer->error()), answer->message());
    }
    done(std::move(answer));
    return static_cast<uint64_t>(plans_);
  }
  void GiveUp(uint64_t ticket) override {}
  void Stop() override {}
  int plans() const { return plans_; }

 private:
  InProcessMaker maker_{BuiltinLayerRules()};
  int plans_ = 0;
};

class SubmittedPlansTest : public ::testing::Test {
 protected:
  SubmittedPlansTest() {
    WorkerHello hello;
    hello.set_name("worker-0");
    hello.set_slots(1);
    hello.set_incarnation(1);
    EXPECT_EQ(service_.WorkerConnected(kWorker, hello), absl::OkStatus());
    Settle();
  }

  static CoordinationOptions Options() {
    CoordinationOptions options;
    options.wall_clock = [] { return absl::FromUnixSeconds(1000); };
    options.monotonic_clock = [] { return absl::Seconds(5); };
    return options;
  }
  // `source`: of the field "x".
  static std::string Spec(const std::string& source, const std::string& end = "") {
    return absl::StrCat(R"(name: "small" kind: TRAIN ranks: 1 seed: 1
layer { name: "fc" input: "x" linear { out_features: 10 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train" field { name: "x" )",
                        source, R"( shape: [4] }
  field { name: "y" synthetic { kind: "normal" samples: 100 } shape: [10] } }
train { dataset: "train" batch: 10 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)",
                        end);
  }

  // As the RPC does, with the hub's part in Settle. Returns the job's id, and sets `plans_` to how often it was
  // planned.
  absl::StatusOr<std::string> Submit(const std::string& text, const std::string& key = "") {
    SubmitRequest request;
    request.set_spec_source(text);
    request.set_spec_file("job.textproto");
    request.set_idempotency_key(key);
    const int before = planner_.plans();
    const WithService look = [this](const std::function<void(CoordinationService&)>& f) { f(service_); };
    absl::StatusOr<NewJob> job = ReadNumbered(
        request, "alice", planner_, [this] { return gone_; }, look);
    plans_ = planner_.plans() - before;
    if (!job.ok()) return job.status();
    const absl::StatusOr<Submitted> submitted = service_.Submit(*std::move(job));
    Settle();
    plans_ = planner_.plans() - before;
    if (!submitted.ok()) return submitted.status();
    absl::Status reason;
    const Admission admission = service_.AdmissionOf(submitted->job_id, &reason);
    if (admission == Admission::kRefused) return reason;
    EXPECT_EQ(admission, Admission::kAccepted) << submitted->job_id;
    return submitted->job_id;
  }

  // Makes plans, keeps what is to be stored, and answers what the worker is asked, until nothing is left to do.
  void Settle() {
    while (true) {
      for (PlanRequest& request : service_.TakePlanRequests()) {
        PlanTask task;
        task.owner = request.owner;
        task.name = request.job_id;
        task.spec = request.written;
        task.sizes = request.sizes;
        task.output_dir = request.output_dir;
        const auto done = [&](absl::StatusOr<PlanAnswer> answer) {
          service_.Planned(request.job_id,
                           answer.ok() ? absl::StatusOr<PlannedJob>(PlannedJobOf(*answer)) : answer.status());
        };
        EXPECT_TRUE(planner_.Start(std::move(task), done).ok());
      }
      StoreChanges changes = service_.TakeChanges();
      for (StoredPlan& row : changes.plans) EXPECT_TRUE(plan_.ParseFromString(row.plan()));
      service_.Durable(changes.submissions);
      const std::vector<Action> actions = service_.TakeActions();
      if (actions.empty() && changes.empty()) return;
      for (const Action& action : actions) {
        if (action.message.has_probe_data()) Answer(action.message.probe_data());
      }
    }
  }
  void Answer(const ProbeData& asked) {
    ++checks_;
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    ProbeResult& result = *message.mutable_probe_result();
    result.set_request_id(asked.request_id());
    for (const Dataset& dataset : asked.dataset()) {
      DatasetSize& size = *result.add_dataset();
      size.set_name(dataset.name());
      size.set_samples(samples_);
    }
    service_.WorkerSaid(kWorker, message);
  }

  CountingPlanner planner_;
  CoordinationService service_{Options()};
  int64_t samples_ = 100;  // that the worker finds in files
  bool gone_ = false;      // the client
  int plans_ = 0;          // of the last submission
  int checks_ = 0;         // by the worker
  Plan plan_;              // the last one that was stored
};

constexpr char kSynthetic[] = "synthetic { kind: \"normal\" samples: 100 }";
constexpr char kFile[] = "npy { path: \"x.npy\" }";

TEST_F(SubmittedPlansTest, AJobThatReadsNoFileIsPlannedOnce) {
  absl::StatusOr<std::string> job = Submit(Spec(kSynthetic, "output_dir: \"out\""));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(plan_.spec().output_dir(), "out");
  job = Submit(Spec(kSynthetic));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(plan_.spec().output_dir(), *job);
  EXPECT_EQ(checks_, 0);
}

TEST_F(SubmittedPlansTest, AJobThatReadsFilesIsPlannedOnceWhereTheyAreKnown) {
  for (const std::string end : {"", "output_dir: \"out\""}) {
    const absl::StatusOr<std::string> job = Submit(Spec(kFile, end));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(plans_, end.empty() ? 2 : 1) << "the first one on this file is planned with what the worker finds";
    EXPECT_EQ(plan_.spec().output_dir(), end.empty() ? *job : "out");
  }
  const absl::StatusOr<std::string> job = Submit(Spec(kFile));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(plans_, 1);
  EXPECT_EQ(plan_.spec().output_dir(), *job);
  EXPECT_EQ(plan_.dataset(0).samples(), 100);
  EXPECT_EQ(checks_, 3) << "a worker looks at the files of each";
}

TEST_F(SubmittedPlansTest, FilesThatHaveChangedArePlannedAsTheyAre) {
  for (const auto& [samples, plans] : {std::pair(100, 2), std::pair(100, 1), std::pair(95, 2), std::pair(95, 1)}) {
    samples_ = samples;
    const absl::StatusOr<std::string> job = Submit(Spec(kFile));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(plans_, plans) << samples;
    EXPECT_EQ(plan_.dataset(0).samples(), samples);
    EXPECT_EQ(plan_.program_size(), samples == 100 ? 1 : 2) << "95 samples leave 5 over";
  }
}

TEST_F(SubmittedPlansTest, AWrongJobIsPlannedOnceAndNoWorkerIsAsked) {
  const absl::StatusOr<std::string> first = Submit(Spec(kFile));
  ASSERT_TRUE(first.ok()) << first.status();
  for (const std::string source : {kSynthetic, kFile}) {
    const absl::Status refused = Submit(Spec(source, "layer { name: \"more\" flatten { arg: 100 } }")).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("job.textproto:7:"));
    EXPECT_EQ(plans_, 1);
  }
  EXPECT_EQ(checks_, 1);
  const absl::StatusOr<std::string> next = Submit(Spec(kFile));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(JobNumberOf(*next), JobNumberOf(*first) + 1) << "what is refused takes no number";
}

TEST_F(SubmittedPlansTest, AClientThatGoesLeavesNoGap) {
  const absl::StatusOr<std::string> first = Submit(Spec(kSynthetic));
  ASSERT_TRUE(first.ok()) << first.status();
  gone_ = true;
  EXPECT_EQ(Submit(Spec(kSynthetic)).status().code(), absl::StatusCode::kCancelled);
  gone_ = false;
  const absl::StatusOr<std::string> next = Submit(Spec(kSynthetic));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(JobNumberOf(*next), JobNumberOf(*first) + 1);
}

TEST_F(SubmittedPlansTest, ASubmissionThatIsRepeatedIsTheSameJob) {
  for (const std::string source : {kSynthetic, kFile}) {
    const absl::StatusOr<std::string> job = Submit(Spec(source), source);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::StatusOr<std::string> again = Submit(Spec(source), source);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *job);
  }
}

TEST(MayLackOutputDirTest, IsFalseOnlyWhereItIsNamed) {
  SubmitRequest request;
  EXPECT_TRUE(MayLackOutputDir(request));
  request.mutable_spec()->set_output_dir("out");
  EXPECT_FALSE(MayLackOutputDir(request));
  request.set_spec_source("ranks: 1");
  EXPECT_TRUE(MayLackOutputDir(request));
  request.set_spec_source("ranks: 1 output_dir: \"out\"");
  EXPECT_FALSE(MayLackOutputDir(request));
  request.set_spec_source("{\"outputDir\": \"out\"}");
  EXPECT_FALSE(MayLackOutputDir(request));
}

}  // namespace
}  // namespace adjoin
