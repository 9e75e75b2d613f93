#include "coordinator/logs/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A disk that stalls and fails when the test lets it.
class LogWriterTest : public ::testing::Test {
 protected:
  void Start(size_t max_waiting_bytes = 1 << 20) {
    writer_ = std::make_unique<LogWriter>(LogWriter::Options{
        [this](const std::string& job, const std::vector<LogLine>& lines) { return Append(job, lines); },
        [this](const std::string& job) {
          absl::MutexLock lock(&mutex_);
          disk_.push_back(absl::StrCat("removed ", job));
          return absl::OkStatus();
        },
        max_waiting_bytes});
  }

  absl::Status Append(const std::string& job, const std::vector<LogLine>& lines) {
    absl::MutexLock lock(&mutex_);
    stalled_ = stall_;
    mutex_.Await(absl::Condition(
        +[](bool* stall) { return !*stall; }, &stall_));
    stalled_ = false;
    if (fails_) return absl::UnavailableError("no space left");
    for (const LogLine& line : lines) disk_.push_back(absl::StrCat(job, " ", line.rank(), ": ", line.text()));
    return absl::OkStatus();
  }

  void Set(bool stall, bool fails) {
    absl::MutexLock lock(&mutex_);
    stall_ = stall;
    fails_ = fails;
  }
  void AwaitStalled() {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&stalled_), absl::Seconds(30)));
  }
  std::vector<std::string> Disk() {
    absl::MutexLock lock(&mutex_);
    return disk_;
  }
  void Add(const std::string& job, const std::string& text, uint32_t rank = 0) {
    LogLine line;
    line.set_rank(rank);
    line.set_text(text);
    writer_->Add(job, {line});
  }
  bool Flush(absl::Duration timeout = absl::Seconds(30)) { return writer_->Flush(Deadline::After(timeout)); }

  absl::Mutex mutex_;
  bool stall_ = false, stalled_ = false, fails_ = false;
  std::vector<std::string> disk_;
  std::unique_ptr<LogWriter> writer_;
};

constexpr char kOneLost[] = "[here 1 lines were lost, which the coordinator could not write]";
constexpr char kTwoLost[] = "[here 2 lines were lost, which the coordinator could not write]";

TEST_F(LogWriterTest, WritesInOrderAndFlushReturnsWhenItHas) {
  Start();
  EXPECT_TRUE(Flush(absl::ZeroDuration())) << "nothing was added";
  std::atomic<int> heard = 0;
  writer_->Listen([&](const std::string&) { ++heard; });
  for (int i = 0; i < 100; ++i) Add(absl::StrCat("job-", i % 3), absl::StrCat(i));
  ASSERT_TRUE(Flush());
  std::vector<std::string> disk = Disk();
  ASSERT_EQ(disk.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(disk[i], absl::StrCat("job-", i % 3, " 0: ", i));
  EXPECT_EQ(heard, 100);
  writer_->Listen(nullptr);
  Add("job-1", "last");
  writer_.reset();
  EXPECT_EQ(Disk().back(), "job-1 0: last") << "its end waits";
  EXPECT_EQ(heard, 100);
}

TEST_F(LogWriterTest, AStalledDiskDoesNotBlockAdd) {
  Start();
  Set(/*stall=*/true, false);
  for (int i = 0; i < 3; ++i) Add("job-1", absl::StrCat(i));
  AwaitStalled();
  EXPECT_FALSE(Flush(absl::Milliseconds(10)));
  EXPECT_THAT(Disk(), IsEmpty());
  Set(false, false);
  ASSERT_TRUE(Flush());
  EXPECT_THAT(Disk(), ElementsAre("job-1 0: 0", "job-1 0: 1", "job-1 0: 2"));
}

TEST_F(LogWriterTest, LosesTheOldestLinesWhereTooManyWaitAndWritesTheirNumber) {
  Start(/*max_waiting_bytes=*/300);  // two lines of 100 and what they take besides
  Set(/*stall=*/true, false);
  const std::string text(70, 'x');
  Add("job-1", "written", 1);
  AwaitStalled();
  Add("job-1", "a" + text, 2);
  Add("job-2", "b" + text, 3);
  Add("job-1", "c" + text, 4);
  Add("job-1", "d" + text, 5);
  Add("job-1", "e" + text, 6);
  Set(false, false);
  ASSERT_TRUE(Flush());
  EXPECT_THAT(Disk(), ElementsAre("job-1 1: written", absl::StrCat("job-1 4: ", kTwoLost),
                                  absl::StrCat("job-2 3: ", kOneLost), "job-1 5: d" + text, "job-1 6: e" + text));
  // One that is too large alone is kept.
  Add("job-3", std::string(1000, 'y'));
  ASSERT_TRUE(Flush());
  EXPECT_EQ(Disk().back(), "job-3 0: " + std::string(1000, 'y'));
}

TEST_F(LogWriterTest, WritesTheNumberOfLostLinesOnceTheDiskWorks) {
  Start();
  Set(false, /*fails=*/true);
  Add("job-1", "a");
  Add("job-2", "b", 7);
  Add("job-1", "c");
  ASSERT_TRUE(Flush());
  EXPECT_THAT(Disk(), IsEmpty());
  Set(false, false);
  Add("job-1", "d");
  ASSERT_TRUE(Flush());
  EXPECT_THAT(Disk(),
              ElementsAre(absl::StrCat("job-1 0: ", kTwoLost), absl::StrCat("job-2 7: ", kOneLost), "job-1 0: d"));
}

TEST_F(LogWriterTest, WritesNothingOfARemovedJob) {
  Start();
  Set(/*stall=*/true, /*fails=*/true);
  Add("job-1", "fails");
  AwaitStalled();
  Add("job-1", "waits");
  Add("job-2", "stays");
  writer_->Remove("job-1");
  Set(false, /*fails=*/true);
  ASSERT_TRUE(Flush());
  Set(false, false);
  Add("job-2", "more");
  ASSERT_TRUE(Flush());
  EXPECT_THAT(Disk(), ElementsAre("removed job-1", absl::StrCat("job-2 0: ", kOneLost), "job-2 0: more"));
}

}  // namespace
}  // namespace adjoin
