// A cluster with a hostile user and a hostile daemon: they send messages of both services, made by changing good ones,
// while jobs of others run, nodes and the coordinator crash, streams break and time passes. After each message the
// state machine is checked: nothing runs twice, no slot is used twice, no job is lost, an ended job stays ended. And
// what the hostile ones send changes no job and no daemon of anybody else.
//
// ADJOIN_CAMPAIGN_MESSAGES: how many; ADJOIN_TEST_SEED repeats them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/start_failures.h"
#include "coordinator/decisions/whole_answers.h"
#include "proto/fit_message.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/hostile_messages.h"
#include "tests/fuzz/simulated_cluster.h"

namespace adjoin {
namespace {

constexpr int kDaemons = 3;
constexpr uint32_t kSlots = 2;
constexpr int kMostJobs = 10;           // of others, in one episode
constexpr int kEpisode = 1000;          // messages; then everything has to end, and a new cluster begins
constexpr char kHostile[] = "mallory";  // the user and the worker

int64_t Messages() {
  const char* text = getenv("ADJOIN_CAMPAIGN_MESSAGES");
  return text == nullptr ? 20000 : atoll(text);
}

// The states of what is not the hostile ones'.
struct Others {
  std::map<std::string, JobSummary> jobs;  // but those that the hostile daemon runs
  std::map<std::string, WorkerSummary> workers;
};

class Campaign {
 public:
  explicit Campaign(uint64_t seed) : random_(seed), cluster_(kDaemons, kSlots) {
    for (int daemon = 0; daemon < kDaemons; ++daemon) cluster_.Connect(daemon);
  }

  // The messages that came to both services, those of the others included.
  int64_t worker_messages() const { return worker_messages_; }
  int64_t user_messages() const { return user_messages_; }

  void OneThing() {
    if (Below(3) != 0) {
      Honest();
    } else {
      const Others before = Look();
      Below(2) == 0 ? HostileDaemon() : HostileUser();
      CheckUnharmed(before);
    }
    cluster_.Check();
    CheckNoneLost();
  }

  void End() {
    if (connection_ != 0) cluster_.service().WorkerDisconnected(connection_, "the campaign ends");
    connection_ = 0;
    const auto list = WholeList(cluster_.service());
    FuzzCheck(list.ok() && list->next_page_token().empty(), "the list has one page");
    // A job of the hostile user may ask for what no cluster has.
    for (const std::string& id : hostile_) cluster_.service().Cancel(id).IgnoreError();
    for (const JobSummary& job : list->job()) {
      if (job.held()) cluster_.service().Hold(job.job_id(), false).IgnoreError();
    }
    cluster_.ExpectEverythingEnds();
    CheckNoneLost();
  }

 private:
  uint32_t Below(uint32_t count) { return messages_.Below(count); }
  template <typename T>
  T Of(const std::vector<T>& values) {
    return messages_.Of(values);
  }
  std::string AnyJob() { return absl::StrCat("job-", 1 + Below(static_cast<uint32_t>(2 + known_.size() * 2))); }

  // -------------------------------------------------------------------------------------------------------------------
  // What happens anyway

  void Honest() {
    const int daemon = static_cast<int>(Below(kDaemons));
    switch (Below(20)) {
      case 0:
        cluster_.Advance(absl::Milliseconds(Of<int>({0, 100, 999, 1000, 3001, 10001, 31000, 120001})));
        cluster_.Tick();
        break;
      case 1:
      case 2: cluster_.Tick(); break;
      case 3:
      case 4:
      case 5:
        cluster_.MakePlans(true);
        cluster_.Commit();
        break;
      case 6: Submit("alice"); break;
      case 7: cluster_.Connect(daemon); break;
      case 8: Below(4) == 0 ? cluster_.BreakStream(daemon) : cluster_.Connect(daemon); break;
      case 9: Below(8) == 0 ? cluster_.CrashDaemon(daemon) : cluster_.Connect(daemon); break;
      case 10: Below(8) == 0 ? CrashCoordinator() : cluster_.Tick(); break;
      case 11:
      case 12:
      case 13:
        for (int i = 0; i < kDaemons; ++i) cluster_.DaemonReads(i);
        break;
      case 14: cluster_.RankReady(daemon, Below(256)); break;
      case 15: cluster_.RankStep(daemon, Below(256), Below(256)); break;
      case 16:
        cluster_.RankEnds(daemon, Below(256), Of<RankEnd>({RANK_SUCCEEDED, RANK_SUCCEEDED, RANK_ERROR, RANK_LOST}));
        break;
      case 17: cluster_.Heartbeat(daemon, /*draining=*/false); break;
      default:
        for (int i = 0; i < kDaemons; ++i) worker_messages_ += cluster_.CoordinatorReads(i);
    }
  }

