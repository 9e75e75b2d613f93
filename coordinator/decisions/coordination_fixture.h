// Drives a CoordinationService by hand: the test writes the messages of the daemons and sets the clock, and a store in
// memory lets it start another coordinator at any time.
//
//   class RestartTest : public CoordinationTest {};
//   TEST_F(RestartTest, ...) { Connect(1, "worker-0", 1); std::string job = Submit(Spec("net", 1)); Restart(); ... }
#ifndef ADJOIN_COORDINATOR_DECISIONS_COORDINATION_FIXTURE_H_
#define ADJOIN_COORDINATOR_DECISIONS_COORDINATION_FIXTURE_H_

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/decisions/whole_answers.h"
#include "proto/protocol.h"

namespace adjoin {

class CoordinationTest : public ::testing::Test {
 protected:
  CoordinationTest() {
    options_.wall_clock = [this] { return absl::FromUnixSeconds(1000) + now_ + wall_ahead_; };
    options_.monotonic_clock = [this] { return now_; };
    Restart();
  }

  // Starts another coordinator, which has only the store.
  void Restart() {
    service_ = std::make_unique<CoordinationService>(options_);
    taken_.clear();
    service_->Restore(stored_);
    Settle();
  }

  absl::StatusOr<PlannedJob> MakePlan(const PlanRequest& request) {
    planned_sizes_ = request.sizes;
    if (!plan_error_.ok()) return plan_error_;
    PlannedJob planned{"plan", "hash"};
    if (const auto found = predicted_.find(request.written->spec.name()); found != predicted_.end()) {
      planned.predicted = found->second;
      planned.memory = "(parameters 1.00 GiB), in the backward pass of \"conv1\"";
    }
    return planned;
  }

  // Makes plans and writes changes as the hub does, until there are none.
  void Settle() {
    while (true) {
      for (const PlanRequest& request : service_->TakePlanRequests()) {
        service_->Planned(request.job_id, MakePlan(request));
      }
      StoreChanges changes = service_->TakeChanges();
      if (changes.empty()) return;
      Keep(changes);
      service_->Durable(changes.submissions);
    }
  }
  void Keep(const StoreChanges& changes) {
    for (const StoredSubmission& row : changes.submissions) {
      stored_.submissions[row.job()] = row;
      stored_.last_job = std::max(stored_.last_job, row.job());
    }
    for (const StoredJob& row : changes.jobs) {
      auto same = [&](const StoredJob& other) { return other.number() == row.number(); };
      auto found = std::find_if(stored_.jobs.begin(), stored_.jobs.end(), same);
      found == stored_.jobs.end() ? stored_.jobs.push_back(row) : void(*found = row);
    }
    for (const StoredAttempt& row : changes.attempts) stored_.attempts[row.job()] = row;
    for (const JobEvent& row : changes.events) {
      EXPECT_GT(row.sequence(), stored_.last_event);
      stored_.last_event = row.sequence();
      events_.push_back(row);
    }
    for (const StoredKey& row : changes.keys) {
      auto same = [&](const StoredKey& other) { return other.owner == row.owner && other.key == row.key; };
      stored_.keys.erase(std::remove_if(stored_.keys.begin(), stored_.keys.end(), same), stored_.keys.end());
      if (row.job != 0) stored_.keys.push_back(row);
    }
    for (const StoredFolder& row : changes.folders) {
      auto same = [&](const StoredFolder& other) { return other.folder == row.folder && other.owner == row.owner; };
      stored_.folders.erase(std::remove_if(stored_.folders.begin(), stored_.folders.end(), same),
                            stored_.folders.end());
      if (row.job != 0) stored_.folders.push_back(row);
    }
    for (uint64_t number : changes.forgotten) {
      auto same = [&](const StoredJob& other) { return other.number() == number; };
      stored_.jobs.erase(std::remove_if(stored_.jobs.begin(), stored_.jobs.end(), same), stored_.jobs.end());
      stored_.submissions.erase(number);
      stored_.attempts.erase(number);
    }
    stored_.last_epoch = std::max(stored_.last_epoch, changes.last_epoch);
    stored_.last_job = std::max(stored_.last_job, changes.last_job);
    if (changes.age.has_value()) stored_.age = changes.age;
  }
  void Tick() {
    service_->Tick();
    Settle();
  }
  // Lets seconds pass in which these connections send heartbeats.
  void Pass(int seconds, const std::vector<ConnectionId>& alive) {
    for (int second = 0; second < seconds; ++second) {
      now_ += absl::Seconds(1);
      for (ConnectionId connection : alive) Say(connection, Heartbeats());
      Tick();
    }
  }
  static WorkerMessage Heartbeats() {
    WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(1);
    return message;
  }
  void Say(ConnectionId from, const WorkerMessage& message) {
    service_->WorkerSaid(from, message);
    Settle();
  }

  static WorkerHello Hello(const std::string& name, uint32_t slots, uint64_t incarnation = 1) {
    WorkerHello hello;
    hello.set_name(name);
    hello.set_slots(slots);
    hello.set_incarnation(incarnation);
    hello.set_node_id("the node of " + name);
    return hello;
  }
  void Connect(ConnectionId connection, const WorkerHello& hello) {
    absl::Status status = service_->WorkerConnected(connection, hello);
    ASSERT_TRUE(status.ok()) << status;
    Settle();
  }
  void Connect(ConnectionId connection, const std::string& name, uint32_t slots, uint64_t incarnation = 1) {
    Connect(connection, Hello(name, slots, incarnation));
  }
  // Makes a daemon's report of one rank of a running attempt.
  AttemptReport Report(const std::string& job, uint32_t rank) {
    AttemptReport report;
    report.set_job_id(job);
    report.set_epoch(Job(job).epoch());
    RankReport& said = *report.add_rank();
    said.set_rank(rank);
    said.set_pid(100 + rank);
    said.set_transport_address(absl::StrCat("address of ", rank));
    said.set_connected(true);
    return report;
  }

