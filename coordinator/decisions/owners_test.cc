// What one user's jobs may do to another's: what is forgotten, whose folders and keys stay, which job a name means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OwnersTest : public CoordinationTest {
 protected:
  static NewJob Of(const std::string& owner, const std::string& name, const std::string& folder = "") {
    NewJob job;
    job.spec = Spec(name, 1);
    job.spec.set_output_dir(folder);
    job.owner = owner;
    return job;
  }
  static NewJob Keyed(const std::string& owner, const std::string& name, const std::string& key) {
    NewJob job = Of(owner, name);
    job.idempotency_key = key;
    return job;
  }
  std::string Ended(NewJob job) {
    std::string id = CoordinationTest::Submit(std::move(job));
    EXPECT_EQ(*service_->Cancel(id), CANCELLED);
    Settle();
    return id;
  }
  // Ends it, and then others of its owner, until it is forgotten: options_.keep_jobs is 1. Returns its id.
  std::string Forgotten(const NewJob& job) {
    std::string id = Ended(job);
    for (int i = 0; i < 3; ++i) Ended(Of(job.owner, "other"));
    EXPECT_EQ(Summary(id).status().code(), absl::StatusCode::kNotFound);
    return id;
  }
  // On worker-0, which is connection 1.
  std::string Ran(NewJob job) {
    std::string id = CoordinationTest::Submit(std::move(job));
    Ready(1, id, 0);
    EndedAs(1, id, 0, RANK_SUCCEEDED);
    Cleared(1, id);
    return id;
  }
  absl::StatusOr<Submitted> Try(NewJob job) {
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    Settle();
    return submitted;
  }
  // Stores a key that is new, which is when old ones go.
  void StoreKey(const std::string& owner) {
    EXPECT_TRUE(Try(Keyed(owner, "next", absl::StrCat("next-", ++last_key_))).ok());
  }
  std::string Named(const std::string& name, const std::string& caller) {
    absl::StatusOr<JobSummary> job = Summary({name, caller});
    return job.ok() ? job->job_id() : std::string(job.status().message());
  }

  int last_key_ = 0;
};

TEST_F(OwnersTest, OneOwnersJobsDoNotMakeItForgetAnothers) {
  options_.keep_jobs = 2;
  Restart();
  const std::string alice = Ended(Of("alice", "net"));
  std::vector<std::string> bobs;
  for (int i = 0; i < 5; ++i) bobs.push_back(Ended(Of("bob", "net")));
  Submit(Of("bob", "last"));
  EXPECT_THAT(service_->TakeForgotten(), ElementsAre(bobs[0], bobs[1], bobs[2]));
  EXPECT_EQ(Job(alice).state(), CANCELLED);
}

TEST_F(OwnersTest, InAllTheOwnerWithTheMostLosesTheOldest) {
  options_.keep_jobs = 4;
  options_.keep_jobs_total = 5;
  Restart();
  const std::string alice = Ended(Of("alice", "net"));
  std::vector<std::string> bobs, carols;
  for (int i = 0; i < 4; ++i) bobs.push_back(Ended(Of("bob", "net")));
  for (int i = 0; i < 2; ++i) carols.push_back(Ended(Of("carol", "net")));
  Submit(Of("carol", "last"));
  EXPECT_THAT(service_->TakeForgotten(), ElementsAre(bobs[0], bobs[1]));
  EXPECT_EQ(Job(alice).state(), CANCELLED);
}

// A spec of a megabyte takes many times that in memory: numbers of jobs alone bound nothing.
NewJob WithLayers(NewJob job, int layers) {
  for (int i = 0; i < layers; ++i) job.spec.add_layer()->set_name(absl::StrCat("layer-", i));
  return job;
}

