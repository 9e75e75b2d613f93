#include "worker/daemon/data_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/data_check_child.h"
#include "worker/daemon/proc_stat.h"
#include "worker/testing/dead_file_system.h"
#include "worker/testing/held_file.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// The processes that were started by this one and still run.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (pid_t pid = 0; file >> pid;) {
      const std::optional<ProcStat> stat = ReadProcStat(pid);
      if (stat.has_value() && !stat->Dead()) children.push_back(pid);
    }
  }
  return children;
}

class DataCheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::string(getenv("TEST_TMPDIR")) + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(root_);
    root_ = std::filesystem::canonical(root_);
    std::ofstream(root_ + "/three", std::ios::binary) << std::string({0, 0, 8, 1, 0, 0, 0, 3, 'a', 'b', 'c'});
  }
  void Start(size_t at_once, double limit_seconds, size_t most_abandoned = 8, size_t most_in_all = 64) {
    DataCheckerSettings settings;
    settings.data_root = settings.output_root = root_;
    settings.binary = "/proc/self/exe";
    settings.at_once = at_once;
    settings.limit = absl::Seconds(limit_seconds);
    settings.most_abandoned = most_abandoned;
    settings.most_abandoned_in_all = most_in_all;
    checker_ = std::make_unique<DataChecker>(settings, [this](WorkerMessage message) {
      absl::MutexLock lock(&mutex_);
      results_[message.probe_result().request_id()] = message.probe_result();
      changed_.NotifyAll();
    });
  }
  static ProbeData Request(const std::string& id, const std::string& file = "three") {
    ProbeData request;
    request.set_request_id(id);
    Dataset& dataset = *request.add_dataset();
    dataset.set_name("train");
    Field& field = *dataset.add_field();
    field.set_name("label");
    field.mutable_idx()->add_path(file);
    return request;
  }
  // The check of `file` as the file that a job's weights come from: opened in a way that waits for it.
  static ProbeData Weights(const std::string& id, const std::string& file) {
    ProbeData request = Request(id);
    request.mutable_model()->mutable_weights()->set_init_from(file);
    return request;
  }
  ProbeResult Result(const std::string& id, double seconds = 20) {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Within(seconds), [&] { return results_.count(id) > 0; });
    return results_[id];
  }
  bool Has(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    return results_.count(id) > 0;
  }
  std::vector<pid_t> AwaitChildren(size_t count) {
    const Deadline deadline = Within(20);
    std::vector<pid_t> children = Children();
    while (children.size() != count && !deadline.Expired()) {
      absl::SleepFor(absl::Milliseconds(2));
      children = Children();
    }
    return children;
  }

  std::string root_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::map<std::string, ProbeResult> results_;
  std::unique_ptr<DataChecker> checker_;
};

TEST_F(DataCheckerTest, AnswersAsTheProbeDoesAndKeepsItsProcess) {
  Start(1, 20);
  for (int i = 0; i < 3; ++i) {
    checker_->Check(Request(absl::StrCat("good-", i)));
    const ProbeResult good = Result(absl::StrCat("good-", i));
    EXPECT_EQ(good.error(), "");
    EXPECT_FALSE(good.undecided());
    ASSERT_THAT(good.dataset(), SizeIs(1));
    EXPECT_EQ(good.dataset(0).name(), "train");
    EXPECT_EQ(good.dataset(0).samples(), 3);
    EXPECT_EQ(good.dataset(0).extents(), 0u);
  }
  ProbeData varying = Request("varying");
  varying.mutable_dataset(0)->mutable_field(0)->add_shape(-1);
  varying.mutable_dataset(0)->mutable_blocks()->add_size(2);
  checker_->Check(varying);
  EXPECT_EQ(Result("varying").dataset(0).samples(), 1);
  EXPECT_NE(Result("varying").dataset(0).extents(), 0u);
  const std::vector<pid_t> children = AwaitChildren(1);
  checker_->Check(Request("bad", "none"));
  EXPECT_EQ(Result("bad").error(),
            "data set 'train', field 'label': 'none': no such file below the worker's data root");
  EXPECT_EQ(Result("bad").field(), "dataset[0].field[0].idx.path[0]");
  EXPECT_FALSE(Result("bad").undecided());
  EXPECT_EQ(AwaitChildren(1), children);
  checker_.reset();
  EXPECT_THAT(AwaitChildren(0), IsEmpty());
}

