// Jobs that bring plans which were made before all was known: with a number that was reserved for their output folder,
// and with sizes that their files are expected to have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PlansAheadTest : public CoordinationTest {
 protected:
  static NewJob Numbered(uint64_t number, const std::string& output_dir = "") {
    NewJob job;
    job.spec = Spec("net", 1);
    job.spec.set_output_dir(output_dir);
    job.number = number;
    job.plan = PlannedJob{"the plan that it brought", "its hash"};
    return job;
  }
  // The fixture's workers find 100 samples.
  static NewJob Expecting(int64_t samples) {
    NewJob job;
    job.spec = Spec("net", 1, /*with_data=*/true);
    job.plan = PlannedJob{"the plan that it brought", "its hash"};
    DatasetSize& size = job.expected_sizes.emplace_back();
    size.set_name("train");
    size.set_samples(samples);
    return job;
  }
  std::string FolderOf(const std::string& job) {
    const auto spec = SpecOf(job);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? (*spec)->output_dir() : "";
  }
  std::string HashOf(const std::string& job) {
    for (const StoredJob& row : stored_.jobs) {
      if (absl::StrCat("job-", row.number()) == job) return row.plan_hash();
    }
    return "no such job";
  }
};

// The fixture's own plans have the hash "hash".
TEST_F(PlansAheadTest, AReservedNumberIsThatOfOneJobAndOfItsFolder) {
  const uint64_t number = service_->ReserveNumber();
  EXPECT_EQ(Submit(Spec("other", 1)), absl::StrCat("job-", number + 1));
  const std::string job = Submit(Numbered(number));
  EXPECT_EQ(job, absl::StrCat("job-", number));
  EXPECT_EQ(FolderOf(job), job);
  EXPECT_EQ(HashOf(job), "its hash");
  EXPECT_EQ(Submit(Spec("other", 1)), absl::StrCat("job-", number + 2));
  Restart();
  EXPECT_EQ(Submit(Spec("other", 1)), absl::StrCat("job-", number + 3));
}

