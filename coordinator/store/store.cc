#include "coordinator/store/store.h"

#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "coordinator/store/commit_chain.h"
#include "coordinator/store/sql_statement.h"

namespace adjoin {
namespace {

// The AgeMark in the table meta, in milliseconds.
constexpr char kAge[] = "age_ms", kAgeWall[] = "age_wall_ms";

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

template <typename Record>
absl::Status Serialize(const Record& row, std::string* record) {
  if (row.SerializeToString(record)) return absl::OkStatus();
  return absl::InvalidArgumentError("too large for the store: a row cannot be encoded");
}

// Reads a record of column 0. Errors: kDataLoss.
template <typename Record>
absl::Status ParseRecord(SqlStatement& row, Record* record) {
  if (record->ParseFromString(row.Bytes(0))) return absl::OkStatus();
  return absl::DataLossError("the store holds a row that cannot be read");
}

}  // namespace

uint64_t JobNumberOf(const std::string& job_id) {
  absl::string_view digits = job_id;
  uint64_t number = 0;
  return absl::ConsumePrefix(&digits, "job-") && absl::SimpleAtoi(digits, &number) ? number : 0;
}

bool StoreChanges::empty() const {
  return submissions.empty() && jobs.empty() && plans.empty() && attempts.empty() && events.empty() && keys.empty() &&
         folders.empty() && forgotten.empty() && last_epoch == 0 && last_job == 0 && !age.has_value();
}

void StoreChanges::Append(StoreChanges later) {
  Move(later.submissions, submissions);
  Move(later.jobs, jobs);
  Move(later.plans, plans);
  Move(later.attempts, attempts);
  Move(later.events, events);
  Move(later.keys, keys);
  Move(later.folders, folders);
  Move(later.forgotten, forgotten);
  last_epoch = std::max(last_epoch, later.last_epoch);
  last_job = std::max(last_job, later.last_job);
  if (later.age.has_value()) age = later.age;
}

void StoreChanges::DropReplaced() {
  KeepLast(jobs, [](const StoredJob& row) { return row.number(); });
  KeepLast(plans, [](const StoredPlan& row) { return row.job(); });
  KeepLast(attempts, [](const StoredAttempt& row) { return row.epoch(); });
  KeepLast(keys, [](const StoredKey& row) { return std::make_pair(row.owner, row.key); });
  KeepLast(folders, [](const StoredFolder& row) { return std::make_pair(row.folder, row.owner); });
}

void StoreChanges::Withdraw(const std::vector<uint64_t>& numbers) {
  const std::set<uint64_t> gone(numbers.begin(), numbers.end());
  WithdrawFrom(submissions, gone, [](const StoredSubmission& row) { return row.job(); });
  WithdrawFrom(jobs, gone, [](const StoredJob& row) { return row.number(); });
  WithdrawFrom(plans, gone, [](const StoredPlan& row) { return row.job(); });
  WithdrawFrom(attempts, gone, [](const StoredAttempt& row) { return row.job(); });
  WithdrawFrom(events, gone, [](const JobEvent& row) { return JobNumberOf(row.job_id()); });
  WithdrawFrom(keys, gone, [](const StoredKey& row) { return row.job; });
}

Store::~Store() {
  absl::MutexLock lock(&mutex_);
  if (database_ == nullptr || !broken_.ok() || journal_ == nullptr) return;
  sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

absl::Status Store::Judge(absl::Status status) {
  if (!absl::IsDataLoss(status) || !broken_.ok()) return status;
  broken_ = absl::DataLossError(absl::StrCat(path_, ": ", std::string(status.message())));
  if (options_.on_data_loss) options_.on_data_loss(broken_);
  return broken_;
}

absl::Status Store::Transaction(const std::function<absl::Status(Commit&)>& body) {
  ADJOIN_RETURN_IF_ERROR(broken_);
  sqlite3* database = database_.get();
  ADJOIN_RETURN_IF_ERROR(Judge(ExecuteSql(database, "BEGIN IMMEDIATE")));
  CommitMark mark = newest_;
  uint64_t state_sum = 0;
  absl::Status status;
  {
    Commit commit{RowWriter(database, state_sum_), newest_};
    status = body(commit);
    state_sum = commit.rows.state_sum();
    mark = commit.mark;
    ++mark.sequence;
    mark.unix_ms = absl::ToUnixMillis(absl::Now());
    const std::string link = absl::StrCat(newest_.hash, " ", mark.sequence, " ", commit.rows.written(), " ", state_sum);
    mark.hash = ChainHash(link);
  }  // ends its statements
  if (status.ok()) status = AppendLink(database, mark, state_sum);
  if (status.ok()) status = ExecuteSql(database, "COMMIT");
  if (!status.ok()) {
    if (sqlite3_get_autocommit(database) == 0) ExecuteSql(database, "ROLLBACK").IgnoreError();
    return Judge(status);
  }
  newest_ = mark;
  state_sum_ = state_sum;
  if (absl::Status noted = journal_->Write(newest_); !noted.ok()) {
    // It is committed all the same: who is told so, is told the truth. What comes after it is refused.
    Judge(absl::DataLossError(
              absl::StrCat(std::string(noted.message()), "; without it a lost commit would not be noticed")))
        .IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status Store::Raise(const std::string& key, uint64_t value, Commit& commit) {
  SqlStatement select(database_.get(), "SELECT value FROM meta WHERE key = ?");
  const bool known = select.Bind(key).Next();
  ADJOIN_RETURN_IF_ERROR(select.status());
  if (known && static_cast<uint64_t>(select.Integer(0)) >= value) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(Set(key, static_cast<int64_t>(value), commit));
  uint64_t* last = key == "last_job"     ? &commit.mark.last_job
                   : key == "last_epoch" ? &commit.mark.last_epoch
                   : key == "last_event" ? &commit.mark.last_event
                                         : nullptr;
  if (last != nullptr) *last = std::max(*last, value);
  return absl::OkStatus();
}

absl::Status Store::Set(const std::string& key, int64_t value, Commit& commit) {
  ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM meta WHERE key = ?", key));
  return commit.rows.Insert("meta", key, value);
}

absl::Status Store::Apply(const StoreChanges& changes) {
  absl::MutexLock lock(&mutex_);
  return Transaction([&](Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Write(changes, commit); });
}

absl::Status Store::Write(const StoreChanges& changes, Commit& commit) {
  RowWriter& rows = commit.rows;
  uint64_t last_job = changes.last_job, last_event = 0;
  for (const StoredSubmission& row : changes.submissions) {
    std::string record;
    ADJOIN_RETURN_IF_ERROR(Serialize(row, &record));
    ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM submissions WHERE job = ?", row.job()));
    ADJOIN_RETURN_IF_ERROR(rows.Insert("submissions", row.job(), SqlStatement::Blob{record}));
    last_job = std::max(last_job, row.job());
  }
  for (const StoredJob& row : changes.jobs) {
    std::string record;
    ADJOIN_RETURN_IF_ERROR(Serialize(row, &record));
    ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM jobs WHERE number = ?", row.number()));
    ADJOIN_RETURN_IF_ERROR(rows.Insert("jobs", row.number(), row.name(), row.owner(), row.state(),
                                       row.idempotency_key(), SqlStatement::Blob{record}));
  }
  for (const StoredPlan& row : changes.plans) {
    ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM plans WHERE job = ?", row.job()));
    ADJOIN_RETURN_IF_ERROR(rows.Insert("plans", row.job(), SqlStatement::Blob{row.plan()}));
  }
  for (const StoredAttempt& row : changes.attempts) {
    std::string record;
    ADJOIN_RETURN_IF_ERROR(Serialize(row, &record));
    ADJOIN_RETURN_IF_ERROR(
        rows.Erase("DELETE FROM attempts WHERE epoch = ?2 OR (job = ?1 AND epoch < ?2)", row.job(), row.epoch()));
    ADJOIN_RETURN_IF_ERROR(rows.Insert("attempts", row.epoch(), row.job(), SqlStatement::Blob{record}));
  }
  for (const JobEvent& row : changes.events) {
    ADJOIN_RETURN_IF_ERROR(rows.Insert("events", row.sequence(), JobNumberOf(row.job_id()), row.epoch(), row.unix_ms(),
                                       row.kind(), row.text()));
    last_event = std::max(last_event, row.sequence());
  }
  for (const StoredKey& row : changes.keys) {
    ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM keys WHERE owner = ? AND key = ?", row.owner, row.key));
    if (row.job == 0) continue;
    ADJOIN_RETURN_IF_ERROR(
        rows.Insert("keys", row.owner, row.key, row.job, SqlStatement::Blob{row.spec_hash}, row.unix_ms));
  }
  for (const StoredFolder& row : changes.folders) {
    ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM folders WHERE folder = ? AND owner = ?", row.folder, row.owner));
    if (row.job != 0) ADJOIN_RETURN_IF_ERROR(rows.Insert("folders", row.folder, row.owner, row.job));
  }
  for (uint64_t number : changes.forgotten) ADJOIN_RETURN_IF_ERROR(Forget(number, commit));
  if (last_job > 0) ADJOIN_RETURN_IF_ERROR(Raise("last_job", last_job, commit));
  if (last_event > 0) ADJOIN_RETURN_IF_ERROR(Raise("last_event", last_event, commit));
  if (changes.last_epoch > 0) ADJOIN_RETURN_IF_ERROR(Raise("last_epoch", changes.last_epoch, commit));
  if (!changes.age.has_value()) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(Set(kAge, absl::ToUnixMillis(changes.age->age), commit));
  return Set(kAgeWall, absl::ToUnixMillis(changes.age->wall), commit);
}

absl::Status Store::Forget(uint64_t number, Commit& commit) {
  ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM jobs WHERE number = ?", number));
  for (const char* table : {"submissions", "plans", "attempts", "events"}) {
    ADJOIN_RETURN_IF_ERROR(commit.rows.Erase(absl::StrCat("DELETE FROM ", table, " WHERE job = ?"), number));
  }
  return absl::OkStatus();
}

absl::Status Store::TryToWrite() {
  absl::MutexLock lock(&mutex_);
  return Transaction([&](Commit& commit)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Raise("tried", newest_.sequence, commit); });
}

absl::StatusOr<StoredState> Store::Load() {
  absl::MutexLock lock(&mutex_);
  ADJOIN_RETURN_IF_ERROR(broken_);
  StoredState state;
  state.lost = lost_;
  std::optional<absl::Time> age, wall;
  SqlStatement meta(database_.get(), "SELECT value, key FROM meta");
  while (meta.Next()) {
    const std::string key = meta.Bytes(1);
    const uint64_t value = static_cast<uint64_t>(meta.Integer(0));
    if (key == "last_epoch") state.last_epoch = value;
    if (key == "last_job") state.last_job = value;
    if (key == "last_event") state.last_event = value;
    if (key == "store_id") state.store_id = value;
    if (key == kAge) age = absl::FromUnixMillis(meta.Integer(0));
    if (key == kAgeWall) wall = absl::FromUnixMillis(meta.Integer(0));
  }
  ADJOIN_RETURN_IF_ERROR(meta.status());
  if (age.has_value() && wall.has_value()) state.age = AgeMark{*age, *wall};
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
  SqlStatement keys(database_.get(), "SELECT owner, key, job, spec_hash, unix_ms FROM keys ORDER BY job");
  while (keys.Next()) {
    StoredKey& row = state.keys.emplace_back();
    row.owner = keys.Bytes(0);
    row.key = keys.Bytes(1);
    row.job = static_cast<uint64_t>(keys.Integer(2));
    row.spec_hash = keys.Bytes(3);
    row.unix_ms = keys.Integer(4);
  }
  ADJOIN_RETURN_IF_ERROR(keys.status());
  SqlStatement folders(database_.get(), "SELECT folder, owner, job FROM folders ORDER BY job");
  while (folders.Next()) {
    StoredFolder& row = state.folders.emplace_back();
    row.folder = folders.Bytes(0);
    row.owner = folders.Bytes(1);
    row.job = static_cast<uint64_t>(folders.Integer(2));
  }
  ADJOIN_RETURN_IF_ERROR(folders.status());
  return state;
}

absl::StatusOr<std::string> Store::Plan(uint64_t job) {
  absl::MutexLock lock(&mutex_);
  ADJOIN_RETURN_IF_ERROR(broken_);
  SqlStatement select(database_.get(), "SELECT plan, sum = row_sum(job, plan) FROM plans WHERE job = ?");
  if (select.Bind(job).Next()) {
    if (select.Integer(1) != 0) return select.Bytes(0);
    return Judge(absl::DataLossError(absl::StrCat("the plan of job-", job, " is damaged")));
  }
  ADJOIN_RETURN_IF_ERROR(Judge(select.status()));
  return absl::NotFoundError(absl::StrCat("the store has no plan of job-", job));
}

absl::StatusOr<std::vector<JobEvent>> Store::Events(const std::string& job_id, uint64_t after, int limit) {
  absl::MutexLock lock(&mutex_);
  ADJOIN_RETURN_IF_ERROR(broken_);
  std::vector<JobEvent> events;
  SqlStatement select(database_.get(),
                      "SELECT sequence, epoch, unix_ms, kind, text, "
                      "sum = row_sum(sequence, job, epoch, unix_ms, kind, text) "
                      "FROM events WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?");
  select.Bind(JobNumberOf(job_id), after, limit);
  while (select.Next()) {
    if (select.Integer(5) == 0) return Judge(absl::DataLossError(absl::StrCat("an event of ", job_id, " is damaged")));
    JobEvent& event = events.emplace_back();
    event.set_job_id(job_id);
    event.set_sequence(select.Integer(0));
    event.set_epoch(select.Integer(1));
    event.set_unix_ms(select.Integer(2));
    event.set_kind(select.Bytes(3));
    event.set_text(select.Bytes(4));
  }
  ADJOIN_RETURN_IF_ERROR(Judge(select.status()));
  return events;
}

absl::Status Store::PutToken(const StoredToken& token) {
  absl::MutexLock lock(&mutex_);
  return Transaction([&](Commit& commit) {
    std::string record;
    ADJOIN_RETURN_IF_ERROR(Serialize(token, &record));
    ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM tokens WHERE id = ?", token.summary().id()));
    return commit.rows.Insert("tokens", token.summary().id(), SqlStatement::Blob{record});
  });
}

absl::Status Store::EraseToken(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  return Transaction([&](Commit& commit) { return commit.rows.Erase("DELETE FROM tokens WHERE id = ?", id); });
}

absl::StatusOr<std::vector<StoredToken>> Store::Tokens() {
  absl::MutexLock lock(&mutex_);
  std::vector<StoredToken> tokens;
  SqlStatement select(database_.get(), "SELECT record FROM tokens ORDER BY id");
  while (select.Next()) ADJOIN_RETURN_IF_ERROR(ParseRecord(select, &tokens.emplace_back()));
  ADJOIN_RETURN_IF_ERROR(select.status());
  return tokens;
}

absl::Status Store::ApplyNodes(const NodeChanges& changes) {
  absl::MutexLock lock(&mutex_);
  return Transaction([&](Commit& commit) -> absl::Status {
    const auto put = [&](const char* table, const char* key_column, const std::string& key, const auto& row) {
      std::string record;
      ADJOIN_RETURN_IF_ERROR(Serialize(row, &record));
      ADJOIN_RETURN_IF_ERROR(
          commit.rows.Erase(absl::StrCat("DELETE FROM ", table, " WHERE ", key_column, " = ?"), key));
      return commit.rows.Insert(table, key, SqlStatement::Blob{record});
    };
    for (const std::string& id : changes.erased_tokens) {
      ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM join_tokens WHERE id = ?", id));
    }
    for (const std::string& serial : changes.erased_certificates) {
      ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM certificates WHERE serial = ?", serial));
    }
    for (const StoredJoinToken& row : changes.tokens) {
      ADJOIN_RETURN_IF_ERROR(put("join_tokens", "id", row.summary().id(), row));
    }
    for (const StoredCertificate& row : changes.certificates) {
      ADJOIN_RETURN_IF_ERROR(put("certificates", "serial", row.serial(), row));
    }
    for (const StoredRevokedNode& row : changes.revoked) {
      ADJOIN_RETURN_IF_ERROR(put("revoked_nodes", "node", row.node(), row));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<StoredNodes> Store::Nodes() {
  absl::MutexLock lock(&mutex_);
  ADJOIN_RETURN_IF_ERROR(broken_);
  StoredNodes nodes;
  const auto read = [&](const char* text, auto& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    SqlStatement select(database_.get(), text);
    while (select.Next()) ADJOIN_RETURN_IF_ERROR(ParseRecord(select, &rows.emplace_back()));
    return select.status();
  };
  ADJOIN_RETURN_IF_ERROR(read("SELECT record FROM join_tokens", nodes.tokens));
  ADJOIN_RETURN_IF_ERROR(read("SELECT record FROM certificates", nodes.certificates));
  ADJOIN_RETURN_IF_ERROR(read("SELECT record FROM revoked_nodes", nodes.revoked));
  return nodes;
}

}  // namespace adjoin