TEST_F(OwnersTest, SpecsOfEndedJobsAreBoundedByTheirMemory) {
  options_.keep_bytes_total = 1 << 20;
  Restart();
  const std::string alice = Ended(Of("alice", "net"));
  const NewJob large = WithLayers(Of("bob", "net"), 3000);
  const size_t bytes = large.spec.SpaceUsedLong();
  ASSERT_GT(bytes, 200u << 10);
  const size_t fit = (1 << 20) / bytes;
  std::vector<std::string> bobs;
  for (size_t i = 0; i < fit + 3; ++i) bobs.push_back(Ended(large));
  Submit(Of("carol", "net"));
  const std::vector<std::string> forgotten = service_->TakeForgotten();
  EXPECT_EQ(forgotten, std::vector<std::string>(bobs.begin(), bobs.begin() + 3));
  EXPECT_EQ(Job(alice).state(), CANCELLED) << "the owner with the most loses the oldest";
}

TEST_F(OwnersTest, TheQueueIsBoundedByTheMemoryOfItsSpecs) {
  options_.max_queued_bytes = 1 << 20;
  Restart();
  const NewJob large = WithLayers(Of("bob", "net"), 3000);
  std::vector<std::string> jobs;
  absl::Status refused;
  while (refused.ok() && jobs.size() < 100) {
    absl::StatusOr<Submitted> submitted = Try(large);
    submitted.ok() ? jobs.push_back(submitted->job_id) : void(refused = submitted.status());
  }
  EXPECT_EQ(jobs.size(), ((1 << 20) + large.spec.SpaceUsedLong() - 1) / large.spec.SpaceUsedLong());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--max-queued-mb is 1"));
  EXPECT_EQ(*service_->Cancel(jobs[0]), CANCELLED);
  Settle();
  EXPECT_TRUE(Try(large).ok());
}

TEST_F(OwnersTest, AFolderStaysItsOwnersWhenItsJobIsForgotten) {
  options_.keep_jobs = 1;
  Restart();
  NewJob job = Of("alice", "net", "alice/model");
  job.spec.mutable_checkpoint()->set_dir("alice/checkpoints");
  Connect(1, "worker-0", 1);
  const std::string first = Ran(job);
  for (int i = 0; i < 3; ++i) Ended(Of("alice", "other"));
  ASSERT_EQ(Summary(first).status().code(), absl::StatusCode::kNotFound);
  for (int round = 0; round < 2; ++round) {
    for (const char* folder : {"alice/model", "alice", "./alice//model/below", "alice/checkpoints"}) {
      const absl::Status refused = Try(Of("bob", "net", folder)).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << folder;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("somebody else's")) << folder;
    }
    NewJob resumed = Of("bob", "net", "bob/net");
    resumed.spec.mutable_checkpoint()->set_resume_from("alice/checkpoints");
    EXPECT_EQ(Try(resumed).status().code(), absl::StatusCode::kPermissionDenied);
    NewJob reads = Of("bob", "net", "bob/net");
    reads.spec.mutable_weights()->set_from_output("alice/model/model.safetensors");
    EXPECT_EQ(Try(reads).status().code(), absl::StatusCode::kPermissionDenied);
    Restart();  // the store has it
  }
  NewJob again = Of("alice", "net", "alice/model");
  again.replace_output = true;
  EXPECT_TRUE(Try(again).ok());
}

TEST_F(OwnersTest, AJobThatNeverRanOwnsNothingOnceItIsForgotten) {
  options_.keep_jobs = 1;
  Restart();
  const std::string first = Ended(Of("mallory", "net", "results"));
  EXPECT_FALSE(Try(Of("bob", "net", "results")).ok());
  for (int i = 0; i < 3; ++i) Ended(Of("mallory", "other"));
  ASSERT_EQ(Summary(first).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Try(Of("bob", "net", "results")).ok());
}

TEST_F(OwnersTest, AKeyOutlivesItsJob) {
  options_.keep_jobs = 1;
  Restart();
  const NewJob job = Keyed("alice", "net", "nightly");
  const std::string first = Forgotten(job);
  for (int round = 0; round < 2; ++round) {
    absl::StatusOr<Submitted> again = Try(job);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->existed);
    EXPECT_EQ(again->job_id, first);
    absl::Status reason;
    EXPECT_EQ(service_->AdmissionOf(first, &reason), Admission::kAccepted) << "nobody waits for it";
    NewJob other = job;
    other.spec.set_seed(99);
    const absl::Status refused = Try(other).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("is that of ", first)));
    Restart();
  }
  EXPECT_FALSE(Try(Keyed("bob", "net", "nightly"))->existed) << "each owner has keys of their own";
  now_ += absl::Hours(24 * 31);
  StoreKey("alice");
  EXPECT_FALSE(Try(job)->existed) << "after 30 days";
}

