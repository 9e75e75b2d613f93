#include "worker/daemon/folder_remover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/checkpoint/manifest.h"
#include "worker/daemon/attempt_retention.h"
#include "worker/daemon/folder_owner.h"
#include "worker/daemon/mount_calls.h"
#include "worker/session/attempt_output.h"
#include "worker/testing/dead_file_system.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kStore = 255, kTag = 4711;

class FolderRemoverTest : public ::testing::Test {
 protected:
  FolderRemoverTest() : folder_(::testing::TempDir() + "/remover-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    root_ = folder_ + "/output";
    fs::create_directories(root_);
  }
  ~FolderRemoverTest() override { fs::remove_all(folder_); }

  static Deadline Soon() { return Deadline::After(absl::Seconds(20)); }
  std::unique_ptr<AttemptOutput> Begin(uint64_t epoch, const std::string& job, const std::string& dir = "run") {
    fs::create_directories(root_ + "/" + dir);
    EXPECT_EQ(OwnFolder(root_, dir, {.owner = "alice", .job_id = job, .store_id = kStore, .any_folder = false}),
              absl::OkStatus());
    auto output = AttemptOutput::Begin(
        {.root = root_, .output_dir = dir, .epoch = epoch, .job_id = job, .store_id = kStore}, Soon());
    EXPECT_TRUE(output.ok()) << output.status();
    return *std::move(output);
  }
  void Succeed(uint64_t epoch, const std::string& job, const std::string& dir = "run") {
    auto output = Begin(epoch, job, dir);
    Put(output->folder() + "/model", "12345");
    EXPECT_EQ(output->Publish({"model"}, Soon()), absl::OkStatus());
  }
  std::string MakeCheckpoint(const std::string& dir, int64_t step, uint64_t tag) {
    const std::string path = absl::StrCat(root_, "/", dir, "/", CheckpointName{step, 3, tag}.ToString());
    fs::create_directories(path);
    Put(path + "/manifest.json", "{}");
    Put(path + "/rank-0000.safetensors", "123");
    return path;
  }
  static void Put(const std::string& path, const std::string& content) { std::ofstream(path) << content; }
  static RemoveFolders Request(const std::string& job = "job-1") {
    RemoveFolders request;
    request.set_job_id(job);
    request.set_owner("alice");
    request.set_output_dir("run");
    request.set_checkpoint_dir("run/checkpoints");
    request.set_job_tag(kTag);
    request.set_store_id(kStore);
    request.add_artifact("model");
    return request;
  }
  // What a daemon has that starts now.
  std::unique_ptr<AttemptRetention> Retention() const {
    return std::make_unique<AttemptRetention>(AttemptRetention::Options{.folder = folder_ + "/records",
                                                                        .output_root = root_,
                                                                        .keep = absl::Hours(168),
                                                                        .wall = [this] { return wall_; },
                                                                        .steady = [this] { return steady_; }});
  }
  void Pass(absl::Duration time) {
    wall_ += time;
    steady_ += time;
  }
  static int Sweep(AttemptRetention& retention) {
    int left = 0;
    for (const auto& [mount_point, records] : retention.List()) left += retention.Sweep(records);
    return left;
  }
  // All that is below the root, without the notes.
  std::set<std::string> Left(bool notes = false) const {
    std::set<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const std::string name = entry.path().lexically_relative(root_);
      if (notes || !absl::StrContains(name, "/.")) left.insert(name);
    }
    return left;
  }

  std::string folder_, root_;
  absl::Time wall_ = absl::Now();
  absl::Duration steady_ = absl::Seconds(77);
};

TEST_F(FolderRemoverTest, NothingOfAJobIsLeft) {
  Succeed(3, "job-1");
  MakeCheckpoint("run/checkpoints", 10, kTag);
  MakeCheckpoint("run/checkpoints", 20, kTag);
  const auto removed = RemoveJobFiles(root_, Request());
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_GE(removed->files, 5);
  EXPECT_GE(removed->bytes, 5 + 2 * 5);
  EXPECT_THAT(Left(/*notes=*/true), IsEmpty());
  EXPECT_TRUE(fs::exists(root_));
  EXPECT_TRUE(RemoveJobFiles(root_, Request()).ok()) << "there is nothing to do";
}

