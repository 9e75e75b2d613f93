#include "worker/session/attempt_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/infrastructure_failure.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

class AttemptOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }

  absl::StatusOr<std::unique_ptr<AttemptOutput>> Begin(uint64_t epoch, const std::string& job = "job-1",
                                                       uint64_t store = 255) {
    return AttemptOutput::Begin({root_, "out", epoch, job, store}, Deadline::After(absl::Seconds(10)));
  }
  static absl::Status Publish(AttemptOutput& output) {
    return output.Publish({"result"}, Deadline::After(absl::Seconds(10)));
  }
  static void Write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }
  std::string Read(const std::string& name) const {
    std::ifstream in(root_ + "/out/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(root_ + "/out/" + name); }

  std::string root_;
};

TEST_F(AttemptOutputTest, PublishesAllFilesAtOnce) {
  auto output = Begin(4);
  ASSERT_TRUE(output.ok()) << output.status();
  Write((*output)->folder() + "/result", "four");
  Write((*output)->folder() + "/left.tmp", "x");
  EXPECT_FALSE(Exists("result"));
  EXPECT_EQ(Read(".epoch"), "4 job-1 store-00000000000000ff\n");
  EXPECT_EQ(Publish(**output), absl::OkStatus());
  EXPECT_EQ(Read("result"), "four");
  EXPECT_FALSE(Exists("attempt-4"));

  auto later = Begin(9, "job-2");
  ASSERT_TRUE(later.ok()) << later.status();
  Write((*later)->folder() + "/result", "nine");
  EXPECT_EQ(Publish(**later), absl::OkStatus());
  EXPECT_EQ(Read("result"), "nine") << "another job's, with the same folder";
}

TEST_F(AttemptOutputTest, ALaterAttemptFencesOffTheOlderOne) {
  auto older = Begin(4);
  ASSERT_TRUE(older.ok()) << older.status();
  Write((*older)->folder() + "/result", "four");
  EXPECT_EQ((*older)->CheckLatest(), absl::OkStatus());
  auto newer = Begin(5);
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_FALSE(Exists("attempt-4"));
  for (const absl::Status& status : {(*older)->CheckLatest(), Publish(**older)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("attempt 4 is no longer the job's: attempt 5 has begun (job-1), as out/.epoch records"));
  }
  EXPECT_FALSE(Exists("result"));
  Write((*newer)->folder() + "/result", "five");
  EXPECT_EQ(Publish(**newer), absl::OkStatus());
  EXPECT_EQ(Read("result"), "five");
  const absl::Status late = Begin(4).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("attempt 5 has begun"));
  EXPECT_EQ(Read(".epoch"), "5 job-1 store-00000000000000ff\n");
}

TEST_F(AttemptOutputTest, RefusesAFolderInWhichAnotherJobIsWriting) {
  auto first = Begin(4, "job-1");
  ASSERT_TRUE(first.ok()) << first.status();
  {
    auto metrics = MetricsWriter::Create((*first)->folder() + "/metrics.jsonl");
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    const absl::Status refused = Begin(5, "job-2").status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("out: another job, job-1, is writing there"));
    EXPECT_EQ((*first)->CheckLatest(), absl::OkStatus());
  }
  EXPECT_TRUE(Begin(5, "job-2").ok()) << "it is over";
}

TEST_F(AttemptOutputTest, EpochsOfAnotherStoreAreNotCompared) {
  constexpr uint64_t kOld = 255, kNew = 0xfedcba9876543210;
  ASSERT_TRUE(Begin(1, "job-0", 1).ok());
  Write(root_ + "/out/attempt-1/left", "of a store before");
  auto older = Begin(7, "job-1", kOld);
  ASSERT_TRUE(older.ok()) << older.status();
  {
    auto metrics = MetricsWriter::Create((*older)->folder() + "/metrics.jsonl");
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    EXPECT_THAT(std::string(Begin(1, "job-1", kNew).status().message()),
                HasSubstr("another job, job-1, is writing there"));
  }
  auto newer = Begin(1, "job-1", kNew);
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(Read(".epoch"), "1 job-1 store-fedcba9876543210\n");
  EXPECT_FALSE(Exists("attempt-7"));
  EXPECT_FALSE(Exists("attempt-1/left"));
  EXPECT_EQ((*older)->CheckLatest().code(), absl::StatusCode::kFailedPrecondition);
  Write((*newer)->folder() + "/result", "one");
  EXPECT_EQ(Publish(**newer), absl::OkStatus());
  EXPECT_EQ(Read("result"), "one");
  EXPECT_TRUE(Begin(2, "job-1", kNew).ok());
  EXPECT_EQ(Begin(1, "job-1", kNew).status().code(), absl::StatusCode::kFailedPrecondition) << "of the same store";
}

TEST_F(AttemptOutputTest, LeavesFoldersThatNoAttemptMade) {
  std::filesystem::create_directories(root_ + "/out/attempt-3");
  std::filesystem::create_directories(root_ + "/out/attempt-999/deep");
  std::filesystem::create_directories(root_ + "/out/attempt-9");
  Write(root_ + "/out/attempt-999/model", "a user's");
  Write(root_ + "/out/attempt-9/.attempt", "8 job-1 store-00000000000000ff\n");
  ASSERT_TRUE(Begin(4).ok());
  EXPECT_EQ(Read("attempt-999/model"), "a user's");
  EXPECT_TRUE(Exists("attempt-9")) << "its note names another attempt";
  EXPECT_FALSE(Exists("attempt-3")) << "it was empty";
  EXPECT_EQ(Read("attempt-4/.attempt"), "4 job-1 store-00000000000000ff\n");
  const absl::Status refused = Begin(999).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("out/attempt-999: no attempt made this folder"));
  EXPECT_EQ(Read("attempt-999/model"), "a user's");
}