// A key that goes too early lets its job run twice.
TEST_F(OwnersTest, AWallClockThatIsSetDropsNoKey) {
  options_.keep_jobs = 1;
  Restart();
  const NewJob job = Keyed("alice", "net", "nightly");
  const std::string first = Forgotten(job);
  const auto look = [&] {
    now_ += absl::Minutes(2);
    StoreKey("alice");
  };
  for (const absl::Duration ahead : {absl::Hours(24 * 31), -absl::Hours(24 * 400), absl::ZeroDuration()}) {
    wall_ahead_ = ahead;
    look();
    EXPECT_EQ(Try(job)->job_id, first) << "while a coordinator runs: " << ahead;
  }
  wall_ahead_ = absl::Hours(24 * 31);  // over a restart it counts, for a day
  for (int i = 0; i < 3; ++i) {
    Restart();
    look();
    EXPECT_EQ(Try(job)->job_id, first) << "restart " << i;
  }
  now_ += absl::Hours(24 * 28);
  look();
  EXPECT_EQ(Try(job)->job_id, first);
  now_ += absl::Hours(24);
  look();
  EXPECT_FALSE(Try(job)->existed) << "after 30 days";
}

TEST_F(OwnersTest, KeysOfAnOlderReleaseHaveTheirAge) {
  options_.keep_jobs = 1;
  Restart();
  const NewJob job = Keyed("alice", "net", "nightly");
  Forgotten(job);
  stored_.age.reset();
  now_ += absl::Hours(20);
  Restart();
  now_ += absl::Hours(24 * 30 - 19);
  StoreKey("alice");
  EXPECT_FALSE(Try(job)->existed) << "after 30 days";
}

// An older release took the times of a wall clock that had been set ahead for a while. With a mark it ran between two
// newer ones.
TEST_F(OwnersTest, AKeyFromTheFutureAgesNoOthers) {
  options_.keep_jobs = 1;
  for (const bool is_marked : {false, true}) {
    SCOPED_TRACE(is_marked);
    stored_ = StoredState();
    Restart();
    std::vector<NewJob> jobs;
    std::vector<std::string> ids;
    for (const char* owner : {"alice", "bob"}) {
      jobs.push_back(Keyed(owner, "net", "nightly"));
      ids.push_back(Forgotten(jobs.back()));
    }
    ASSERT_EQ(stored_.keys.size(), 2);
    for (StoredKey& key : stored_.keys) {
      if (key.owner == "bob") key.unix_ms += absl::ToInt64Milliseconds(absl::Hours(24 * 400));
    }
    if (!is_marked) stored_.age.reset();
    const auto look = [&] {
      now_ += absl::Minutes(2);
      StoreKey("carol");
    };
    for (int restart = 0; restart < 3; ++restart) {
      Restart();
      now_ += absl::Hours(1);
      look();
      for (size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(Try(jobs[i])->job_id, ids[i]) << "restart " << restart;
    }
    now_ += absl::Hours(24 * 30 - 4);
    look();
    EXPECT_EQ(Try(jobs[0])->job_id, ids[0]);
    now_ += absl::Hours(1);
    look();
    for (const NewJob& job : jobs) EXPECT_FALSE(Try(job)->existed) << job.owner << ": after 30 days";
  }
}

TEST_F(OwnersTest, KeysOfAStoreThatHadNoneOfTheirOwnAreTaken) {
  options_.keep_jobs = 1;
  NewJob job = Keyed("alice", "net", "nightly");
  job.spec.set_output_dir("nightly");  // when such stores were written, no folder was chosen for a job
  const std::string first = Ended(job);
  stored_.keys.clear();
  Restart();
  EXPECT_EQ(stored_.keys.size(), 1);
  for (int i = 0; i < 3; ++i) Ended(Of("alice", "other"));
  EXPECT_EQ(Try(job)->job_id, first);
}

TEST_F(OwnersTest, AnIdIsAnId) {
  std::string last;
  for (int i = 0; i < 12; ++i) last = Submit(Of("alice", "net"));
  ASSERT_EQ(last, "job-12");
  options_.keep_jobs = 1;
  EXPECT_EQ(*service_->Cancel("job-1"), CANCELLED);
  Settle();
  stored_.jobs.erase(stored_.jobs.begin());
  Restart();
  const absl::Status gone = service_->Cancel("job-1").status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("there is no job 'job-1': it was refused, "));
  EXPECT_EQ(Summary("job-1").status().code(), absl::StatusCode::kNotFound);
  for (const char* beginning : {"job-", "job", "j", "job-012", "job-+12", "job-12 "}) {
    EXPECT_EQ(service_->Cancel(beginning).status().code(), absl::StatusCode::kNotFound) << beginning;
    EXPECT_EQ(Describe(beginning).status().code(), absl::StatusCode::kNotFound) << beginning;
  }
  EXPECT_THAT(std::string(service_->Cancel("job-99").status().message()), Not(HasSubstr("refused")));
  EXPECT_EQ(Job("job-12").state(), PENDING);
}