TEST_F(PlansAheadTest, ANumberThatWasGivenBackLeavesNoGap) {
  const uint64_t number = service_->ReserveNumber();
  service_->GiveBackNumber(number);
  EXPECT_EQ(service_->ReserveNumber(), number);
  options_.max_queued_jobs = 0;
  Restart();
  const uint64_t refused = service_->ReserveNumber();
  EXPECT_EQ(service_->Submit(Numbered(refused)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(service_->ReserveNumber(), refused);
}

TEST_F(PlansAheadTest, ARepeatedSubmissionNeedsNoNumber) {
  NewJob first = Numbered(service_->ReserveNumber());
  first.idempotency_key = "key";
  const std::string job = Submit(std::move(first));
  const uint64_t number = service_->ReserveNumber();
  NewJob again = Numbered(number);
  again.idempotency_key = "key";
  EXPECT_EQ(Submit(std::move(again)), job);
  EXPECT_EQ(service_->ReserveNumber(), number);
}

// The later one of two jobs with one folder has the higher number.
TEST_F(PlansAheadTest, AJobWithAFolderThatItsSpecNamesTakesTheNextNumber) {
  const uint64_t number = service_->ReserveNumber();
  EXPECT_EQ(Submit(Spec("other", 1)), absl::StrCat("job-", number + 1));
  const std::string job = Submit(Numbered(number, "out"));
  EXPECT_EQ(job, absl::StrCat("job-", number + 2));
  EXPECT_THAT(std::string(service_->Cancel(absl::StrCat("job-", number)).status().message()),
              HasSubstr("or no job was given this number"));
  EXPECT_EQ(FolderOf(job), "out");
  EXPECT_EQ(HashOf(job), "its hash");
  EXPECT_EQ(Submit(Numbered(service_->ReserveNumber(), "out-2")), absl::StrCat("job-", number + 3));
}

TEST_F(PlansAheadTest, AJobWhoseFolderWasTakenMeanwhileIsPlannedAgain) {
  const uint64_t number = service_->ReserveNumber();
  JobSpec thief = Spec("other", 1);
  thief.set_output_dir(absl::StrCat("job-", number));
  Submit(thief);
  const std::string job = Submit(Numbered(number));
  EXPECT_EQ(job, absl::StrCat("job-", number));
  EXPECT_THAT(FolderOf(job), HasSubstr(absl::StrCat("job-", number, "-")));
  EXPECT_EQ(HashOf(job), "hash");
}

TEST_F(PlansAheadTest, WhatWasReservedBeforeNumbersAreSkippedIsNotUsed) {
  stored_.store_id = 77;
  Restart();
  const uint64_t number = service_->ReserveNumber();
  WorkerHello hello = Hello("worker-0", 1);
  AttemptReport& later = *hello.add_attempt();
  later.set_job_id("job-40");
  later.set_epoch(50);
  later.set_store_id(77);
  Connect(1, hello);
  const std::string job = Submit(Numbered(number));
  EXPECT_GT(JobNumberOf(job), 40);
  EXPECT_EQ(FolderOf(job), job);
  EXPECT_EQ(HashOf(job), "hash") << "its own plan names another folder";
}

TEST_F(PlansAheadTest, NoNumberIsGivenTwice) {
  std::mt19937_64 random(TestSeed());
  JobTable jobs(1);
  std::set<uint64_t> given, reserved;
  for (int step = 0; step < 5000; ++step) {
    auto some = reserved.begin();
    if (!reserved.empty()) std::advance(some, random() % reserved.size());
    switch (random() % 5) {
      case 0:
      case 1: {
        const uint64_t number = jobs.Reserve();
        ASSERT_EQ(given.count(number), 0) << "step " << step;
        ASSERT_TRUE(reserved.insert(number).second) << "step " << step;
        break;
      }
      case 2:
        if (reserved.empty()) break;
        jobs.GiveBack(*some);
        jobs.GiveBack(*some);
        reserved.erase(some);
        break;
      case 3: {
        auto job = std::make_unique<JobRecord>();
        job->number = reserved.empty() || random() % 3 == 0 ? 0 : *some;
        const uint64_t asked = job->number;
        const uint64_t number = jobs.Add(std::move(job)).number;
        if (asked != 0) {
          ASSERT_EQ(number, asked) << "step " << step;
          reserved.erase(some);
        }
        ASSERT_EQ(reserved.count(number), 0) << "step " << step;
        ASSERT_TRUE(given.insert(number).second) << "step " << step;
        jobs.GiveBack(number);  // does nothing
        break;
      }
      default:
        if (random() % 20 != 0) break;
        jobs.SkipTo(jobs.next_number() + random() % 3);
    }
    for (const uint64_t number : std::set<uint64_t>(reserved)) {
      if (!jobs.IsReserved(number)) reserved.erase(number);  // numbers were skipped
    }
  }
  EXPECT_GT(given.size(), 500);
}

TEST_F(PlansAheadTest, FilesOfTheExpectedSizesLeaveTheJobItsPlan) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Expecting(100));
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kUndecided) << "a worker checks the files all the same";
  Probed(1, job, "");
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kAccepted);
  EXPECT_EQ(HashOf(job), "its hash");
  EXPECT_THAT(planned_sizes_, IsEmpty()) << "no plan was asked for";
  EXPECT_EQ(Job(job).state(), STARTING);
}

TEST_F(PlansAheadTest, FilesOfOtherSizesArePlannedAnew) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Expecting(99));
  Probed(1, job, "");
  EXPECT_EQ(HashOf(job), "hash");
  ASSERT_THAT(planned_sizes_, SizeIs(1));
  EXPECT_EQ(planned_sizes_[0].samples(), 100);
}

TEST_F(PlansAheadTest, FilesThatAreWrongRefuseTheJob) {
  Connect(1, "worker-0", 1);
  const std::string job = Submit(Expecting(100));
  Probed(1, job, "'a.gz' is not there");
  absl::Status reason;
  EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
  EXPECT_THAT(std::string(reason.message()), HasSubstr("'a.gz' is not there"));
}

