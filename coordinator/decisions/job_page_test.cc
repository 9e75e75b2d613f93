#include "coordinator/decisions/job_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr size_t kMostJobs = 80;  // else jobs would come faster than pages of few
const char* const kOwners[] = {"alice", "bob", ""};

class JobPageTest : public CoordinationTest {
 protected:
  // A job of this test's own record: what the pages are compared with.
  struct Known {
    uint64_t number = 0;
    std::string owner;
    int32_t priority = 0;
  };

  int Random(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void SubmitOne() {
    Known known;
    known.owner = kOwners[Random(3)];
    known.priority = Random(3);
    NewJob job;
    job.spec = Spec(absl::StrCat("net-", Random(5)), 1);
    job.owner = known.owner;
    job.priority = known.priority;
    job.any_folder = true;  // all have the same one
    const std::string id = Submit(std::move(job));
    known.number = std::stoull(id.substr(4));
    known_[id] = known;
  }

  void ChangeOne() {
    const int what = Random(10);
    if (known_.empty() || (what < 3 && known_.size() < kMostJobs)) return SubmitOne();
    const std::string id = std::next(known_.begin(), Random(static_cast<int>(known_.size())))->first;
    const JobState state = Job(id).state();
    if (what < 6) {
      EXPECT_TRUE(service_->Cancel(id).ok());
    } else if (what == 6) {
      EXPECT_EQ(service_->Retry(id).ok(), state == FAILED || state == CANCELLED);
    } else if (what == 7) {
      EXPECT_EQ(service_->Hold(id, Random(2) == 0).ok(), state == PENDING);
    } else if (state == STARTING) {
      Ready(1, id, 0);
    } else if (state == RUNNING) {
      Ended(1, id, 0, Random(2) == 0 ? "" : "lost");
      Cleared(1, id);
    }
    Settle();
    // A job that was cancelled keeps its slot until its daemon has none of its processes.
    if (IsFinal(Job(id).state())) Cleared(1, id);
  }

  // The ids that a listing of everything has now, in its order.
  std::vector<std::string> Expected(const ListJobsRequest& request) {
    std::vector<std::tuple<bool, int64_t, int64_t, std::string>> order;
    for (const auto& [id, known] : known_) {
      const JobState state = Job(id).state();
      if (!request.owner().empty() && known.owner != request.owner()) continue;
      const auto& states = request.state();
      if (!states.empty() && std::find(states.begin(), states.end(), state) == states.end()) continue;
      const auto number = static_cast<int64_t>(known.number);
      IsFinal(state) ? order.emplace_back(true, -number, 0, id)
                     : order.emplace_back(false, -known.priority, number, id);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::string> ids;
    for (const auto& each : order) ids.push_back(std::get<3>(each));
    return ids;
  }

  ListJobsRequest RandomRequest() {
    ListJobsRequest request;
    request.set_page_size(static_cast<uint32_t>(1 + Random(7)));
    if (Random(2) == 0) request.set_owner(kOwners[Random(2)]);
    if (Random(2) == 0) {
      for (const JobState state : {PENDING, STARTING, RUNNING, SUCCEEDED, FAILED, CANCELLED}) {
        if (Random(2) == 0) request.add_state(state);
      }
    }
    return request;
  }

  std::mt19937_64 random_;
  std::map<std::string, Known> known_;
};

TEST_F(JobPageTest, PagesTogetherAreTheWholeListInItsOrder) {
  random_.seed(TestSeed(1));
  Connect(1, "worker-0", 5);
  for (int round = 0; round < 60; ++round) {
    for (int change = 0; change < 4; ++change) ChangeOne();
    ListJobsRequest request = RandomRequest();
    const std::vector<std::string> expected = Expected(request);
    std::vector<std::string> got;
    do {
      const absl::StatusOr<ListJobsResponse> page = List(request);
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_EQ(page->total_jobs(), expected.size());
      EXPECT_LE(page->job_size(), static_cast<int>(request.page_size()));
      EXPECT_EQ(page->worker_size(), request.page_token().empty() ? 1 : 0);
      for (const JobSummary& job : page->job()) got.push_back(job.job_id());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(got, expected) << request.ShortDebugString();
  }
}

TEST_F(JobPageTest, NoJobThatStayedIsMissedOrShownTwiceWhileOthersChange) {
  random_.seed(TestSeed(2));
  Connect(1, "worker-0", 5);
  for (int i = 0; i < 40; ++i) ChangeOne();
  for (int round = 0; round < 40; ++round) {
    ListJobsRequest request = RandomRequest();
    request.clear_state();  // every job of the owner fits all the time
    std::map<std::string, bool> ended_before;
    for (const std::string& id : Expected(request)) ended_before[id] = IsFinal(Job(id).state());
    std::set<std::string> moved;  // that ended, or were retried, meanwhile
    std::vector<std::string> got;
    while (true) {
      const absl::StatusOr<ListJobsResponse> page = List(request);
      ASSERT_TRUE(page.ok()) << page.status();
      for (const JobSummary& job : page->job()) got.push_back(job.job_id());
      request.set_page_token(page->next_page_token());
      if (request.page_token().empty()) break;
      for (int change = Random(4); change > 0; --change) {
        ChangeOne();
        for (const auto& [id, ended] : ended_before) {
          if (IsFinal(Job(id).state()) != ended) moved.insert(id);
        }
      }
    }
    for (const auto& [id, ended] : ended_before) {
      if (moved.count(id) > 0) continue;
      EXPECT_EQ(std::count(got.begin(), got.end(), id), 1) << id << " in " << request.ShortDebugString();
    }
    for (const std::string& id : got) EXPECT_EQ(known_.count(id), 1) << id;
  }
}

TEST_F(JobPageTest, QueuePositionsCountTheJobsBefore) {
  random_.seed(TestSeed(3));
  for (int i = 0; i < 200; ++i) ChangeOne();
  std::map<std::string, Known> waiting;
  for (const auto& [id, known] : known_) {
    if (Job(id).state() == PENDING) waiting[id] = known;
  }
  ASSERT_GT(waiting.size(), 5);
  for (const auto& [id, known] : known_) {
    const auto is_before = [job = &known](const auto& other) {
      return other.second.priority > job->priority ||
             (other.second.priority == job->priority && other.second.owner == job->owner &&
              other.second.number < job->number);
    };
    const int64_t before = std::count_if(waiting.begin(), waiting.end(), is_before);
    EXPECT_EQ(Job(id).queue_position(), waiting.count(id) == 0 ? 0 : before + 1) << id;
  }
}

TEST_F(JobPageTest, TwentyThousandJobsComeInPagesThatFitAMessage) {
  for (int i = 0; i < 20000; ++i) {
    NewJob job;
    job.spec = Spec("job", 1);
    ASSERT_TRUE(service_->Submit(std::move(job)).ok());
  }
  for (PlanRequest& request : service_->TakePlanRequests()) {
    service_->Planned(request.job_id, MakePlan(request));
  }
  ListJobsRequest request;
  request.set_page_size(1000000);  // more than there may be
  std::set<std::string> got;
  int pages = 0;
  do {
    const absl::StatusOr<ListJobsResponse> page = List(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->job_size(), static_cast<int>(kMaxPageJobs));
    EXPECT_LE(page->ByteSizeLong(), kMaxMessageBytes);
    EXPECT_EQ(page->total_jobs(), 20000);
    for (const JobSummary& job : page->job()) EXPECT_TRUE(got.insert(job.job_id()).second);
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(got.size(), 20000);
  EXPECT_EQ(pages, 20);
}

TEST_F(JobPageTest, WhatFitsNoJobIsLookedForInSteps) {
  for (int i = 0; i < 5500; ++i) {
    NewJob job;
    job.spec = Spec("job", 1);
    job.owner = "alice";
    ASSERT_TRUE(service_->Submit(std::move(job)).ok());
  }
  ListJobsRequest request;
  request.set_owner("nobody");
  absl::StatusOr<JobPage> page = JobPage::Begin(request);
  ASSERT_TRUE(page.ok()) << page.status();
  int steps = 1;
  while (!service_->Continue(*page)) ++steps;
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(page->Take().job_size(), 0);
}

// Those who follow a job sleep until they are told of it.
TEST_F(JobPageTest, EveryNewStateOfAJobIsTold) {
  random_.seed(TestSeed(4));
  Connect(1, "worker-0", 5);
  std::map<std::string, JobState> before;
  service_->TakeTouched();
  for (int round = 0; round < 300; ++round) {
    ChangeOne();
    const std::map<std::string, JobChange> told = service_->TakeTouched();
    for (const auto& [id, known] : known_) {
      const JobState state = Job(id).state();
      const auto [last, is_new] = before.try_emplace(id, state);
      if (!is_new && last->second == state) continue;
      last->second = state;
      ASSERT_EQ(told.count(id), 1) << id << " is " << JobState_Name(state);
      EXPECT_EQ(told.at(id), JobChange::kState) << id;
    }
  }
}

// Before that nobody may hear of it: who submitted it would be woken for nothing.
TEST_F(JobPageTest, ANewJobIsToldWhenItIsInTheStoreOrRefused) {
  for (const bool stored : {true, false}) {
    NewJob made;
    made.spec = Spec("job", 1);
    const absl::StatusOr<Submitted> submitted = service_->Submit(std::move(made));
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    for (const PlanRequest& request : service_->TakePlanRequests()) {
      service_->Planned(request.job_id, MakePlan(request));
    }
    const StoreChanges changes = service_->TakeChanges();
    ASSERT_EQ(changes.submissions.size(), 1);
    EXPECT_EQ(service_->TakeTouched().size(), 0);
    if (stored) {
      Keep(changes);
      service_->Durable(changes.submissions);
    } else {
      service_->Withdraw(changes.submissions, absl::UnavailableError("the disk is full"));
    }
    const std::map<std::string, JobChange> told = service_->TakeTouched();
    ASSERT_EQ(told.count(submitted->job_id), 1) << (stored ? "stored" : "refused");
    EXPECT_EQ(told.at(submitted->job_id), JobChange::kState);
  }
}

TEST_F(JobPageTest, JobsWithNamesOfAMebibyteTakeMorePages) {
  for (int i = 0; i < 70; ++i) Submit(Spec(std::string(1 << 20, 'n'), 1));
  ListJobsRequest request;
  size_t jobs = 0;
  do {
    const absl::StatusOr<ListJobsResponse> page = List(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_GT(page->job_size(), 0);
    EXPECT_LE(page->ByteSizeLong(), kMaxMessageBytes);
    jobs += page->job_size();
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(jobs, 70);
}

TEST_F(JobPageTest, ManyWorkersFitOneMessage) {
  for (ConnectionId i = 1; i <= 30000; ++i) {
    WorkerHello hello = Hello(absl::StrCat("worker-", std::string(200, 'w'), i), 1);
    ASSERT_TRUE(service_->WorkerConnected(i, hello).ok());
    service_->TakeActions();
  }
  const absl::StatusOr<ListJobsResponse> page = List();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_LE(page->ByteSizeLong(), kMaxMessageBytes);
  EXPECT_GT(page->worker_size(), 1000);
  EXPECT_EQ(page->notice(), absl::StrCat(30000 - page->worker_size(),
                                         " more workers are not listed: they are too many for one answer"));
}

TEST_F(JobPageTest, RefusesTokensThatNoPageHad) {
  for (const std::string& token : std::vector<std::string>{
           "unended", "ended", "ended:", "ended:x", "ended:-1", "ended:+1", "ended: 1", "ended:1:2", "unended:1",
           "unended:1:2:3", "unended:99999999999:1", "offset:5", ":", "ended:01", std::string(1 << 20, '\x1b')}) {
    ListJobsRequest request;
    request.set_page_token(token);
    const absl::StatusOr<ListJobsResponse> page = List(request);
    EXPECT_EQ(page.status().code(), absl::StatusCode::kInvalidArgument) << token.substr(0, 100);
    EXPECT_NE(page.status().message().find("next_page_token of the page before"), std::string::npos);
    EXPECT_LE(page.status().message().size(), kMaxStatusBytes);
  }
  // A token may name a job that was forgotten, or another coordinator's: nothing follows, or what comes behind it.
  ListJobsRequest request;
  request.set_page_token("unended:-5:18446744073709551615");
  EXPECT_TRUE(List(request).ok());
}

TEST_F(JobPageTest, RefusesStatesThatAreNone) {
  for (const int state : {0, 7, -1}) {
    ListJobsRequest request;
    request.add_state(static_cast<JobState>(state));
    EXPECT_EQ(List(request).status().code(), absl::StatusCode::kInvalidArgument) << state;
  }
}

}  // namespace
}  // namespace adjoin
