#include "coordinator/store/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/store/sql_statement.h"

namespace adjoin {
namespace {

// Statements that lead from version i to version i + 1. Only ever appended to.
constexpr const char* kMigrations[] = {
    R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (number INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, state INTEGER NOT NULL,
                   idempotency_key TEXT NOT NULL, record BLOB NOT NULL);
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key <> '';
CREATE TABLE submissions (job INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE plans (job INTEGER PRIMARY KEY, plan BLOB NOT NULL);
CREATE TABLE attempts (epoch INTEGER PRIMARY KEY, job INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX attempts_by_job ON attempts (job);
CREATE TABLE events (sequence INTEGER PRIMARY KEY, job INTEGER NOT NULL, epoch INTEGER NOT NULL, unix_ms INTEGER NOT NULL,
                     kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX events_by_job ON events (job, sequence);
CREATE TABLE workers (name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tokens (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
)",
    "INSERT INTO meta VALUES ('store_id', random())",
    // Never read: a daemon names itself when it connects.
    "DROP TABLE IF EXISTS workers"};
constexpr int kVersion = std::size(kMigrations);

absl::Status Execute(sqlite3* database, const std::string& text) {
  return sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus()
                                                                                      : SqlError(database);
}

// "job-17" is 17.
uint64_t NumberOf(const std::string& job_id) {
  return job_id.size() > 4 ? strtoull(job_id.c_str() + 4, nullptr, 10) : 0;
}

template <typename Row, typename NumberOfRow>
void WithdrawFrom(std::vector<Row>& rows, const std::set<uint64_t>& numbers, NumberOfRow number) {
  rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const Row& row) { return numbers.count(number(row)) > 0; }),
             rows.end());
}

template <typename Row, typename KeyOfRow>
void KeepLast(std::vector<Row>& rows, KeyOfRow key) {
  std::set<std::decay_t<decltype(key(rows[0]))>> seen;
  std::vector<Row> kept;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (seen.insert(key(*row)).second) kept.push_back(std::move(*row));
  }
  rows.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

template <typename T>
void Move(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Reads a record of column 0. Errors: kDataLoss.
template <typename Record>
absl::Status ParseRecord(SqlStatement& row, Record* record) {
  if (record->ParseFromString(row.Bytes(0))) return absl::OkStatus();
  return absl::DataLossError("the store holds a row that cannot be read");
}

}  // namespace

bool StoreChanges::empty() const {
  return submissions.empty() && jobs.empty() && plans.empty() && attempts.empty() && events.empty() &&
         forgotten.empty() && last_epoch == 0;
}

void StoreChanges::Append(StoreChanges later) {
  Move(later.submissions, submissions);
  Move(later.jobs, jobs);
  Move(later.plans, plans);
  Move(later.attempts, attempts);
  Move(later.events, events);
  Move(later.forgotten, forgotten);
  last_epoch = std::max(last_epoch, later.last_epoch);
}

void StoreChanges::DropReplaced() {
  KeepLast(jobs, [](const StoredJob& row) { return row.number(); });
  KeepLast(plans, [](const StoredPlan& row) { return row.job(); });
  KeepLast(attempts, [](const StoredAttempt& row) { return row.epoch(); });
}

void StoreChanges::Withdraw(const std::vector<uint64_t>& numbers) {
  const std::set<uint64_t> gone(numbers.begin(), numbers.end());
  WithdrawFrom(submissions, gone, [](const StoredSubmission& row) { return row.job(); });
  WithdrawFrom(jobs, gone, [](const StoredJob& row) { return row.number(); });
  WithdrawFrom(plans, gone, [](const StoredPlan& row) { return row.job(); });
  WithdrawFrom(attempts, gone, [](const StoredAttempt& row) { return row.job(); });
  WithdrawFrom(events, gone, [](const JobEvent& row) { return NumberOf(row.job_id()); });
}

void Store::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Store::Store(std::unique_ptr<sqlite3, Close> database) : database_(std::move(database)) {}

Store::~Store() = default;

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path) {
  // SQLite would make it readable for everybody.
  if (int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); file >= 0) close(file);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<sqlite3, Close> database(raw);
  if (code != SQLITE_OK) return absl::UnavailableError(absl::StrCat(path, " cannot be opened: ", sqlite3_errstr(code)));
  std::unique_ptr<Store> store(new Store(std::move(database)));
  absl::MutexLock lock(&store->mutex_);
  if (absl::Status status = store->Migrate(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
  }
  return store;
}

absl::Status Store::Migrate() {
  sqlite3* database = database_.get();
  // One coordinator per store: the lock is taken by the first access and kept.
  ADJOIN_RETURN_IF_ERROR(Execute(database, "PRAGMA locking_mode = EXCLUSIVE"));
  if (absl::Status status = Execute(database, "BEGIN IMMEDIATE; COMMIT"); !status.ok()) {
    if (sqlite3_errcode(database) != SQLITE_BUSY) return status;
    return absl::FailedPreconditionError("another process uses this store: one coordinator per store");
  }
  ADJOIN_RETURN_IF_ERROR(
      Execute(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF"));
  int64_t version = 0;
  {
    SqlStatement select(database, "PRAGMA user_version");
    if (select.Bind().Next()) version = select.Integer(0);
    ADJOIN_RETURN_IF_ERROR(select.status());
  }
  if (version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat("has the schema version ", version, ", this release knows ",
                                                      kVersion, ": use a newer release of adjoin-coordinator"));
  }
  for (; version < kVersion; ++version) {
    ADJOIN_RETURN_IF_ERROR(Transaction([&] {
      ADJOIN_RETURN_IF_ERROR(Execute(database, kMigrations[version]));
      return Execute(database, absl::StrCat("PRAGMA user_version = ", version + 1));
    }));
  }
  return absl::OkStatus();
}

absl::Status Store::Transaction(const std::function<absl::Status()>& body) {
  ADJOIN_RETURN_IF_ERROR(Execute(database_.get(), "BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Execute(database_.get(), "COMMIT");
  if (!status.ok() && sqlite3_get_autocommit(database_.get()) == 0) Execute(database_.get(), "ROLLBACK").IgnoreError();
  return status;
}

absl::Status Store::Apply(const StoreChanges& changes) {
  absl::MutexLock lock(&mutex_);
  return Transaction([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Write(changes); });
}

absl::Status Store::Write(const StoreChanges& changes) {
  sqlite3* database = database_.get();
  SqlStatement meta(database,
                    "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = max(value, ?2)");
  SqlStatement submission(database, "INSERT OR REPLACE INTO submissions VALUES (?, ?)");
  for (const StoredSubmission& row : changes.submissions) {
    ADJOIN_RETURN_IF_ERROR(submission.Bind(row.job(), SqlStatement::Blob{row.SerializeAsString()}).Run());
    ADJOIN_RETURN_IF_ERROR(meta.Bind(std::string("last_job"), row.job()).Run());
  }
  SqlStatement job(database, "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)");
  for (const StoredJob& row : changes.jobs) {
    ADJOIN_RETURN_IF_ERROR(job.Bind(row.number(), row.name(), row.owner(), row.state(), row.idempotency_key(),
                                    SqlStatement::Blob{row.SerializeAsString()})
                               .Run());
  }
  SqlStatement plan(database, "INSERT OR REPLACE INTO plans VALUES (?, ?)");
  for (const StoredPlan& row : changes.plans) {
    ADJOIN_RETURN_IF_ERROR(plan.Bind(row.job(), SqlStatement::Blob{row.plan()}).Run());
  }
  SqlStatement attempt(database, "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?)");
  SqlStatement older(database, "DELETE FROM attempts WHERE job = ? AND epoch < ?");
  for (const StoredAttempt& row : changes.attempts) {
    ADJOIN_RETURN_IF_ERROR(attempt.Bind(row.epoch(), row.job(), SqlStatement::Blob{row.SerializeAsString()}).Run());
    ADJOIN_RETURN_IF_ERROR(older.Bind(row.job(), row.epoch()).Run());
  }
  SqlStatement event(database, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)");
  for (const JobEvent& row : changes.events) {
    ADJOIN_RETURN_IF_ERROR(
        event.Bind(row.sequence(), NumberOf(row.job_id()), row.epoch(), row.unix_ms(), row.kind(), row.text()).Run());
  }
  if (!changes.events.empty()) {
    ADJOIN_RETURN_IF_ERROR(meta.Bind(std::string("last_event"), changes.events.back().sequence()).Run());
  }
  for (const char* text :
       {"DELETE FROM jobs WHERE number = ?", "DELETE FROM submissions WHERE job = ?", "DELETE FROM plans WHERE job = ?",
        "DELETE FROM attempts WHERE job = ?", "DELETE FROM events WHERE job = ?"}) {
    if (changes.forgotten.empty()) break;
    SqlStatement forget(database, text);
    for (uint64_t number : changes.forgotten) ADJOIN_RETURN_IF_ERROR(forget.Bind(number).Run());
  }
  if (changes.last_epoch > 0) ADJOIN_RETURN_IF_ERROR(meta.Bind(std::string("last_epoch"), changes.last_epoch).Run());
  return absl::OkStatus();
}

absl::Status Store::TryToWrite() {
  absl::MutexLock lock(&mutex_);
  return Transaction([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Execute(database_.get(),
                   "INSERT INTO meta VALUES ('tried', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1");
  });
}

absl::StatusOr<StoredState> Store::Load() {
  absl::MutexLock lock(&mutex_);
  StoredState state;
  SqlStatement meta(database_.get(), "SELECT value, key FROM meta");
  while (meta.Next()) {
    const std::string key = meta.Bytes(1);
    const uint64_t value = static_cast<uint64_t>(meta.Integer(0));
    if (key == "last_epoch") state.last_epoch = value;
    if (key == "last_job") state.last_job = value;
    if (key == "last_event") state.last_event = value;
    if (key == "store_id") state.store_id = value;
  }
  ADJOIN_RETURN_IF_ERROR(meta.status());
  SqlStatement jobs(database_.get(), "SELECT record FROM jobs ORDER BY number");
  while (jobs.Next()) ADJOIN_RETURN_IF_ERROR(ParseRecord(jobs, &state.jobs.emplace_back()));
  ADJOIN_RETURN_IF_ERROR(jobs.status());
  SqlStatement submissions(database_.get(), "SELECT record, job FROM submissions");
  while (submissions.Next()) {
    ADJOIN_RETURN_IF_ERROR(ParseRecord(submissions, &state.submissions[submissions.Integer(1)]));
  }
  ADJOIN_RETURN_IF_ERROR(submissions.status());
  // A store of an earlier release has older ones, too.
  SqlStatement attempts(
      database_.get(),
      "SELECT record, job FROM attempts WHERE epoch IN (SELECT max(epoch) FROM attempts GROUP BY job)");
  while (attempts.Next()) ADJOIN_RETURN_IF_ERROR(ParseRecord(attempts, &state.attempts[attempts.Integer(1)]));
  ADJOIN_RETURN_IF_ERROR(attempts.status());
  return state;
}

absl::StatusOr<std::string> Store::Plan(uint64_t job) {
  absl::MutexLock lock(&mutex_);
  SqlStatement select(database_.get(), "SELECT plan FROM plans WHERE job = ?");
  if (select.Bind(job).Next()) return select.Bytes(0);
  ADJOIN_RETURN_IF_ERROR(select.status());
  return absl::NotFoundError(absl::StrCat("the store has no plan of job-", job));
}

absl::StatusOr<std::vector<JobEvent>> Store::Events(const std::string& job_id, uint64_t after, int limit) {
  absl::MutexLock lock(&mutex_);
  std::vector<JobEvent> events;
  SqlStatement select(database_.get(),
                      "SELECT sequence, epoch, unix_ms, kind, text FROM events WHERE job = ? AND sequence > ? "
                      "ORDER BY sequence LIMIT ?");
  select.Bind(NumberOf(job_id), after, limit);
  while (select.Next()) {
    JobEvent& event = events.emplace_back();
    event.set_job_id(job_id);
    event.set_sequence(select.Integer(0));
    event.set_epoch(select.Integer(1));
    event.set_unix_ms(select.Integer(2));
    event.set_kind(select.Bytes(3));
    event.set_text(select.Bytes(4));
  }
  ADJOIN_RETURN_IF_ERROR(select.status());
  return events;
}

absl::Status Store::PutToken(const StoredToken& token) {
  absl::MutexLock lock(&mutex_);
  SqlStatement insert(database_.get(), "INSERT OR REPLACE INTO tokens VALUES (?, ?)");
  return insert.Bind(token.summary().id(), SqlStatement::Blob{token.SerializeAsString()}).Run();
}

absl::Status Store::EraseToken(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  SqlStatement erase(database_.get(), "DELETE FROM tokens WHERE id = ?");
  return erase.Bind(id).Run();
}

absl::StatusOr<std::vector<StoredToken>> Store::Tokens() {
  absl::MutexLock lock(&mutex_);
  std::vector<StoredToken> tokens;
  SqlStatement select(database_.get(), "SELECT record FROM tokens ORDER BY id");
  while (select.Next()) ADJOIN_RETURN_IF_ERROR(ParseRecord(select, &tokens.emplace_back()));
  ADJOIN_RETURN_IF_ERROR(select.status());
  return tokens;
}

}  // namespace adjoin