TEST_F(FolderRemoverTest, WhatIsNotTheJobsStays) {
  Succeed(3, "job-1");
  Put(root_ + "/run/notes.txt", "a user's");
  fs::create_directories(root_ + "/run/attempt-9");
  Put(root_ + "/run/attempt-9/model", "a user's");
  fs::create_directories(root_ + "/run/checkpoints/step-old");
  const std::string others = MakeCheckpoint("run/checkpoints", 10, kTag + 1);
  MakeCheckpoint("run/checkpoints", 10, kTag);
  Put(folder_ + "/outside", "not below the root");
  fs::create_directory_symlink(folder_, root_ + "/run/checkpoints/" + CheckpointName{7, 3, kTag}.ToString());
  ASSERT_TRUE(RemoveJobFiles(root_, Request()).ok());
  EXPECT_TRUE(fs::exists(folder_ + "/outside"));
  EXPECT_TRUE(fs::exists(others + "/manifest.json"));
  EXPECT_FALSE(fs::exists(root_ + "/run/model"));
  EXPECT_EQ(Left().count("run/notes.txt"), 1);
  EXPECT_EQ(Left().count("run/attempt-9/model"), 1);
  EXPECT_EQ(Left().count("run/checkpoints/step-old"), 1);
  EXPECT_TRUE(fs::exists(root_ + "/run/.adjoin-owner")) << "files are left, which are alice's";
}

TEST_F(FolderRemoverTest, ResultsOfALaterJobStay) {
  Succeed(3, "job-1");
  Succeed(4, "job-2");
  const auto removed = RemoveJobFiles(root_, Request("job-1"));
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(removed->files, 0);
  EXPECT_THAT(Left(), ElementsAre("run", "run/model"));
}

TEST_F(FolderRemoverTest, NothingIsRemovedLate) {
  const auto output = Begin(3, "job-1");
  for (int i = 0; i < 20; ++i) fs::create_directories(absl::StrCat(output->folder(), "/empty-", i));
  MakeCheckpoint("run/checkpoints", 10, kTag);
  const std::set<std::string> all = Left();
  for (const char* checkpoints : {"run/checkpoints", ""}) {
    RemoveFolders request = Request();
    request.set_checkpoint_dir(checkpoints);
    const auto late = RemoveJobFiles(root_, request, nullptr, Deadline::After(absl::ZeroDuration()));
    EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
    EXPECT_EQ(Left(), all);
  }
  EXPECT_TRUE(RemoveJobFiles(root_, Request()).ok());
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-3"));
}

TEST_F(FolderRemoverTest, LinksAreNotFollowed) {
  Put(folder_ + "/outside", "x");
  auto output = Begin(3, "job-1");
  fs::create_symlink(folder_ + "/outside", output->folder() + "/model");
  fs::create_directory_symlink(folder_, output->folder() + "/up");
  ASSERT_TRUE(RemoveJobFiles(root_, Request()).ok());
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-3"));
  EXPECT_TRUE(fs::exists(folder_ + "/outside"));

  Succeed(5, "job-1");
  fs::remove(root_ + "/run/model");
  fs::create_symlink(folder_ + "/outside", root_ + "/run/model");
  ASSERT_TRUE(RemoveJobFiles(root_, Request()).ok());
  EXPECT_TRUE(fs::is_symlink(root_ + "/run/model")) << "no attempt made it";
  RemoveFolders away = Request();
  fs::create_directory_symlink(folder_, root_ + "/away");
  away.set_output_dir("away");
  EXPECT_FALSE(RemoveJobFiles(root_, away).ok());
  away.set_output_dir("../..");
  EXPECT_FALSE(RemoveJobFiles(root_, away).ok());
}

TEST_F(FolderRemoverTest, FoldersOfOthersAndOfLivingAttemptsStay) {
  Succeed(3, "job-1");
  RemoveFolders bobs = Request();
  bobs.set_owner("bob");
  const auto refused = RemoveJobFiles(root_, bobs);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("'alice'"));
  EXPECT_TRUE(fs::exists(root_ + "/run/model"));

  auto output = Begin(4, "job-1");
  auto metrics = MetricsWriter::Create(output->folder() + "/metrics.jsonl");
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(RemoveJobFiles(root_, Request()).status()));
  const auto any = [](const std::string&, absl::Time) { return true; };
  EXPECT_EQ(*RemoveAttemptFolders(root_, {"run", "job-1", kStore}, any), 1);
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-4/metrics.jsonl"));
  metrics->reset();
  EXPECT_EQ(*RemoveAttemptFolders(root_, {"run", "job-1", kStore}, any), 0);
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-4"));
}

