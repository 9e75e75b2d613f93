#include "coordinator/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/age_clock.h"
#include "coordinator/store/sql_statement.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() { Remove(); }
  void Remove() const {
    for (const char* end : {".db", ".db-wal", ".journal"}) std::filesystem::remove_all(base_ + end);
  }
  std::unique_ptr<Store> Open() {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  static StoredState Load(Store& store) {
    absl::StatusOr<StoredState> state = store.Load();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *std::move(state) : StoredState();
  }
  // A submitted job with an event.
  static StoreChanges Submission(uint64_t number, const std::string& name, const std::string& key = "") {
    StoreChanges changes;
    StoredSubmission submission;
    submission.set_job(number);
    submission.mutable_spec()->set_name(name);
    changes.submissions.push_back(submission);
    StoredJob job;
    job.set_number(number);
    job.set_name(name);
    job.set_idempotency_key(key);
    job.set_state(PENDING);
    changes.jobs.push_back(job);
    JobEvent event;
    event.set_sequence(10 * number);
    event.set_job_id(absl::StrCat("job-", number));
    event.set_kind("submitted");
    changes.events.push_back(event);
    return changes;
  }

  const std::string base_ = ::testing::TempDir() + "/store-test";
  const std::string path_ = base_ + ".db";
};

TEST_F(StoreTest, AppliedRowsAreThereAfterOpeningAgain) {
  {
    auto store = Open();
    EXPECT_THAT(Load(*store).jobs, IsEmpty());
    StoreChanges changes = Submission(3, "net");
    StoredAttempt attempt;
    attempt.set_job(3);
    attempt.set_epoch(7);
    attempt.add_rank()->set_worker("worker-0");
    changes.attempts.push_back(attempt);
    attempt.set_epoch(9);
    changes.attempts.push_back(attempt);
    StoredPlan plan;
    plan.set_job(3);
    plan.set_plan(std::string("a\0b", 3));
    changes.plans.push_back(plan);
    changes.last_epoch = 9;
    ASSERT_EQ(store->Apply(changes), absl::OkStatus());
  }
  auto store = Open();
  const StoredState state = Load(*store);
  ASSERT_THAT(state.jobs, SizeIs(1));
  EXPECT_EQ(state.jobs[0].name(), "net");
  EXPECT_EQ(state.submissions.at(3).spec().name(), "net");
  EXPECT_EQ(state.attempts.at(3).epoch(), 9);
  EXPECT_EQ(state.last_epoch, 9);
  EXPECT_EQ(state.last_job, 3);
  EXPECT_EQ(state.last_event, 30);
  EXPECT_EQ(store->Plan(3).value_or(""), std::string("a\0b", 3));
  EXPECT_EQ(store->Plan(4).status().code(), absl::StatusCode::kNotFound);
  auto events = store->Events("job-3", 0, 10);
  ASSERT_TRUE(events.ok());
  ASSERT_THAT(*events, SizeIs(1));
  EXPECT_EQ((*events)[0].kind(), "submitted");
  EXPECT_THAT(*store->Events("job-3", 30, 10), IsEmpty());
}

TEST_F(StoreTest, EachStoreHasItsOwnId) {
  const uint64_t id = Load(*Open()).store_id;
  EXPECT_EQ(Load(*Open()).store_id, id);
  Remove();
  EXPECT_NE(Load(*Open()).store_id, id);
}