TEST_F(PlansAheadTest, AJobThatWaitsForAWorkerIsPlannedWhenItsFilesAreChecked) {
  const std::string job = Submit(Expecting(100));
  EXPECT_EQ(HashOf(job), "") << "it is accepted, and has no plan yet";
  Connect(1, "worker-0", 1);
  Probed(1, job, "");
  EXPECT_EQ(HashOf(job), "hash");
}

TEST_F(PlansAheadTest, LargePlansAreNotKept) {
  Connect(1, "worker-0", 2);
  NewJob large = Expecting(100);
  large.plan->plan = std::string(kMaxExpectedPlanBytes + 1, 'p');
  const std::string job = Submit(std::move(large));
  Probed(1, job, "");
  EXPECT_EQ(HashOf(job), "hash");
  NewJob small = Expecting(100);
  small.plan->plan = std::string(kMaxExpectedPlanBytes, 'p');
  const std::string other = Submit(std::move(small));
  Probed(1, other, "");
  EXPECT_EQ(HashOf(other), "its hash");
}

TEST_F(PlansAheadTest, SomePlansAreKeptAndLeaveTheirRoomWithTheirJobs) {
  WorkerHello hello = Hello("worker-0", 1);
  hello.set_data_checks(64);  // all but some are for the owner of many jobs
  Connect(1, hello);
  std::vector<std::string> waiting;
  while (waiting.size() < kMostExpectedPlans) waiting.push_back(Submit(Expecting(100)));
  const auto hash_of_next = [&] {
    NewJob next = Expecting(100);
    next.owner = "bob";
    const std::string job = Submit(std::move(next));
    Probed(1, job, "");
    return HashOf(job);
  };
  EXPECT_EQ(hash_of_next(), "hash") << "there is no room for its plan";
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> ends = {
      {"its files have other sizes", [&](const std::string& job) { Probed(1, job, "", 99); }},
      {"its plan is used", [&](const std::string& job) { Probed(1, job, ""); }},
      {"it is refused", [&](const std::string& job) { Probed(1, job, "'a.gz' is not there"); }},
      {"it is cancelled", [&](const std::string& job) { EXPECT_EQ(*service_->Cancel(job), CANCELLED); }},
      {"it is abandoned",
       [&](const std::string& job) { service_->Abandon(job, absl::CancelledError("the client has gone")); }},
  };
  for (const auto& [what, end] : ends) {
    end(waiting.front());
    Settle();
    waiting.erase(waiting.begin());
    EXPECT_EQ(hash_of_next(), "its hash") << what;
    waiting.push_back(Submit(Expecting(100)));
    EXPECT_EQ(hash_of_next(), "hash") << "again there is no room, after one of which " << what;
  }
}

TEST_F(PlansAheadTest, WhatFitsOnNoNodeIsRefusedWithTheSameWords) {
  WorkerHello hello = Hello("worker-0", 1);
  hello.set_memory_bytes(uint64_t{1} << 30);
  Connect(1, hello);
  predicted_["net"].set_resident_bytes(int64_t{4} << 30);
  std::vector<std::string> reasons;
  for (const bool brings_plan : {false, true}) {
    NewJob made = Expecting(100);
    made.plan->predicted = predicted_["net"];
    made.plan->memory = "(parameters 1.00 GiB), in the backward pass of \"conv1\"";
    if (!brings_plan) made.plan.reset();
    const std::string job = Submit(std::move(made));
    Probed(1, job, "");
    absl::Status reason;
    EXPECT_EQ(service_->AdmissionOf(job, &reason), Admission::kRefused);
    reasons.emplace_back(reason.message());
  }
  EXPECT_THAT(reasons[0], HasSubstr("a rank needs about 4.00 GiB"));
  EXPECT_EQ(reasons[1], reasons[0]);
}

}  // namespace
}  // namespace adjoin