TEST_F(FolderRemoverTest, FailedAttemptsAreKeptForAWhile) {
  auto retention = Retention();
  EXPECT_EQ(Sweep(*retention), 0) << "no job has been here";
  ASSERT_EQ(retention->Began({"run", "job-1", kStore}), absl::OkStatus());
  ASSERT_EQ(retention->Began({"other", "job-2", kStore}), absl::OkStatus());
  Put(Begin(3, "job-1")->folder() + "/model", "unfinished");
  fs::create_directories(root_ + "/run/attempt-9");
  Put(root_ + "/run/attempt-9/model", "a user's");
  Succeed(4, "job-2", "other");
  EXPECT_EQ(Sweep(*retention), 2);
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-3/model"));
  Pass(absl::Hours(167));
  EXPECT_EQ(Sweep(*retention), 1) << "job-2 has left no folder";
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-3/model"));
  Pass(absl::Hours(2));
  retention = Retention();
  EXPECT_EQ(Sweep(*retention), 0);
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-3"));
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-9/model"));
  EXPECT_TRUE(fs::exists(root_ + "/other/model"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/records"), {}), 0);
}

TEST_F(FolderRemoverTest, WhatACrashLeftUnfinishedIsNoRecord) {
  auto retention = Retention();
  ASSERT_EQ(retention->Began({"run", "job-1", kStore}), absl::OkStatus());
  const std::string record = folder_ + "/records/00000000000000ff-job-2.77.tmp";
  const std::string ages = folder_ + "/records.ages.77.tmp", other = folder_ + "/other.tmp";
  for (const std::string& file : {record, ages, other}) Put(file, "x");
  EXPECT_EQ(Sweep(*retention), 1);
  Pass(absl::Hours(200));
  EXPECT_EQ(Sweep(*retention), 0);
  EXPECT_TRUE(fs::exists(record)) << "it may be one that is being written";
  retention = Retention();
  EXPECT_FALSE(fs::exists(record));
  EXPECT_FALSE(fs::exists(ages));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(FolderRemoverTest, ASweepLeavesAloneWhatAnotherSweepsAndWhatBeginsMeanwhile) {
  struct Gate {
    absl::Mutex mutex;
    MonotonicCondition changed;
    bool holds_next = false, holds = false;
  } gate;
  // A sweep asks for the time when it has found a folder, before it removes it.
  AttemptRetention retention({.folder = folder_ + "/records",
                              .output_root = root_,
                              .keep = absl::Hours(168),
                              .wall = [this] { return wall_; },
                              .steady =
                                  [this, &gate] {
                                    absl::MutexLock lock(&gate.mutex);
                                    if (!std::exchange(gate.holds_next, false)) return steady_;
                                    gate.holds = true;
                                    gate.changed.NotifyAll();
                                    gate.changed.Wait(gate.mutex, Soon(), [&] { return !gate.holds; });
                                    return steady_;
                                  }});
  ASSERT_EQ(retention.Began({"run", "job-1", kStore}), absl::OkStatus());
  Put(Begin(3, "job-1")->folder() + "/model", "unfinished");
  EXPECT_EQ(Sweep(retention), 1);
  Pass(absl::Hours(169));
  std::vector<AttemptRetention::Record> records;
  for (const auto& of_mount : retention.List()) {
    records.insert(records.end(), of_mount.second.begin(), of_mount.second.end());
  }
  ASSERT_EQ(records.size(), 1u);
  gate.holds_next = true;
  int left = 0;
  std::thread first([&] { left = retention.Sweep(records); });
  {
    absl::MutexLock lock(&gate.mutex);
    EXPECT_TRUE(gate.changed.Wait(gate.mutex, Soon(), [&] { return gate.holds; }));
  }
  EXPECT_EQ(retention.Sweep(records), 1) << "another thread does that";
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-3/model"));
  EXPECT_EQ(retention.Began({"run", "job-1", kStore}), absl::OkStatus());
  {
    absl::MutexLock lock(&gate.mutex);
    gate.holds = false;
    gate.changed.NotifyAll();
  }
  first.join();
  EXPECT_EQ(left, 1) << "the job has begun again";
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-3"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/records"), {}), 1);
  Pass(absl::Hours(1));
  EXPECT_EQ(Sweep(retention), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/records"), {}), 0);
}

TEST_F(FolderRemoverTest, AWallClockThatIsSetRemovesNoFailedAttempt) {
  auto retention = Retention();
  ASSERT_EQ(retention->Began({"run", "job-1", kStore}), absl::OkStatus());
  Put(Begin(3, "job-1")->folder() + "/model", "unfinished");
  const auto age = [&](absl::Duration past) {
    const fs::file_time_type time = fs::file_time_type::clock::now() - absl::ToChronoNanoseconds(past);
    const std::string folder = root_ + "/run/attempt-3";
    for (const auto& entry : fs::directory_iterator(folder)) fs::last_write_time(entry.path(), time);
    fs::last_write_time(folder, time);
  };
  age(absl::Hours(24 * 400));  // a file server's clock is behind
  EXPECT_EQ(Sweep(*retention), 1);
  Pass(absl::Hours(1));
  for (const absl::Duration jump : {absl::Hours(24 * 30), -absl::Hours(24 * 60), absl::Hours(24 * 30)}) {
    wall_ += jump;
    EXPECT_EQ(Sweep(*retention), 1) << "while the daemon runs: " << jump;
  }
  wall_ += absl::Hours(24 * 60);  // over a restart it counts, for a day
  for (int restart = 0; restart < 9; ++restart) {
    retention = Retention();
    EXPECT_EQ(Sweep(*retention), 1) << "restart " << restart;
  }
  Pass(absl::Hours(168 - 24 - 2));
  EXPECT_EQ(Sweep(*retention), 1);
  age(absl::Hours(24 * 300));  // something changes
  EXPECT_EQ(Sweep(*retention), 1);
  Pass(absl::Hours(167));
  EXPECT_EQ(Sweep(*retention), 1);
  EXPECT_TRUE(fs::exists(root_ + "/run/attempt-3/model"));
  Pass(absl::Hours(1));
  EXPECT_EQ(Sweep(*retention), 0);
  EXPECT_FALSE(fs::exists(root_ + "/run/attempt-3"));
}

TEST_F(FolderRemoverTest, JobsOfOneFileSystemAreSweptApartFromOthers) {
  AttemptRetention retention({.folder = folder_ + "/records", .output_root = "/", .keep = absl::Hours(168)});
  ASSERT_EQ(retention.Began({"proc/a", "job-1", kStore}), absl::OkStatus());
  ASSERT_EQ(retention.Began({"nowhere/b", "job-2", kStore}), absl::OkStatus());
  ASSERT_EQ(retention.Began({"proc/c", "job-3", kStore}), absl::OkStatus());
  Put(folder_ + "/records/other", "no record");
  EXPECT_EQ(retention.unswept(), 3);
  auto records = retention.List();
  EXPECT_EQ(retention.unswept(), 0);
  EXPECT_EQ(records["/proc"].size(), 2u);
  EXPECT_EQ(records["/"].size(), 1u);
  EXPECT_EQ(records[""].size(), 1u) << "what cannot be read";
  int entered = 0;
  const MountCalls::Enter refuses = [&entered](const std::string&) {
    ++entered;
    return absl::ResourceExhaustedError("it does not answer");
  };
  EXPECT_EQ(retention.Sweep(records["/proc"], refuses), 2);
  EXPECT_EQ(entered, 1) << "the others would hang as well";
  EXPECT_EQ(retention.Sweep(records[""], refuses), 1) << "it may be one that is being written";
  EXPECT_EQ(entered, 1);
}

TEST_F(FolderRemoverTest, AFileSystemThatDoesNotAnswerHoldsUpTheRemovalsOfItsOwnFilesOnly) {
  Succeed(3, "job-1");
  fs::create_directories(root_ + "/dead");
  DeadFileSystem dead(root_ + "/dead");
  if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  absl::Mutex mutex;
  MonotonicCondition changed;
  std::map<std::string, FoldersRemoved> answers;
  auto remover = std::make_unique<FolderRemover>(
      root_,
      [&](const WorkerMessage& message) {
        absl::MutexLock lock(&mutex);
        answers[message.folders_removed().request_id()] = message.folders_removed();
        changed.NotifyAll();
      },
      MountCalls::Limits{.of_one_mount = 2, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(2)});
  const auto remove = [&](const std::string& id, const std::string& folder) {
    RemoveFolders request = Request();
    request.set_request_id(id);
    request.set_output_dir(folder);
    request.set_checkpoint_dir(folder + "/checkpoints");
    remover->Remove(request);
  };
  const auto answer = [&](const std::string& id) {
    absl::MutexLock lock(&mutex);
    const bool came = changed.Wait(mutex, Soon(), [&] { return answers.count(id) > 0; });
    EXPECT_TRUE(came) << id << " is not answered";
    return answers[id];
  };
  for (const char* id : {"first", "second"}) remove(id, absl::StrCat("dead/", id));
  const std::string mount_point = fs::path(root_ + "/dead").lexically_normal();
  for (const char* id : {"first", "second"}) {
    EXPECT_EQ(answer(id).error(), absl::StrCat("the file system at ", mount_point, " did not answer within 2s"));
  }
  remove("third", "dead/third");
  EXPECT_EQ(answer("third").error(),
            absl::StrCat("2 others wait for the file system at ", mount_point, " already: does it answer?"));
  remove("good", "run");
  EXPECT_EQ(answer("good").error(), "");
  EXPECT_GT(answer("good").files(), 0);
  EXPECT_FALSE(fs::exists(root_ + "/run"));
  remover.reset();  // waits for none of them
  dead.End();
}

}  // namespace
}  // namespace adjoin