TEST_F(StoreTest, AnOlderSchemaIsMigrated) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  sqlite3_exec(database, R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (number INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, state INTEGER NOT NULL,
                   idempotency_key TEXT NOT NULL, record BLOB NOT NULL);
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key <> '';
CREATE TABLE submissions (job INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE plans (job INTEGER PRIMARY KEY, plan BLOB NOT NULL);
CREATE TABLE attempts (epoch INTEGER PRIMARY KEY, job INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX attempts_by_job ON attempts (job);
CREATE TABLE events (sequence INTEGER PRIMARY KEY, job INTEGER NOT NULL, epoch INTEGER NOT NULL,
                     unix_ms INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX events_by_job ON events (job, sequence);
CREATE TABLE tokens (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('last_job', 7), ('store_id', 77);
INSERT INTO events VALUES (3, 7, 0, 1000, 'submitted', 'net');
PRAGMA user_version = 3;
)",
               nullptr, nullptr, &error);
  ASSERT_EQ(error, nullptr) << error;
  {
    StoredJob job;
    job.set_number(7);
    SqlStatement insert(database, "INSERT INTO jobs VALUES (7, 'net', '', 1, '', ?)");
    ASSERT_EQ(insert.Bind(SqlStatement::Blob{job.SerializeAsString()}).Run(), absl::OkStatus());
  }
  sqlite3_close(database);
  for (int i = 0; i < 2; ++i) {
    auto store = Open();
    const StoredState state = Load(*store);
    EXPECT_EQ(state.store_id, 77);
    EXPECT_EQ(state.last_job, 7);
    ASSERT_THAT(state.jobs, SizeIs(1));
    // As worker/checkpoint names the checkpoints of a job that has no tag (checkpoint_resume_test.cc).
    EXPECT_EQ(state.jobs[0].tag(), 5088426236128474512u);
    EXPECT_THAT(*store->Events("job-7", 0, 10), SizeIs(1));
  }
}

TEST_F(StoreTest, LaterRowsReplaceEarlierOnesAndNumbersAreNeverGivenAgain) {
  auto store = Open();
  ASSERT_EQ(store->Apply(Submission(1, "a")), absl::OkStatus());
  ASSERT_EQ(store->Apply(Submission(2, "b")), absl::OkStatus());
  StoreChanges changes;
  StoredJob job;
  job.set_number(1);
  job.set_state(FAILED);
  changes.jobs.push_back(job);
  changes.forgotten.push_back(2);
  ASSERT_EQ(store->Apply(changes), absl::OkStatus());
  const StoredState state = Load(*store);
  ASSERT_THAT(state.jobs, SizeIs(1));
  EXPECT_EQ(state.jobs[0].state(), FAILED);
  EXPECT_EQ(state.last_job, 2);
  EXPECT_THAT(*store->Events("job-2", 0, 10), IsEmpty());
}

TEST_F(StoreTest, ApplyWritesAllRowsOrNone) {
  auto store = Open();
  ASSERT_EQ(store->Apply(Submission(1, "a")), absl::OkStatus());
  StoreChanges changes = Submission(2, "b");
  changes.Append(Submission(3, "c"));
  changes.events.back().set_sequence(10);  // taken: the history is only appended to
  EXPECT_EQ(store->Apply(changes).code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Load(*store).jobs, SizeIs(1));
  changes.events.back().set_sequence(30);
  EXPECT_EQ(store->Apply(changes), absl::OkStatus());
  EXPECT_THAT(Load(*store).jobs, SizeIs(3));
}

TEST_F(StoreTest, RowsThatLaterOnesReplaceAreDroppedBeforeTheyAreWritten) {
  StoreChanges changes = Submission(1, "a");
  for (int i = 0; i < 50; ++i) {
    StoreChanges later = Submission(1, absl::StrCat("a", i));
    later.Append(Submission(2, absl::StrCat("b", i)));
    for (const uint64_t epoch : {7, 8}) {
      later.attempts.emplace_back().set_epoch(epoch);
      later.attempts.back().set_job(1);
      later.attempts.back().set_reason(absl::StrCat("reason ", i));
    }
    changes.Append(std::move(later));
    changes.DropReplaced();
  }
  ASSERT_THAT(changes.jobs, SizeIs(2));
  EXPECT_EQ(changes.jobs[0].name(), "a49");
  EXPECT_EQ(changes.jobs[1].name(), "b49");
  ASSERT_THAT(changes.attempts, SizeIs(2));
  EXPECT_EQ(changes.attempts[1].epoch(), 8);
  EXPECT_EQ(changes.attempts[1].reason(), "reason 49");
  EXPECT_THAT(changes.events, SizeIs(101)) << "the history is kept whole";
}

TEST_F(StoreTest, KeepsTheNewestAttemptOfEachJob) {
  auto store = Open();
  ASSERT_EQ(store->Apply(Submission(1, "a")), absl::OkStatus());
  ASSERT_EQ(store->Apply(Submission(2, "b")), absl::OkStatus());
  for (uint64_t epoch = 1; epoch <= 20; ++epoch) {
    StoreChanges changes;
    changes.attempts.emplace_back().set_epoch(epoch);
    changes.attempts.back().set_job(1 + epoch % 2);
    ASSERT_EQ(store->Apply(changes), absl::OkStatus());
  }
  const StoredState state = Load(*store);
  EXPECT_EQ(state.attempts.at(1).epoch(), 20);
  EXPECT_EQ(state.attempts.at(2).epoch(), 19);
  store.reset();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  {
    SqlStatement count(database, "SELECT count(*) FROM attempts");
    ASSERT_TRUE(count.Next());
    EXPECT_EQ(count.Integer(0), 2);
  }
  sqlite3_close(database);
}

TEST_F(StoreTest, WithdrawnJobsLeaveNoRow) {
  StoreChanges changes = Submission(1, "a");
  changes.Append(Submission(2, "b"));
  changes.Withdraw({1});
  ASSERT_THAT(changes.jobs, SizeIs(1));
  EXPECT_EQ(changes.jobs[0].number(), 2);
  EXPECT_THAT(changes.events, SizeIs(1));
  changes.Withdraw({2});
  EXPECT_TRUE(changes.empty());
}

TEST_F(StoreTest, KeysAndFoldersOutliveTheirJobAndTheLastRowCounts) {
  {
    auto store = Open();
    StoreChanges changes = Submission(3, "net");
    changes.keys = {{"alice", "nightly", 3, std::string("h\0sh", 4), 77}, {"alice", "gone", 4, "x", 78}};
    changes.folders = {{"a/b/", "alice", 3}, {"a/c/", "alice", 4}};
    ASSERT_EQ(store->Apply(changes), absl::OkStatus());
    StoreChanges later;
    later.forgotten = {3};
    later.keys = {{"alice", "gone", 0, "", 0}, {"bob", "nightly", 5, "y", 79}, {"bob", "brief", 6, "z", 80}};
    later.keys.push_back({"bob", "brief", 0, "", 0});
    later.folders = {{"a/c/", "alice", 0}, {"a/b/", "alice", 5}};
    ASSERT_EQ(store->Apply(later), absl::OkStatus());
  }
  auto store = Open();
  const StoredState state = Load(*store);
  EXPECT_THAT(state.jobs, IsEmpty());
  ASSERT_THAT(state.keys, SizeIs(2));
  EXPECT_EQ(state.keys[0].owner, "alice");
  EXPECT_EQ(state.keys[0].key, "nightly");
  EXPECT_EQ(state.keys[0].job, 3);
  EXPECT_EQ(state.keys[0].spec_hash, std::string("h\0sh", 4));
  EXPECT_EQ(state.keys[0].unix_ms, 77);
  EXPECT_EQ(state.keys[1].owner, "bob");
  ASSERT_THAT(state.folders, SizeIs(1));
  EXPECT_EQ(state.folders[0].folder, "a/b/");
  EXPECT_EQ(state.folders[0].owner, "alice");
  EXPECT_EQ(state.folders[0].job, 5);
}

TEST_F(StoreTest, TheLastAgeMarkIsKeptAlsoWhereItsWallClockWasSetBack) {
  const absl::Time time = absl::FromUnixMillis(1700000000123);
  EXPECT_FALSE(Load(*Open()).age.has_value());
  uint64_t job = 0;
  for (const AgeMark& mark : {AgeMark{time, time}, AgeMark{time + absl::Hours(1), time - absl::Hours(7)}}) {
    {
      auto store = Open();
      StoreChanges earlier, changes = Submission(++job, "net");
      earlier.age = AgeMark{time, time};
      changes.age = mark;
      EXPECT_FALSE(earlier.empty());
      earlier.Append(std::move(changes));
      earlier.Append(StoreChanges());
      ASSERT_EQ(store->Apply(earlier), absl::OkStatus());
    }
    const StoredState state = Load(*Open());
    ASSERT_TRUE(state.age.has_value());
    EXPECT_EQ(state.age->age, mark.age);
    EXPECT_EQ(state.age->wall, mark.wall);
  }
}

TEST_F(StoreTest, OneProcessAtATimeOpensTheFileAndOnlyItsOwnerMayReadIt) {
  auto store = Open();
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  absl::StatusOr<std::unique_ptr<Store>> second = Store::Open(path_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process uses this store"));
}

TEST_F(StoreTest, ANewerSchemaAndADamagedFileAreRefused) {
  { auto store = Open(); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "PRAGMA user_version = 99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  EXPECT_THAT(std::string(Store::Open(path_).status().message()), HasSubstr("schema version 99"));
  Remove();
  std::ofstream(path_) << std::string(8192, 'x');
  EXPECT_EQ(Store::Open(path_).status().code(), absl::StatusCode::kDataLoss);
}

// The file of a process that was killed while it wrote holds whole transactions only, each that was acknowledged
// among them.
TEST_F(StoreTest, AKilledWriterLosesNothingThatItAcknowledged) {
  int acknowledged[2];
  ASSERT_EQ(pipe(acknowledged), 0);
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path_);
    for (uint64_t number = 1; store.ok(); ++number) {
      StoreChanges changes = Submission(2 * number, "a");
      changes.Append(Submission(2 * number + 1, "b"));
      if (!(*store)->Apply(changes).ok()) _exit(1);
      if (write(acknowledged[1], &number, sizeof(number)) < 0) _exit(1);
    }
    _exit(1);
  }
  close(acknowledged[1]);
  uint64_t last = 0;
  while (last < 20 && read(acknowledged[0], &last, sizeof(last)) == sizeof(last)) {
  }
  kill(child, SIGKILL);
  for (uint64_t more = 0; read(acknowledged[0], &more, sizeof(more)) == sizeof(more);) last = more;
  waitpid(child, nullptr, 0);
  close(acknowledged[0]);
  auto store = Open();
  const StoredState state = Load(*store);
  EXPECT_GE(last, 20);
  EXPECT_GE(state.jobs.size(), 2 * last);
  EXPECT_EQ(state.jobs.size() % 2, 0);
  EXPECT_EQ(state.last_job, state.jobs.back().number());
}

TEST_F(StoreTest, KeepsTokens) {
  auto store = Open();
  StoredToken token;
  token.mutable_summary()->set_id("t1");
  token.set_sha256("hash");
  ASSERT_EQ(store->PutToken(token), absl::OkStatus());
  ASSERT_THAT(*store->Tokens(), SizeIs(1));
  EXPECT_EQ((*store->Tokens())[0].sha256(), "hash");
  ASSERT_EQ(store->EraseToken("t1"), absl::OkStatus());
  EXPECT_THAT(*store->Tokens(), IsEmpty());
}

TEST_F(StoreTest, KeepsWhatNodesJoinWithAndWhatTheyHaveGot) {
  NodeChanges changes;
  for (const char* id : {"t1", "t2"}) {
    StoredJoinToken& token = changes.tokens.emplace_back();
    token.mutable_summary()->set_id(id);
    token.mutable_summary()->set_uses_left(3);
    token.set_sha256("hash");
    StoredCertificate& certificate = changes.certificates.emplace_back();
    certificate.set_serial(absl::StrCat("5", id));
    certificate.set_node("node-1");
  }
  StoredRevokedNode& revoked = changes.revoked.emplace_back();
  revoked.set_node("node-2");
  revoked.set_revoked_unix_ms(7);
  ASSERT_EQ(Open()->ApplyNodes(changes), absl::OkStatus());
  NodeChanges later;
  later.tokens.push_back(changes.tokens[0]);
  later.tokens[0].mutable_summary()->set_uses_left(2);
  later.erased_tokens = {"t2"};
  later.erased_certificates = {"5t1"};
  ASSERT_EQ(Open()->ApplyNodes(later), absl::OkStatus());
  auto store = Open();
  const auto nodes = store->Nodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_THAT(nodes->tokens, SizeIs(1));
  EXPECT_EQ(nodes->tokens[0].summary().uses_left(), 2);
  ASSERT_THAT(nodes->certificates, SizeIs(1));
  EXPECT_EQ(nodes->certificates[0].serial(), "5t2");
  ASSERT_THAT(nodes->revoked, SizeIs(1));
  EXPECT_EQ(nodes->revoked[0].revoked_unix_ms(), 7);
}

// Version 5 has a journal and checksums, and none of the tables of nodes.
TEST_F(StoreTest, AStoreFromBeforeNodesJoinedIsMigratedWithItsHistory) {
  {
    auto store = Open();
    StoredToken token;
    token.mutable_summary()->set_id("t1");
    ASSERT_EQ(store->PutToken(token), absl::OkStatus());
  }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database,
                         "DROP TABLE join_tokens; DROP TABLE certificates; DROP TABLE revoked_nodes; "
                         "PRAGMA user_version = 5",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  for (int i = 0; i < 2; ++i) {
    auto store = Open();
    EXPECT_THAT(*store->Tokens(), SizeIs(1));
    ASSERT_TRUE(store->Nodes().ok()) << store->Nodes().status();
    EXPECT_THAT(store->Nodes()->tokens, IsEmpty());
    StoredRevokedNode row;
    row.set_node(absl::StrCat("node-", i));
    NodeChanges changes;
    changes.revoked.push_back(row);
    ASSERT_EQ(store->ApplyNodes(changes), absl::OkStatus());
    EXPECT_THAT(store->Nodes()->revoked, SizeIs(i + 1));
  }
}

TEST_F(StoreTest, ErrorsTellWhetherAnotherTryMaySucceed) {
  std::unique_ptr<Store> store = Open();
  ASSERT_EQ(store->Apply(Submission(1, "net")), absl::OkStatus());
  const absl::Status twice = store->Apply(Submission(1, "net"));
  EXPECT_EQ(twice.code(), absl::StatusCode::kInternal) << twice;
  EXPECT_THAT(std::string(twice.message()), HasSubstr("UNIQUE constraint failed: events.sequence"));

  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 1000);
  {
    SqlStatement select(database, "SELECT ?");
    const std::string large(2000, 'x');
    const absl::Status refused = select.Bind(SqlStatement::Blob{large}).Run();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("too large for the store"));
    sqlite3_exec(database, "PRAGMA max_page_count = 2; CREATE TABLE t (x)", nullptr, nullptr, nullptr);
    SqlStatement insert(database,
                        "INSERT INTO t VALUES (zeroblob(900)), (zeroblob(900)), (zeroblob(900)), (zeroblob(900)),"
                        " (zeroblob(900)), (zeroblob(900))");
    const absl::Status full = insert.Run();
    EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable) << full;
  }
  sqlite3_close(database);
}

}  // namespace
}  // namespace adjoin
