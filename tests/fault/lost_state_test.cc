// A coordinator whose state is damaged, cut, put back or gone, beside daemons that live on: it says so and does not
// start, or goes on as it was told to, and every new job runs within seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kExitStateRefused = 3;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

uint32_t BigEndian(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// The bytes of a write-ahead log that count: the frames with the salts of its header. Others are left over from before
// the log began anew (https://www.sqlite.org/fileformat2.html#walformat); SQLite does not read them.
size_t LiveBytes(const std::string& log) {
  constexpr size_t kHeader = 32, kFrameHeader = 24, kPageSizeAt = 8, kSaltsAt = 16, kFrameSaltsAt = 8, kSalts = 8;
  const size_t frame = kFrameHeader + BigEndian(log, kPageSizeAt);
  size_t end = kHeader;
  while (end + frame <= log.size() && log.compare(end + kFrameSaltsAt, kSalts, log, kSaltsAt, kSalts) == 0)
    end += frame;
  return end;
}

class LostStateTest : public ::testing::Test {
 protected:
  void Start(int nodes, int slots) {
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    auto started = LocalCluster::Start(nodes, slots, options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  std::string Path(const std::string& name) const { return absl::StrCat(cluster_->coordinator_state(), "/", name); }
  std::string Submit(const std::string& kind, int ranks = 1) {
    auto job = cluster_->Submit(FakeJob(kind, ranks));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or("");
  }
  // A job that is submitted now ends within seconds; a busy machine takes longer.
  std::string RunsAtOnce() {
    const std::string job = Submit("succeed");
    const auto end = cluster_->WaitFor(job, Within(60));
    EXPECT_TRUE(end.ok()) << end.status();
    if (end.ok()) {
      EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
      EXPECT_EQ(end->restarts_counted(), 0);
    }
    return job;
  }
  void RunUntilStep(const std::string& job) {
    auto running = cluster_->WaitUntil(
        job, [](const JobSummary& s) { return s.progress().step() >= 3; }, Within(30));
    ASSERT_TRUE(running.ok()) << running.status();
  }
  std::string Errors() const { return ReadFile(cluster_->folder() + "/coordinator-log.err"); }
  // A start is refused, with exit code 3, and these words.
  void ExpectRefused(const std::string& words) {
    const absl::Status refused = cluster_->StartCoordinator();
    ASSERT_FALSE(refused.ok()) << "it starts without a word";
    EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(words), HasSubstr("--accept-loss")));
    const auto code = cluster_->WaitForCoordinatorEnd(Within(1));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, kExitStateRefused);
  }
  void StartAgain(const std::vector<std::string>& flags = {}) {
    const absl::Status started = cluster_->StartCoordinator(flags);
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_EQ(cluster_->WaitForWorkers(Within(20)), absl::OkStatus());
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(LostStateTest, ALogThatIsGoneIsMissedAndWhatIsLeftGoesOnWhenToldTo) {
  Start(1, 4);
  const std::string runs = Submit("steps-100000x5ms");
  RunUntilStep(runs);
  for (int i = 0; i < 3; ++i) Submit("hang-" + std::to_string(i));
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  fs::remove(Path("adjoin.db-wal"));
  ExpectRefused("commits are missing");
  ExpectRefused("commits are missing");  // and again: nothing was changed
  StartAgain({"--accept-loss"});
  const std::string job = RunsAtOnce();
  EXPECT_GT(std::stoi(job.substr(4)), 1000) << "numbers are never given again";
  EXPECT_THAT(Errors(), HasSubstr("--accept-loss: the store goes on without what is missing"));
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(20)), absl::OkStatus()) << "what ran for the lost state has ended";
  EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  StartAgain();
}