TEST_F(OwnersTest, AJobCannotBeNamedAsAnId) {
  const absl::Status refused = Try(Of("alice", "job-12")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("looks like the id of a job"));
  EXPECT_TRUE(Try(Of("alice", "job-a")).ok());
  EXPECT_TRUE(Try(Of("alice", "job-")).ok());
}

TEST_F(OwnersTest, ANameMeansOnesOwnJobFirst) {
  const std::string alice = Submit(Of("alice", "net")), bob = Submit(Of("bob", "net"));
  EXPECT_EQ(Named("net", "alice"), alice);
  EXPECT_EQ(Named("net", "bob"), bob);
  EXPECT_EQ(Named("net", "root"), bob) << "the latest, for reading";
  EXPECT_EQ(Describe({"net", "alice"})->job().job_id(), alice);
  // An operator without a job of that name is told who has one, and hits nobody.
  const absl::Status refused = service_->Cancel({"net", "root"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), absl::StrCat("'net' is the name of 2 jobs: ", alice, " (alice, pending), ", bob,
                                            " (bob, pending); give the id of one"));
  EXPECT_EQ(service_->Hold({"net", "root"}, true).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->Retry({"net", "root"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*service_->Cancel({"net", "alice"}), CANCELLED);
  EXPECT_EQ(Job(alice).state(), CANCELLED);
  EXPECT_EQ(Job(bob).state(), PENDING);
  // One is left that has not ended.
  EXPECT_EQ(*service_->Cancel({"net", "root"}), CANCELLED);
  EXPECT_EQ(Job(bob).state(), CANCELLED);
}

TEST_F(OwnersTest, OnesOwnJobsOfOneNameAreListedToo) {
  std::vector<std::string> jobs;
  for (int i = 0; i < 13; ++i) jobs.push_back(Submit(Of("alice", "net")));
  const std::string said(service_->Cancel({"net", "alice"}).status().message());
  EXPECT_THAT(said, AllOf(HasSubstr("the name of 13 jobs: job-1 (alice, pending), "),
                          HasSubstr("job-10 (alice, pending) and 3 more; give"), Not(HasSubstr("job-11"))));
  for (const std::string& job : jobs) {
    if (job == jobs[4]) continue;
    EXPECT_EQ(*service_->Cancel(job), CANCELLED);
  }
  EXPECT_EQ(service_->Hold({"net", "alice"}, true), absl::OkStatus());
  EXPECT_TRUE(Job(jobs[4]).held());
  EXPECT_EQ(*service_->Cancel(jobs[4]), CANCELLED);
  EXPECT_EQ(*service_->Retry({"net", "alice"}), PENDING) << "the latest of those that have ended";
  EXPECT_EQ(Job(jobs[12]).state(), PENDING);
}

}  // namespace
}  // namespace adjoin
