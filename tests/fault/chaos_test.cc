// Coordinator, daemons and ranks are killed and stopped at random moments, again and again, while users submit and
// cancel jobs: every accepted job ends as its spec demands, nothing runs twice at once, nothing is left behind.
//
//   ADJOIN_TEST_SEED=7 bazel-bin/tests/fault/chaos_test     the kills of a run that failed, in the same order
//   ADJOIN_CHAOS_KILLS=200                                   how many
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/testing/test_seed.h"
#include "cli/coordinator_client.h"
#include "tests/fault/fake_jobs.h"
#include "tests/fault/random_kills.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;

constexpr int kNodes = 3;
constexpr int kSlots = 2;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// A kind of job, and how it has to end however often it is disturbed.
struct Kind {
  std::string name;
  int ranks;
  std::string restart;  // on
  JobState end;
  std::string reason;  // part of the reason of a failure
};

const std::vector<Kind>& Kinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"steps-40x20ms", 2, "", SUCCEEDED, ""},
      {"steps-60x20ms", 4, "", SUCCEEDED, ""},
      {"succeed", 1, "", SUCCEEDED, ""},
      {"steps-30x20ms-kill-1-at-10-once", 3, "", SUCCEEDED, ""},
      {"steps-30x20ms-exit-0-at-10-once", 1, "", SUCCEEDED, ""},
      {"steps-30x20ms-fail-1-at-10", 2, "", FAILED, "rank 1 on worker-"},
      {"steps-30x20ms-fail-0-at-10-once", 2, "on: \"rank_lost\" on: \"node_lost\" on: \"error\"", SUCCEEDED, ""},
      {"steps-30x20ms-nan-0-at-10", 2, "", FAILED, "rank 0 on worker-"},
      {"steps-100000x20ms", 2, "", CANCELLED, ""},
  };
  return *kinds;
}

struct Submitted {
  std::string id;
  Kind kind;
};

// A user who submits jobs and cancels those that would never end; each call insists until it has an answer.
class User {
 public:
  User(const std::string& address, uint64_t seed)
      : client_(
            ClientOptions{.address = address, .check_server = nullptr, .retry = absl::Seconds(60), .notice = nullptr}),
        random_(seed),
        seed_(seed),
        thread_([this] { Work(); }) {}
  ~User() { Stop(); }

  // Waits for the call under way.
  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }
  std::vector<Submitted> jobs() const { return jobs_; }
  std::vector<std::string> errors() const { return errors_; }

 private:
  void Work() {
    for (int number = 0; !Stopping(absl::Milliseconds(250)); ++number) SubmitOne(number);
    for (const std::string& id : to_cancel_) Cancel(id);
  }
  bool Stopping(absl::Duration time) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&stop_), time);
  }
  void SubmitOne(int number) {
    const Kind& kind = Kinds()[random_() % Kinds().size()];
    Submission submission;
    submission.spec_source = FakeJob(absl::StrCat(kind.name, kind.name == "succeed" ? "" : absl::StrCat("-n", number)),
                                     kind.ranks, absl::StrCat("restart { max_restarts: 1000000 ", kind.restart, " }"));
    submission.spec_file = "chaos.textproto";
    submission.idempotency_key = absl::StrCat("chaos-", seed_, "-", number);
    absl::StatusOr<SubmitResponse> response = client_.Submit(submission);
    if (!response.ok()) {
      errors_.push_back(absl::StrCat("submit: ", response.status().ToString()));
      return;
    }
    jobs_.push_back({response->job_id(), kind});
    if (kind.end == CANCELLED) to_cancel_.push_back(response->job_id());
    // All but the newest: it may get as far as running.
    while (to_cancel_.size() > 1) {
      Cancel(to_cancel_.front());
      to_cancel_.erase(to_cancel_.begin());
    }
  }
  void Cancel(const std::string& id) {
    absl::StatusOr<JobState> state = client_.CancelJob(id);
    if (!state.ok()) errors_.push_back(absl::StrCat("cancel ", id, ": ", state.status().ToString()));
  }

  CoordinatorClient client_;
  std::mt19937_64 random_;
  const uint64_t seed_;
  std::vector<Submitted> jobs_;
  std::vector<std::string> to_cancel_;
  std::vector<std::string> errors_;
  absl::Mutex mutex_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the rest
};

void ExpectEnds(LocalCluster& cluster, const std::vector<Submitted>& jobs) {
  std::set<std::string> ids;
  for (const Submitted& job : jobs) {
    EXPECT_TRUE(ids.insert(job.id).second) << job.id << " is the answer to two submissions";
    absl::StatusOr<JobSummary> end = cluster.WaitFor(job.id, Within(180));
    ASSERT_TRUE(end.ok()) << job.id << " " << job.kind.name << ": " << end.status();
    EXPECT_EQ(JobState_Name(end->state()), JobState_Name(job.kind.end))
        << job.id << " " << job.kind.name << ": " << end->reason();
    if (job.kind.end == FAILED) {
      EXPECT_THAT(end->reason(), ::testing::HasSubstr(job.kind.reason)) << job.id;
    }
  }
  absl::StatusOr<ListJobsResponse> list = cluster.ListJobs();
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->job_size(), static_cast<int>(jobs.size())) << "no job but those that were acknowledged";
}

TEST(ChaosTest, EveryJobEndsAsItsSpecDemands) {
  const uint64_t seed = TestSeed();
  const uint64_t kills = FromEnvironment("ADJOIN_CHAOS_KILLS", 20);
  std::cerr << "ADJOIN_CHAOS_KILLS=" << kills << std::endl;
  const std::set<std::string> shared_before = SharedMemory();
  LocalClusterOptions options;
  options.rank_binary = "worker/testing/fake-rank";
  options.coordinator_flags = ImpatientCoordinator();
  options.coordinator_flags.insert(options.coordinator_flags.end(), {"--keep-jobs", "100000"});
  auto started = LocalCluster::Start(kNodes, kSlots, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;

  User user(cluster.address(), seed);
  RandomKills chaos(cluster, kNodes, "fake-rank", seed + 1);
  while (chaos.done() < static_cast<int>(kills)) {
    const absl::Status next = chaos.Next();
    ASSERT_TRUE(next.ok()) << next;
  }
  user.Stop();
  EXPECT_THAT(user.errors(), IsEmpty());
  EXPECT_THAT(user.jobs(), ::testing::Not(IsEmpty()));
  ASSERT_TRUE(cluster.WaitForWorkers(Within(60)).ok());
  ExpectEnds(cluster, user.jobs());
  EXPECT_THAT(TwiceAtOnce(cluster.output_root()), IsEmpty());
  EXPECT_TRUE(cluster.WaitUntilIdle(Within(30)).ok());
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
  EXPECT_THAT(ProcessesLeft(cluster.folder(), Within(30)), IsEmpty());
  EXPECT_THAT(SharedMemoryLeft(shared_before, Within(30)), IsEmpty());
}

}  // namespace
}  // namespace adjoin