  void Submit(const std::string& owner) {
    if (jobs_ >= kMostJobs) return;
    ++jobs_;
    ++user_messages_;
    NewJob job;
    job.owner = owner;
    job.spec.set_name(absl::StrCat("net", Below(3)));
    job.spec.set_ranks(1 + Below(3));
    job.spec.mutable_restart()->set_max_restarts(Below(1000));
    if (Below(4) == 0) job.spec.mutable_resources()->set_gpus(1);
    if (Below(2) == 0) job.spec.set_output_dir(absl::StrCat(owner, "/", Below(3)));
    if (Below(3) == 0) job.idempotency_key = absl::StrCat("key-", jobs_);
    job.replace_output = Below(2) == 0;
    const auto submitted = cluster_.service().Submit(std::move(job));
    // The folder may be the hostile user's, who came first, or that of an earlier job of one's own.
    FuzzCheck(submitted.ok() || absl::IsPermissionDenied(submitted.status()) ||
                  absl::IsFailedPrecondition(submitted.status()),
              absl::StrCat("a good job is refused: ", submitted.status().ToString()));
    cluster_.MakePlans(true);
    cluster_.Commit();
    if (submitted.ok()) known_.insert(submitted->job_id);
  }

  void CrashCoordinator() {
    cluster_.CrashCoordinator();
    connection_ = 0;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The hostile daemon

  AttemptReport AnyReport() {
    const std::string job = AnyJob();
    const auto summary = SummaryOf(cluster_.service(), job);
    return messages_.Report(job, summary.ok() ? std::optional<uint64_t>(summary->epoch()) : std::nullopt,
                            SimulatedCluster::kStoreId);
  }

  template <typename Message>
  void Mutate(Message& message) {
    messages_.Change(message);
    FitParts(&message);  // as the service does
  }

  void Connect() {
    if (connection_ != 0) cluster_.service().WorkerDisconnected(connection_, "it connects again");
    connection_ = 0;
    std::vector<AttemptReport> reports;
    for (uint32_t left = Below(4); left > 0; --left) reports.push_back(AnyReport());
    WorkerHello hello = messages_.Hello(reports);
    FitParts(&hello);  // as the service does
    const ConnectionId connection = cluster_.NewConnection();
    if (cluster_.service().WorkerConnected(connection, hello).ok()) connection_ = connection;
  }

  WorkerMessage AnyMessage() {
    WorkerMessage message = messages_.Said(AnyReport());
    FitParts(&message);  // as the service does
    return message;
  }

  void HostileDaemon() {
    if (connection_ == 0 || Below(10) == 0) {
      Connect();
      ++worker_messages_;
      return;
    }
    // Also on connections that were closed, or never were.
    const ConnectionId from = Below(8) == 0 ? connection_ - Below(3) + 1000 * Below(2) : connection_;
    if (cluster_.IsOfDaemon(from)) return;
    cluster_.service().WorkerSaid(from, AnyMessage());
    ++worker_messages_;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The hostile user

  static absl::Status OwnOnly(const JobRecord& job) {
    return job.owner == kHostile ? absl::OkStatus() : absl::PermissionDeniedError("somebody else's");
  }

  void HostileSubmission() {
    NewJob job;
    job.owner = kHostile;
    job.priority = static_cast<int32_t>(Below(3)) - 1;
    job.spec.set_name(Of<std::string>({"net0", "net1", "job-1", "\x1b[2J", std::string(300, 'n')}));
    job.spec.set_ranks(1 + Below(3));
    job.spec.set_output_dir(absl::StrCat(Of<std::string>({"alice", "mallory", ".", "alice/../alice"}), "/", Below(3)));
    job.spec.mutable_resources()->set_max_ranks_per_node(Below(3));
    job.spec.add_dataset()->set_name("train");
    Mutate(job.spec);
    job.replace_output = Below(4) != 0;
    job.spec.set_ranks(std::clamp(job.spec.ranks(), 1u, 4096u));  // the plan, which was made before, has checked that
    job.idempotency_key = absl::StrCat("key-", Below(kMostJobs));
    const auto submitted = cluster_.service().Submit(std::move(job));
    if (submitted.ok()) hostile_.insert(submitted->job_id);
    if (Below(2) == 0) cluster_.MakePlans(Below(4) != 0);
    if (Below(2) == 0) cluster_.Commit();
  }

  void HostileUser() {
    ++user_messages_;
    CoordinationService& service = cluster_.service();
    const JobReference job = {Below(4) == 0 ? absl::StrCat("net", Below(3)) : AnyJob(), kHostile};
    switch (Below(10)) {
      case 0:
      case 1: HostileSubmission(); break;
      case 2: service.Cancel(job, OwnOnly).IgnoreError(); break;
      case 3: {
        const auto named = SummaryOf(service, job);
        if (service.Retry(job, OwnOnly).ok()) cluster_.MayRunAgain(named->job_id());
        break;
      }
      case 4: service.Hold(job, Below(2) == 0, OwnOnly).IgnoreError(); break;
      case 5: {
        const auto removal = service.BeginRemoval(job, Below(2) == 0, OwnOnly);
        if (removal.ok()) service.EndRemoval(removal->job_id, Below(2) == 0);
        break;
      }
      case 6: {
        ListJobsRequest request;
        Mutate(request);
        WholeList(service, request).IgnoreError();
        break;
      }
      case 7: WholeDescription(service, job).IgnoreError(); break;
      case 8: {
        GetArtifactRequest request;
        request.set_name(Of<std::string>({"model.safetensors", "../x", "", "/"}));
        service.FindArtifact(job, request).IgnoreError();
        break;
      }
      default:
        // Gives up a submission: only of its own, as the service does.
        if (known_.count(job.text) == 0) service.Abandon(job.text, absl::CancelledError("the client has gone"));
        break;
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What has to hold

  Others Look() {
    Others others;
    ListJobsRequest all;
    all.set_page_size(1000);
    const auto list = WholeList(cluster_.service(), all);
    FuzzCheck(list.ok(), absl::StrCat("the list: ", list.status().ToString()));
    for (const JobSummary& job : list->job()) {
      if (job.owner() != kHostile && !IsOnHostileWorker(job.job_id())) others.jobs[job.job_id()] = job;
    }
    for (const WorkerSummary& worker : list->worker()) {
      if (worker.name() != kHostile) others.workers[worker.name()] = worker;
    }
    return others;
  }

  bool IsOnHostileWorker(const std::string& job) {
    const auto described = WholeDescription(cluster_.service(), job);
    if (!described.ok()) return false;
    for (const RankStatus& rank : described->rank()) {
      if (rank.worker() == kHostile) return true;
    }
    return false;
  }

  // A job that waits may start because of slots that the hostile ones give free; nothing else may happen to it. A
  // worker on which jobs failed to start may be trusted again where one is cancelled, and be set aside for a while
  // where one starts on the hostile worker: that ends with the next job that starts there.
  void CheckUnharmed(const Others& before) {
    const Others now = Look();
    for (const auto& [name, was] : before.workers) {
      const auto is = now.workers.find(name);
      FuzzCheck(is != now.workers.end(), absl::StrCat(name, " is gone through a message of somebody else"));
      const std::string& state = is->second.state();
      const bool trusted = was.state() == "set aside" && state == "ready";
      const bool doubted = was.state() == "ready" && state == "set aside" &&
                           absl::StrContains(is->second.condition(), kStartedElsewhere);
      FuzzCheck(trusted || doubted || state == was.state(),
                absl::StrCat(name, " was ", was.state(), " and, through a message of somebody else, is ", state, ": ",
                             is->second.condition()));
    }
    for (const auto& [id, was] : before.jobs) {
      const auto is = SummaryOf(cluster_.service(), id);
      FuzzCheck(is.ok(), absl::StrCat(id, " is lost through a message of somebody else"));
      const bool same = is->state() == was.state() && is->epoch() == was.epoch();
      const bool starts = was.state() == PENDING && is->state() == STARTING;
      FuzzCheck(same || starts, absl::StrCat(id, " was ", was.ShortDebugString(),
                                             " and, through a message of somebody else, is ", is->ShortDebugString()));
    }
  }

  void CheckNoneLost() {
    for (const std::string& id : known_) {
      const auto job = SummaryOf(cluster_.service(), id);
      FuzzCheck(job.ok(), absl::StrCat(id, " was accepted and is lost"));
      FuzzCheck(job->owner() == "alice", absl::StrCat(id, " has another owner: ", job->owner()));
      if (!IsFinal(job->state())) {
        FuzzCheck(ended_.count(id) == 0, absl::StrCat(id, " had ended and has not"));
      } else if (cluster_.IsCommitted(id)) {
        ended_.insert(id);
      }
    }
  }

  std::mt19937 random_;
  HostileMessages messages_{kHostile, random_};
  SimulatedCluster cluster_;
  ConnectionId connection_ = 0;    // of the hostile daemon; 0: none
  std::set<std::string> known_;    // jobs of others that were accepted
  std::set<std::string> ended_;    // of those
  std::set<std::string> hostile_;  // jobs of the hostile user
  int jobs_ = 0;
  int64_t worker_messages_ = 0, user_messages_ = 0;
};

TEST(CampaignTest, NoMessageHarmsAnybodyElse) {
  const int64_t messages = Messages();
  uint64_t seed = TestSeed();
  int64_t worker = 0, user = 0;
  for (; worker + user < messages; ++seed) {
    std::cout << "ADJOIN_TEST_SEED=" << seed << ", " << worker + user << " messages so far" << std::endl;
    Campaign campaign(seed);
    while (campaign.worker_messages() + campaign.user_messages() < kEpisode) campaign.OneThing();
    campaign.End();
    worker += campaign.worker_messages();
    user += campaign.user_messages();
  }
  std::cout << worker << " messages of daemons, " << user << " of users" << std::endl;
}

}  // namespace
}  // namespace adjoin