TEST_F(DataCheckerTest, AFileThatHangsIsGivenUpAndNamedWhileOthersAreChecked) {
  HeldFile hangs(root_ + "/w.safetensors");
  ASSERT_TRUE(hangs.ok());
  Start(2, 20);
  ProbeData request = Weights("hangs", "w.safetensors");
  request.set_limit_seconds(1.5);
  checker_->Check(request);
  for (int i = 0; i < 20; ++i) {
    checker_->Check(Request(absl::StrCat("good-", i)));
    EXPECT_EQ(Result(absl::StrCat("good-", i)).dataset_size(), 1);
  }
  const ProbeResult given_up = Result("hangs");
  EXPECT_EQ(given_up.error(),
            "reading 'w.safetensors' (weights.init_from) did not end within 1.5 s: does its file system answer?");
  EXPECT_TRUE(given_up.undecided());
  EXPECT_THAT(AwaitChildren(1), SizeIs(1)) << "that one is gone";
}

TEST_F(DataCheckerTest, AProcessThatStandsStillIsReplaced) {
  Start(1, 5);
  checker_->Check(Request("first"));
  EXPECT_EQ(Result("first").dataset_size(), 1);
  const std::vector<pid_t> children = AwaitChildren(1);
  ASSERT_THAT(children, SizeIs(1));
  kill(children[0], SIGSTOP);
  checker_->Check(Request("second"));
  EXPECT_EQ(Result("second").error(), "the check did not end within 5 s");
  EXPECT_TRUE(Result("second").undecided());
  checker_->Check(Request("third"));
  EXPECT_EQ(Result("third").dataset_size(), 1);
  EXPECT_NE(AwaitChildren(1), children);
}

TEST_F(DataCheckerTest, AProcessThatDiesTakesOnlyItsCheckWithIt) {
  HeldFile hangs(root_ + "/w.safetensors");
  ASSERT_TRUE(hangs.ok());
  Start(1, 20);
  checker_->Check(Weights("dies", "w.safetensors"));
  const std::vector<pid_t> children = AwaitChildren(1);
  ASSERT_THAT(children, SizeIs(1));
  for (Deadline deadline = Within(20); !hangs.IsWaitedFor() && !deadline.Expired();) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  kill(children[0], SIGKILL);
  EXPECT_EQ(Result("dies").error(),
            "reading 'w.safetensors' (weights.init_from) failed: its process was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(Result("dies").undecided());
  checker_->Check(Request("good"));
  EXPECT_EQ(Result("good").dataset_size(), 1);
}

TEST_F(DataCheckerTest, ACheckThatNobodyWaitsForMakesRoom) {
  HeldFile hangs(root_ + "/w.safetensors");
  ASSERT_TRUE(hangs.ok());
  Start(1, 40);
  checker_->Check(Weights("hangs", "w.safetensors"));
  ASSERT_THAT(AwaitChildren(1), SizeIs(1));
  checker_->Check(Request("waits"));
  checker_->Check(Request("next"));
  checker_->Cancel("waits");
  checker_->Cancel("unknown");
  checker_->Cancel("hangs");
  EXPECT_EQ(Result("next").dataset_size(), 1);
  EXPECT_FALSE(Has("waits"));
  EXPECT_FALSE(Has("hangs"));
}

TEST_F(DataCheckerTest, ACheckThatCannotBeginInTimeIsUndecided) {
  HeldFile hangs(root_ + "/w.safetensors");
  ASSERT_TRUE(hangs.ok());
  Start(1, 1);
  checker_->Check(Weights("hangs", "w.safetensors"));
  checker_->Check(Request("late"));
  EXPECT_EQ(Result("late").error(), "the check did not begin within 1 s: 1 others are under way there");
  EXPECT_TRUE(Result("late").undecided());
}

TEST_F(DataCheckerTest, NothingIsCheckedWhileTooManyAreLeftBehind) {
  Start(1, 20, /*most_abandoned=*/8, /*most_in_all=*/0);
  checker_->Check(Request("good"));
  EXPECT_TRUE(Result("good").undecided());
  EXPECT_THAT(Result("good").error(), HasSubstr("wait for file systems that do not answer"));
}

TEST_F(DataCheckerTest, AFileSystemThatDoesNotAnswerStopsTheChecksOfItsOwnFilesOnly) {
  std::filesystem::create_directories(root_ + "/dead");
  DeadFileSystem dead(root_ + "/dead");
  if (!dead.ok()) GTEST_SKIP() << DeadFileSystem::kNeeds;
  Start(2, 5, /*most_abandoned=*/2);
  for (const char* id : {"first", "second"}) {
    checker_->Check(Request(id, absl::StrCat("dead/", id)));
    EXPECT_TRUE(Result(id).undecided());
    EXPECT_EQ(Result(id).error(), absl::StrCat("reading 'dead/", id,
                                               "' (data set 'train', field 'label') did not end within 5 s: does its "
                                               "file system answer?"));
  }
  EXPECT_THAT(Children(), SizeIs(2)) << "they do not die";
  checker_->Check(Request("third", "dead/third"));
  EXPECT_TRUE(Result("third").undecided());
  EXPECT_EQ(Result("third").error(), absl::StrCat("2 earlier checks there still wait for the file system at ", root_,
                                                  "/dead, which does not answer"));
  checker_->Check(Weights("weights", "dead/w.safetensors"));
  EXPECT_THAT(Result("weights").error(), HasSubstr("which does not answer"));
  for (const char* id : {"good", "better"}) {
    checker_->Check(Request(id));
    EXPECT_EQ(Result(id).dataset_size(), 1) << Result(id).error();
  }

  dead.End();
  const Deadline deadline = Within(20);
  std::string error = "which does not answer";
  for (int i = 0; absl::StrContains(error, "which does not answer") && !deadline.Expired(); ++i) {
    checker_->Check(Request(absl::StrCat("again-", i), "dead/again"));
    error = Result(absl::StrCat("again-", i)).error();
  }
  EXPECT_THAT(error, HasSubstr("no such file")) << "it is a folder again, and those that waited are reaped";
}

TEST_F(DataCheckerTest, EndsAtOnceWhileAFileHangs) {
  HeldFile hangs(root_ + "/w.safetensors");
  ASSERT_TRUE(hangs.ok());
  Start(4, 40);
  checker_->Check(Weights("hangs", "w.safetensors"));
  ASSERT_THAT(AwaitChildren(1), SizeIs(1));
  const absl::Time begin = absl::Now();
  checker_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  EXPECT_THAT(AwaitChildren(0), IsEmpty());
}

TEST_F(DataCheckerTest, SmallChecksCostLittle) {
  Start(4, 40);
  constexpr int kChecks = 1000;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kChecks; ++i) {
    if (i >= 200) Result(absl::StrCat(i - 200));  // so many wait at most
    checker_->Check(Request(absl::StrCat(i)));
  }
  for (int i = 0; i < kChecks; ++i) EXPECT_EQ(Result(absl::StrCat(i)).dataset_size(), 1) << i;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  std::cout << kChecks / seconds << " checks a second, with the start of each process\n";
  EXPECT_LT(seconds, 30);
}