  static JobSpec Spec(const std::string& name, uint32_t ranks, bool with_data = false) {
    JobSpec spec;
    spec.set_name(name);
    spec.set_ranks(ranks);
    if (with_data) spec.add_dataset()->set_name("train");
    return spec;
  }

  std::string Submit(const JobSpec& spec, int priority = 0) {
    NewJob job;
    job.spec = spec;
    job.priority = priority;
    return Submit(std::move(job));
  }
  std::string Submit(NewJob job) {
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    Settle();
    return submitted.ok() ? submitted->job_id : "";
  }

  absl::StatusOr<ListJobsResponse> List(const ListJobsRequest& request = {}) { return WholeList(*service_, request); }
  absl::StatusOr<DescribeJobResponse> Describe(const JobReference& job) { return WholeDescription(*service_, job); }
  absl::StatusOr<JobSummary> Summary(const JobReference& job) { return SummaryOf(*service_, job); }
  absl::StatusOr<ArtifactSource> FindArtifact(const JobReference& job, const std::string& name) {
    GetArtifactRequest request;
    request.set_name(name);
    return service_->FindArtifact(job, request);
  }
  JobSummary Job(const std::string& id) {
    absl::StatusOr<JobSummary> summary = Summary(id);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() ? *summary : JobSummary();
  }
  absl::StatusOr<std::shared_ptr<const JobSpec>> SpecOf(const std::string& job) {
    JobDescription made{JobReference(job)};
    while (!service_->Continue(made)) {
    }
    if (!made.status.ok()) return made.status;
    return made.spec;
  }
  std::vector<std::string> Kinds(const std::string& job) const {
    std::vector<std::string> kinds;
    for (const JobEvent& event : events_) {
      if (event.job_id() == job) kinds.push_back(event.kind());
    }
    return kinds;
  }

  // Returns the actions since the last call that have this kind.
  std::vector<Action> Taken(CoordinatorMessage::KindCase kind) {
    for (Action& action : service_->TakeActions()) taken_.push_back(action);
    std::vector<Action> result;
    std::vector<Action> rest;
    for (Action& action : taken_) (action.message.kind_case() == kind ? result : rest).push_back(action);
    taken_ = rest;
    return result;
  }

  WorkerMessage Message(const std::string& job) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader(Job(job).epoch());
    return message;
  }
  void Ready(ConnectionId from, const std::string& job, uint32_t rank) {
    WorkerMessage message = Message(job);
    message.mutable_rank_ready()->set_job_id(job);
    message.mutable_rank_ready()->set_rank(rank);
    message.mutable_rank_ready()->set_transport_address("address of " + std::to_string(rank));
    Say(from, message);
  }
  void Ended(ConnectionId from, const std::string& job, uint32_t rank, const std::string& error, bool peer = false) {
    EndedAs(from, job, rank, error.empty() ? RANK_SUCCEEDED : peer ? RANK_PEER_FAILED : RANK_LOST, error);
  }
  void EndedAs(ConnectionId from, const std::string& job, uint32_t rank, RankEnd end, const std::string& error = "") {
    WorkerMessage message = Message(job);
    RankEnded& ended = *message.mutable_rank_ended();
    ended.set_job_id(job);
    ended.set_rank(rank);
    ended.set_end(end);
    ended.set_error(error);
    if (end == RANK_SUCCEEDED && rank == 0) ended.add_artifact("model.safetensors");
    Say(from, message);
  }
  void Cleared(ConnectionId from, const std::string& job) {
    WorkerMessage message = Message(job);
    message.mutable_attempt_cleared()->set_job_id(job);
    Say(from, message);
  }
  void Probed(ConnectionId from, const std::string& job, const std::string& error, int64_t samples = 100) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_probe_result()->set_request_id(job);
    message.mutable_probe_result()->set_error(error);
    DatasetSize& size = *message.mutable_probe_result()->add_dataset();
    size.set_name("train");
    size.set_samples(samples);
    Say(from, message);
  }
  // Starts a job of two ranks, on one worker each, and returns its id.
  std::string RunningOnTwoWorkers(const std::string& restart = "") {
    Connect(1, "worker-0", 1);
    Connect(2, "worker-1", 1);
    JobSpec spec = Spec("net", 2);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(restart, spec.mutable_restart()));
    std::string job = Submit(spec);
    Ready(1, job, 0);
    Ready(2, job, 1);
    EXPECT_EQ(Job(job).state(), RUNNING);
    return job;
  }

  CoordinationOptions options_;
  absl::Duration now_ = absl::Seconds(5);
  absl::Duration wall_ahead_;  // what the wall clock was set by
  absl::Status plan_error_;
  std::vector<DatasetSize> planned_sizes_;
  std::map<std::string, StepPrediction> predicted_;  // by the plans of the jobs that have these names
  std::unique_ptr<CoordinationService> service_;
  std::vector<Action> taken_;
  StoredState stored_;
  std::vector<JobEvent> events_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_COORDINATION_FIXTURE_H_