TEST_F(AttemptOutputTest, ReplacesNoPipe) {
  auto output = Begin(4);
  ASSERT_TRUE(output.ok()) << output.status();
  Write((*output)->folder() + "/result", "four");
  ASSERT_EQ(mkfifo((root_ + "/out/result").c_str(), 0600), 0);
  const absl::Status refused = Publish(**output);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("out/result is a pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(root_ + "/out/result"));
  std::filesystem::remove(root_ + "/out/result");
  EXPECT_EQ(Publish(**output), absl::OkStatus());
  EXPECT_EQ(Read("result"), "four");
}

TEST_F(AttemptOutputTest, WaitsForTheLockNoLongerThanItMay) {
  ASSERT_TRUE(Begin(4).ok());
  const int fd = open((root_ + "/out/.epoch.lock").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const absl::Status late =
      AttemptOutput::Begin({.root = root_, .output_dir = "out", .epoch = 5, .job_id = "job-1", .store_id = 255},
                           Deadline::After(absl::Milliseconds(50)))
          .status();
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable) << late;
  EXPECT_TRUE(IsInfrastructureFailure(late)) << "another attempt may find the holder gone";
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  EXPECT_EQ(std::string(late.message()),
            absl::StrCat("out/.epoch.lock: process ", getpid(), " on ", host,
                         " (attempt 4 of job-1) keeps it locked and does not go on; end that process"));
  close(fd);
  EXPECT_TRUE(Begin(5).ok());
}

TEST_F(AttemptOutputTest, MakesAgainWhatWasRemovedWhileItRuns) {
  for (const std::string gone : {"", "/.epoch", "/attempt-4"}) {
    std::filesystem::remove_all(root_);
    auto output = Begin(4);
    ASSERT_TRUE(output.ok()) << output.status();
    const std::string before = (*output)->folder();
    std::filesystem::remove_all(root_ + "/out" + gone);
    EXPECT_EQ((*output)->CheckLatest(), absl::OkStatus()) << gone;
    EXPECT_EQ(Read(".epoch"), "4 job-1 store-00000000000000ff\n") << gone;
    Write((*output)->folder() + "/result", "four");
    EXPECT_EQ(Publish(**output), absl::OkStatus()) << gone;
    EXPECT_EQ(Read("result"), "four") << gone;
    EXPECT_FALSE(std::filesystem::exists(before + "/result")) << gone;
  }
}

TEST_F(AttemptOutputTest, DoesNotTakeBackAFolderThatALaterAttemptHas) {
  auto older = Begin(4);
  ASSERT_TRUE(older.ok()) << older.status();
  std::filesystem::remove_all(root_ + "/out");
  auto newer = Begin(5);
  ASSERT_TRUE(newer.ok()) << newer.status();
  const absl::Status late = (*older)->CheckLatest();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("attempt 5 has begun (job-1)"));
  EXPECT_EQ((*newer)->CheckLatest(), absl::OkStatus());
  EXPECT_FALSE(Exists("attempt-4"));
}

TEST_F(AttemptOutputTest, NamesTheOutputRootThatIsGone) {
  auto output = Begin(4);
  ASSERT_TRUE(output.ok()) << output.status();
  std::filesystem::remove_all(root_);
  for (const absl::Status& status : {(*output)->CheckLatest(), Publish(**output)}) {
    EXPECT_EQ(std::string(status.message()),
              "the worker's output root is gone: its folder was removed, or is no longer mounted");
    EXPECT_TRUE(IsInfrastructureFailure(status));
  }
  EXPECT_FALSE(std::filesystem::exists(root_)) << "where a file system belongs, nothing is written in its place";
}

TEST_F(AttemptOutputTest, TellsWhyAFolderCannotBeMadeAgain) {
  auto output = Begin(4);
  ASSERT_TRUE(output.ok()) << output.status();
  std::filesystem::remove_all(root_ + "/out");
  Write(root_ + "/out", "a file");
  const absl::Status status = (*output)->CheckLatest();
  EXPECT_EQ(
      std::string(status.message()),
      "output_dir 'out' was removed while the job ran and cannot be made again: 'out' is there and is not a folder");
  EXPECT_FALSE(IsInfrastructureFailure(status)) << "a user put it there";
}

TEST_F(AttemptOutputTest, WithoutAnEpochNothingIsFenced) {
  auto output = Begin(0);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_TRUE(std::filesystem::equivalent((*output)->folder(), root_ + "/out"));
  EXPECT_EQ(Publish(**output), absl::OkStatus());
  EXPECT_FALSE(Exists(".epoch"));
}

TEST_F(AttemptOutputTest, RefusesNotesThatNoAttemptWrote) {
  std::filesystem::create_directories(root_ + "/out");
  Write(root_ + "/out/.epoch", "seven\n");
  EXPECT_EQ(Begin(8).status().code(), absl::StatusCode::kDataLoss);
  Write(root_ + "/out/.epoch", "7 job-1 stare-ff\n");
  EXPECT_EQ(Begin(8).status().code(), absl::StatusCode::kDataLoss);
  Write(root_ + "/out/.epoch", "7 job-1 store-ff\n");
  std::filesystem::create_directory_symlink("/", root_ + "/out/attempt-8");
  EXPECT_EQ(Begin(8).status().code(), absl::StatusCode::kInvalidArgument) << "its folder leads elsewhere";
}

}  // namespace
}  // namespace adjoin