// A process that does not die of SIGKILL is one that nobody has sent it to yet.
TEST(AbandonedProcessesTest, CountsThoseThatLive) {
  SpawnRequest request;
  request.binary = "/bin/sleep";
  request.arguments = {"1000"};
  AbandonedProcesses abandoned;
  std::vector<pid_t> pids;
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<ChildProcess> child = Spawn(request);
    ASSERT_TRUE(child.ok()) << child.status();
    pids.push_back(child->pid);
    abandoned.Add(*std::move(child), i == 0 ? "/srv/data" : "/");
  }
  EXPECT_THAT(abandoned.Count(), ElementsAre(Pair("/", 1), Pair("/srv/data", 1)));
  kill(pids[0], SIGKILL);
  for (Deadline deadline = Within(20); abandoned.Count().size() != 1 && !deadline.Expired();)
    absl::SleepFor(absl::Milliseconds(2));
  EXPECT_THAT(abandoned.Count(), ElementsAre(Pair("/", 1)));
  EXPECT_EQ(waitpid(pids[0], nullptr, WNOHANG), -1) << "it is reaped";
  kill(pids[1], SIGKILL);
}

// A lock that one thread holds at another's fork is never released in the child: glibc 2.41 has one in sigaction.
TEST(ProcessSpawnerTest, StartsProgramsOnManyThreadsAtOnce) {
  SpawnRequest request;
  request.binary = "/bin/true";
  const auto start_some = [&request]() -> absl::Status {
    for (int round = 0; round < 100; ++round) {
      const absl::StatusOr<ChildProcess> child = Spawn(request);
      if (!child.ok()) return child.status();
      int status = -1;
      if (waitpid(child->pid, &status, 0) != child->pid || status != 0) return absl::InternalError("it failed");
    }
    return absl::OkStatus();
  };
  std::vector<absl::Status> results(8);
  std::vector<std::thread> threads;
  for (absl::Status& result : results) threads.emplace_back([&] { result = start_some(); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST(ProcessSpawnerTest, NamesTheFolderOrTheProgramThatIsGone) {
  SpawnRequest request;
  request.binary = "/bin/sleep";
  request.folder = "/nowhere/link";
  EXPECT_EQ(Spawn(request).status().message(),
            "/bin/sleep's working directory /nowhere/link cannot be entered: No such file or directory");
  request.binary = "/nowhere/adjoin-rank";
  request.folder.clear();
  EXPECT_EQ(Spawn(request).status().message(), "/nowhere/adjoin-rank cannot be run: No such file or directory");
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (adjoin::IsDataCheckCommand(argc, argv)) return adjoin::RunDataCheckCommand(argc, argv);
  signal(SIGPIPE, SIG_IGN);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