TEST_F(LostStateTest, ALogThatIsDamagedIsNoticed) {
  Start(1, 2);
  for (int i = 0; i < 6; ++i) RunsAtOnce();
  // A commit that is not in the journal yet when the coordinator is killed may be missing without a word.
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  const std::string log = ReadFile(Path("adjoin.db-wal"));
  const size_t live = LiveBytes(log);
  ASSERT_GT(live, 10000);
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 6; ++round) {
    std::string damaged = log;
    const size_t at = random() % (live - live / 4);  // before the last commits
    if (round % 3 == 0) damaged[at] ^= 4;
    if (round % 3 == 1) damaged.replace(at, std::min<size_t>(4096, log.size() - at), 4096, 'x');
    if (round % 3 == 2) damaged.resize(at);
    std::ofstream(Path("adjoin.db-wal"), std::ios::binary | std::ios::trunc) << damaged;
    ExpectRefused("adjoin.db");
    if (HasFailure()) FAIL() << "round " << round << " of seed " << seed;
  }
  std::ofstream(Path("adjoin.db-wal"), std::ios::binary | std::ios::trunc) << log;
  StartAgain();
  EXPECT_EQ(cluster_->ListJobs()->job_size(), 6) << "the right file in its place is the way out";
}

// What docs/failures.md tells to do, as a user does it.
TEST_F(LostStateTest, ABackupIsRestoredBesideLivingDaemonsAsTheManualTells) {
  Start(2, 2);
  RunsAtOnce();
  const auto shell = [&](const std::string& command) {
    const std::string text =
        absl::StrReplaceAll(command, {{"/var/lib/adjoin-coordinator", cluster_->coordinator_state()},
                                      {"/backup", cluster_->folder()},
                                      {"/etc/adjoin", cluster_->folder()}});
    return system(text.c_str());
  };
  const std::string manual = ReadFile(Runfile("docs/failures.md"));
  const std::string backup = "cp --preserve /var/lib/adjoin-coordinator/adjoin.db /backup/adjoin.db";
  const std::string aside = "mv /var/lib/adjoin-coordinator/adjoin.db /var/lib/adjoin-coordinator/adjoin.db.bad";
  const std::string log = "rm -f /var/lib/adjoin-coordinator/adjoin.db-wal";
  const std::string restore = "cp --preserve /backup/adjoin.db /var/lib/adjoin-coordinator/adjoin.db";
  const std::string accept = "echo 'accept-loss = true' >> /etc/adjoin/coordinator.conf";
  const std::string forget = "sed -i '/^accept-loss/d' /etc/adjoin/coordinator.conf";
  for (const std::string& command : {backup, aside, log, restore, accept, forget})
    EXPECT_THAT(manual, HasSubstr(command));

  const std::string kept = Submit("hang-of-the-backup");
  ASSERT_EQ(cluster_->Cli({"token", "create", "alice"}).exit_code, 0);
  ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());
  ASSERT_EQ(shell(backup), 0);
  StartAgain();
  const std::string lost = Submit("steps-100000x5ms");
  RunUntilStep(lost);
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  for (const std::string& command : {aside, log, restore}) ASSERT_EQ(shell(command), 0) << command;
  ExpectRefused("commits are missing");
  ASSERT_EQ(shell(accept), 0);
  StartAgain({"--config", cluster_->folder() + "/coordinator.conf"});
  ASSERT_EQ(shell(forget), 0);
  const std::string job = RunsAtOnce();
  EXPECT_NE(job, lost);
  EXPECT_FALSE(cluster_->Describe(lost).ok());
  EXPECT_THAT(Errors(), HasSubstr("1 tokens of users are in the store; those that were revoked in the time that is "
                                  "missing count again"));
  const LocalCluster::CliResult events = cluster_->Cli({"events", kept});
  EXPECT_THAT(events.out, HasSubstr("went on without what was missing"));
  EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
}

