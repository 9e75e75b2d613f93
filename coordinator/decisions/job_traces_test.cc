// Traces that users ask for: of which jobs, when, and to whom the order goes.
#include "coordinator/decisions/job_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobTracesTest : public CoordinationTest {
 protected:
  std::string Running() {
    JobSpec spec = Spec("net", 2);
    spec.set_kind(TRAIN);
    Connect(1, "worker-0", 1);
    Connect(2, "worker-1", 1);
    const std::string job = Submit(spec);
    Ready(1, job, 0);
    Ready(2, job, 1);
    EXPECT_EQ(Job(job).state(), RUNNING);
    service_->TakeActions();
    return job;
  }
  absl::Status Ask(const std::string& job, const std::string& id, uint32_t steps = 5) {
    const absl::StatusOr<std::string> asked = service_->Trace(job, {id, steps});
    Settle();
    return asked.status();
  }
  // Rank 0 reports.
  void Tell(const std::string& job, const TraceProgress& trace, const std::string& phase = "training") {
    WorkerMessage message = Message(job);
    message.mutable_rank_update()->set_job_id(job);
    JobProgress& progress = *message.mutable_rank_update()->mutable_progress();
    progress.set_phase(phase);
    *progress.mutable_trace() = trace;
    Say(1, message);
  }
  static TraceProgress Of(const std::string& id, const std::string& file = "", const std::string& error = "") {
    TraceProgress trace;
    trace.set_request_id(id);
    trace.set_first_step(41);
    trace.set_last_step(45);
    trace.set_file(file);
    trace.set_error(error);
    return trace;
  }
};

TEST_F(JobTracesTest, TheDaemonOfRank0IsTold) {
  const std::string job = Running();
  EXPECT_EQ(Ask("net", "abc"), absl::OkStatus()) << "by its name";
  const std::vector<Action> orders = Taken(CoordinatorMessage::kTraceRank);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].to, 1u);
  EXPECT_EQ(orders[0].message.header().epoch(), Job(job).epoch());
  EXPECT_EQ(orders[0].message.trace_rank().job_id(), job);
  EXPECT_EQ(orders[0].message.trace_rank().request_id(), "abc");
  EXPECT_EQ(orders[0].message.trace_rank().steps(), 5u);
  EXPECT_THAT(Kinds(job), Contains("trace"));
}

TEST_F(JobTracesTest, OneIsMadeAtATime) {
  const std::string job = Running();
  ASSERT_EQ(Ask(job, "abc"), absl::OkStatus());
  EXPECT_EQ(Ask(job, "abc"), absl::OkStatus()) << "the same request, whose answer was lost";
  EXPECT_EQ(Ask(job, "def").message(), "job-1 is being traced already; ask again when that is done");
  EXPECT_THAT(Taken(CoordinatorMessage::kTraceRank), SizeIs(1));
  Tell(job, Of("abc"));
  now_ += absl::Seconds(90);  // its steps are long
  EXPECT_EQ(Ask(job, "def").message(), "job-1 is being traced already: steps 41 to 45; ask again when that is done");
  Tell(job, Of("abc", "trace-41-45.pftrace"));
  EXPECT_EQ(Ask(job, "def"), absl::OkStatus());
  Tell(job, Of("def", "", "no space left"));
  EXPECT_EQ(Ask(job, "ghi"), absl::OkStatus()) << "one that failed is over as well";
  // Nothing was heard of it: the order may be lost.
  now_ += JobTraces::kAnswerTime + absl::Seconds(1);
  EXPECT_EQ(Ask(job, "jkl"), absl::OkStatus());
  EXPECT_THAT(Taken(CoordinatorMessage::kTraceRank), SizeIs(3));
}

TEST_F(JobTracesTest, OnlyJobsThatTrainNow) {
  Connect(1, "worker-0", 1);
  JobSpec spec = Spec("waits", 2);
  spec.set_kind(TRAIN);
  const std::string waits = Submit(spec);
  EXPECT_EQ(Ask(waits, "abc").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Ask(waits, "abc").message()),
              HasSubstr("job-1 is pending: only a job that runs can be traced"));
  Connect(2, "worker-1", 1);
  Ready(1, waits, 0);
  Ready(2, waits, 1);
  Tell(waits, {}, "evaluating");
  EXPECT_EQ(Ask(waits, "abc").message(), "job-1 trains no more, it is evaluating: only steps of training are traced");
  Tell(waits, {}, "validating");
  service_->WorkerDisconnected(1, "the connection broke");
  Settle();
  EXPECT_EQ(Ask(waits, "abc").code(), absl::StatusCode::kUnavailable);
  Ended(2, waits, 1, "failed: boom");
  EXPECT_THAT(std::string(Ask(waits, "abc").message()), HasSubstr("is failed: only a job that runs"));
  EXPECT_EQ(Ask("nobody", "abc").code(), absl::StatusCode::kNotFound);

  spec = Spec("measures", 1);
  spec.set_kind(EVALUATE);
  Connect(3, "worker-2", 1);
  const std::string measures = Submit(spec);
  Ready(3, measures, 0);
  EXPECT_THAT(std::string(Ask(measures, "abc").message()), HasSubstr("does not train"));
  EXPECT_THAT(Taken(CoordinatorMessage::kTraceRank), IsEmpty());
}

TEST_F(JobTracesTest, WhatIsAskedForIsChecked) {
  const std::string job = Running();
  for (const uint32_t steps : {0u, 1001u, 4294967295u}) {
    EXPECT_EQ(Ask(job, "abc", steps).code(), absl::StatusCode::kInvalidArgument) << steps;
  }
  for (const std::string& id :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("\x1b[31m"), std::string("\xff")}) {
    EXPECT_EQ(Ask(job, id).code(), absl::StatusCode::kInvalidArgument) << id;
  }
  const auto refuses = [](const JobRecord&) { return absl::PermissionDeniedError("it is alice's"); };
  EXPECT_EQ(service_->Trace(job, {"abc", 5}, refuses).status().message(), "it is alice's");
  EXPECT_THAT(Taken(CoordinatorMessage::kTraceRank), IsEmpty());
  EXPECT_EQ(Ask(job, "abc", 1000), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