// The whole folder put back, with its journal: no file shows it, but the daemons do.
TEST_F(LostStateTest, AWholeFolderThatWasPutBackIsNoticedByWhatDaemonsHaveSeen) {
  Start(1, 2);
  RunsAtOnce();
  ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());
  const std::string copy = cluster_->folder() + "/copy";
  fs::copy(cluster_->coordinator_state(), copy, fs::copy_options::recursive);
  StartAgain();
  for (int i = 0; i < 3; ++i) RunsAtOnce();
  ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());
  fs::remove_all(cluster_->coordinator_state());
  fs::copy(copy, cluster_->coordinator_state(), fs::copy_options::recursive);
  StartAgain();
  EXPECT_GT(std::stoi(RunsAtOnce().substr(4)), 1000);
  EXPECT_THAT(Errors(), HasSubstr("the store is older than it was"));
}

TEST_F(LostStateTest, AnEmptyStateBesideALivingDaemonRunsItsFirstJob) {
  Start(1, 2);
  const std::string old = Submit("steps-100000x5ms");  // job-1, attempt 1, and so is the next one
  RunUntilStep(old);
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  fs::remove_all(cluster_->coordinator_state());
  StartAgain();
  EXPECT_EQ(RunsAtOnce(), old);
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(20)), absl::OkStatus());
  EXPECT_THAT(ReadFile(cluster_->folder() + "/worker-0-log.err"), HasSubstr("the coordinator has another store"));
}

TEST_F(LostStateTest, ARowThatCannotBeWrittenFailsItsJobOnly) {
  Start(1, 2);
  ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(Path("adjoin.db").c_str(), &database), SQLITE_OK);
  // The store refuses what it is told about jobs of these names: at once, and when they run.
  ASSERT_EQ(sqlite3_exec(database,
                         "CREATE TRIGGER refuse_some BEFORE INSERT ON jobs WHEN new.name = 'succeed-never' OR "
                         "(new.name = 'steps-100000x5ms' AND new.state = 3) BEGIN SELECT RAISE(ABORT, 'by the test'); "
                         "END",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  StartAgain();
  const auto refused = cluster_->Submit(FakeJob("succeed-never", 1));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("cannot be stored"));
  const std::string fails = Submit("steps-100000x5ms");
  const std::string other = Submit("succeed");
  const auto failed = cluster_->WaitFor(fails, Within(20));
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->state(), FAILED);
  EXPECT_THAT(failed->reason(), HasSubstr("its state cannot be stored"));
  const auto end = cluster_->WaitFor(other, Within(20));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  RunsAtOnce();
  EXPECT_THAT(Errors(), Not(HasSubstr("submitted: succeed-never")));
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(20)), absl::OkStatus());
}

TEST_F(LostStateTest, AStoreThatIsDamagedWhileItIsUsedEndsTheCoordinator) {
  Start(1, 2);
  // More than SQLite keeps in memory.
  const std::string comment = "# " + std::string(200000, 'c') + "\n";
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(cluster_->Submit(FakeJob("succeed", 1, comment)).ok());
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(20)), absl::OkStatus());
  RunsAtOnce();
  ASSERT_EQ(cluster_->StopCoordinator(), absl::OkStatus());  // all is in adjoin.db
  StartAgain();
  {
    std::fstream file(Path("adjoin.db"), std::ios::binary | std::ios::in | std::ios::out);
    file << std::string(fs::file_size(Path("adjoin.db")), 'x');
  }
  // Its pages are read anew sooner or later; until then it works.
  const Deadline deadline = Within(30);
  absl::StatusOr<int> code = absl::DeadlineExceededError("");
  while (!code.ok() && !deadline.Expired()) {
    cluster_->Cli({"events", "job-1"});
    code = cluster_->WaitForCoordinatorEnd(Within(0.05));
    if (!code.ok()) cluster_->Submit(FakeJob("succeed", 1)).status().IgnoreError();
  }
  ASSERT_TRUE(code.ok()) << "it goes on with a store that is damaged";
  EXPECT_EQ(*code, kExitStateRefused);
  EXPECT_THAT(Errors(), HasSubstr("error: the store is damaged"));
  ExpectRefused("is damaged");
}

}  // namespace
}  // namespace adjoin
