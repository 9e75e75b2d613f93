// Store: how a file is opened, checked, migrated, and taken over with what it lacks. Rows are in store.cc.
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "coordinator/store/commit_chain.h"
#include "coordinator/store/sql_statement.h"
#include "coordinator/store/store.h"

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
CREATE TABLE events (sequence INTEGER PRIMARY KEY, job INTEGER NOT NULL, epoch INTEGER NOT NULL,
                     unix_ms INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX events_by_job ON events (job, sequence);
CREATE TABLE workers (name TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tokens (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
)",
    "INSERT INTO meta VALUES ('store_id', random())",
    // Never read: a daemon names itself when it connects.
    "DROP TABLE IF EXISTS workers",
    // What outlives a job that is forgotten.
    R"(
CREATE TABLE IF NOT EXISTS keys (owner TEXT NOT NULL, key TEXT NOT NULL, job INTEGER NOT NULL, spec_hash BLOB NOT NULL,
                                 unix_ms INTEGER NOT NULL, PRIMARY KEY (owner, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folders (folder TEXT NOT NULL, owner TEXT NOT NULL, job INTEGER NOT NULL,
                                    PRIMARY KEY (folder, owner)) WITHOUT ROWID;
)",
    // Each row has a checksum, and each commit a link. Keys are unique in a table of their own now.
    R"(
DROP INDEX IF EXISTS jobs_by_key;
ALTER TABLE meta ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE submissions ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE plans ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE folders ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;
CREATE TABLE chain (sequence INTEGER PRIMARY KEY, hash TEXT NOT NULL, unix_ms INTEGER NOT NULL,
                    state_sum INTEGER NOT NULL, sum INTEGER NOT NULL);
)",
    // Nodes that join with a token, and lose their certificates again.
    R"(
CREATE TABLE join_tokens (id TEXT PRIMARY KEY, record BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE certificates (serial TEXT PRIMARY KEY, record BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE revoked_nodes (node TEXT PRIMARY KEY, record BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
)"};
constexpr int kVersion = std::size(kMigrations);
// From this version on, rows have checksums and commits a chain.
constexpr int kChainVersion = 5;
constexpr int kApplication = 0x41444a4e;  // "ADJN", in the file's header
// Where commits are missing: nobody knows whether the journal saw the last of them.
constexpr uint64_t kSkip = 1000;

std::string JournalPath(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".journal").string();
}

std::string TimeText(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

std::string FileText(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return absl::StrCat(path, " (", errno == ENOENT ? "missing" : strerror(errno), ")");
  return absl::StrCat(path, " (", info.st_size, " bytes)");
}

bool IsMissingOrEmpty(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) != 0 ? errno == ENOENT : S_ISREG(info.st_mode) && info.st_size == 0;
}

uint64_t DrawStoreId() {
  std::random_device device;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{device()} << 32 | device();
  return id;
}

absl::StatusOr<int64_t> Number(sqlite3* database, const std::string& text) {
  SqlStatement select(database, text.c_str());
  const bool found = select.Next();
  if (!select.status().ok()) return select.status();
  return found ? select.Integer(0) : 0;
}

// What checkpoints of a job were named by before jobs had tags (worker/checkpoint/checkpoint_resume.h).
uint64_t OlderTag(uint64_t store_id, uint64_t number) {
  const std::string text = absl::StrCat(store_id, " job-", number);
  return XXH3_128bits(text.data(), text.size()).high64;
}

}  // namespace

void Store::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path, StoreOptions options) {
  std::unique_ptr<Store> store(new Store(path, std::move(options)));
  absl::MutexLock lock(&store->mutex_);
  if (absl::Status status = store->OpenLocked(); !status.ok()) {
    const std::string message(status.message());
    return absl::StrContains(message, path) ? status : absl::Status(status.code(), absl::StrCat(path, ": ", message));
  }
  return store;
}

absl::Status Store::OpenLocked() {
  Findings findings;
  absl::StatusOr<std::optional<CommitMark>> journal = CommitJournal::Read(JournalPath(path_));
  if (journal.ok()) {
    findings.journal = *std::move(journal);
  } else if (absl::IsDataLoss(journal.status())) {
    findings.history.push_back(std::string(journal.status().message()));
  } else {
    return journal.status();
  }
  ADJOIN_RETURN_IF_ERROR(OpenDatabase(findings));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t version, Version());
  ADJOIN_RETURN_IF_ERROR(Check(version, &findings));
  const bool lacks = !findings.damage.empty() || !findings.history.empty();
  if (lacks && (!options_.accept_loss || !findings.damage.empty())) return Refusal(findings);
  ADJOIN_RETURN_IF_ERROR(Migrate(version));
  ADJOIN_RETURN_IF_ERROR(ReadNewest());
  ADJOIN_ASSIGN_OR_RETURN(journal_, CommitJournal::Open(JournalPath(path_)));
  if (lacks) ADJOIN_RETURN_IF_ERROR(BeginAnew(findings));
  ADJOIN_RETURN_IF_ERROR(journal_->Write(newest_));
  // From here on the log holds nothing that the file does not have.
  const int code = sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (const absl::Status status = SqlError(database_.get()); code != SQLITE_OK && absl::IsDataLoss(status))
    return status;
  return absl::OkStatus();
}

absl::Status Store::OpenDatabase(const Findings& findings) {
  struct stat info;
  if (stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return absl::UnavailableError("it is no file: the store is kept in one");
  }
  const bool had_journal = findings.journal.has_value() || !findings.history.empty();
  if (IsMissingOrEmpty(path_) && had_journal && !options_.accept_loss) {
    Findings missing = findings;
    missing.history.push_back("the database is missing or empty, and there was one");
    return Refusal(missing);
  }
  // SQLite would make it readable for everybody.
  UniqueFd file(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    return absl::UnavailableError(absl::StrCat("cannot be opened for reading and writing: ", strerror(errno)));
  }
  file.reset();
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path_.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  database_.reset(raw);
  if (code != SQLITE_OK) return absl::UnavailableError(absl::StrCat("cannot be opened: ", sqlite3_errstr(code)));
  sqlite3_extended_result_codes(raw, 1);
  // Where the file is refused, its log stays as it was found.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, options_.largest_row);
  ADJOIN_RETURN_IF_ERROR(RegisterRowSum(raw));
  // One coordinator per store: the lock is taken by the first access and kept.
  ADJOIN_RETURN_IF_ERROR(ExecuteSql(raw, "PRAGMA locking_mode = EXCLUSIVE"));
  if (absl::Status status = ExecuteSql(raw, "BEGIN IMMEDIATE; COMMIT"); !status.ok()) {
    if ((sqlite3_errcode(raw) & 0xff) == SQLITE_BUSY) {
      return absl::FailedPreconditionError("another process uses this store: one coordinator per store");
    }
    if (!absl::IsDataLoss(status)) return status;
    Findings damaged;
    damaged.damage.push_back(std::string(status.message()));
    return Refusal(damaged);
  }
  return ExecuteSql(raw, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF");
}

absl::StatusOr<int64_t> Store::Version() {
  sqlite3* database = database_.get();
  ADJOIN_ASSIGN_OR_RETURN(const int64_t version, Number(database, "PRAGMA user_version"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t application, Number(database, "PRAGMA application_id"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t tables, Number(database, "SELECT count(*) FROM sqlite_master"));
  ADJOIN_ASSIGN_OR_RETURN(
      const int64_t ours,
      Number(database,
             "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('meta', 'jobs', 'plans')"));
  if ((application != 0 && application != kApplication) || (tables > 0 && (ours != 3 || version <= 0))) {
    return absl::FailedPreconditionError(
        "is a database of another program, which is left as it is: give a --state-dir of the coordinator's own");
  }
  if (version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat("has the schema version ", version, ", this release knows ",
                                                      kVersion, ": use a newer release of adjoin-coordinator"));
  }
  return version;
}

absl::Status Store::Check(int64_t version, Findings* findings) {
  sqlite3* database = database_.get();
  {
    SqlStatement check(database, "PRAGMA integrity_check(3)");
    while (check.Next()) {
      if (check.Bytes(0) != "ok") findings->damage.push_back(check.Bytes(0));
    }
    if (!check.status().ok()) findings->damage.push_back(std::string(check.status().message()));
  }
  if (!findings->damage.empty()) return absl::OkStatus();
  if (version < kChainVersion) {
    if (findings->journal.has_value()) {
      findings->history.push_back(version == 0 ? "the database is new, and there was one"
                                               : "the database is of an older release than its journal");
    }
    return absl::OkStatus();
  }
  if (absl::Status status = CheckRows(database, version, &findings->rows); !status.ok()) {
    if (!absl::IsDataLoss(status)) return status;
    findings->damage.push_back(std::string(status.message()));
    return absl::OkStatus();
  }
  if (findings->rows.damaged_rows > 0) {
    findings->history.push_back(absl::StrCat(findings->rows.damaged_rows, " of ", findings->rows.rows,
                                             " rows are damaged (", absl::StrJoin(findings->rows.examples, ", "), ")"));
  }
  return CheckHistory(findings);
}

absl::Status Store::CheckHistory(Findings* findings) {
  sqlite3* database = database_.get();
  std::vector<std::string>& found = findings->history;
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<ChainLink> last, NewestLink(database));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t id, Number(database, "SELECT value FROM meta WHERE key = 'store_id'"));
  if (!last.has_value() || last->damaged) {
    found.push_back("the table of its commits is damaged");
    return absl::OkStatus();
  }
  if (findings->rows.state_sum != last->state_sum && findings->rows.damaged_rows == 0) {
    found.push_back(absl::StrCat("its rows are not those of its last commit, ", last->sequence, " of ",
                                 TimeText(last->unix_ms),
                                 ": parts of the file are of another time, as where adjoin.db was put back beside a "
                                 "log that is not its own"));
  }
  const std::optional<CommitMark>& journal = findings->journal;
  if (!journal.has_value()) {
    // The journal is made before the first commit that anybody is told of.
    if (last->sequence > 1 && found.empty()) found.push_back("its journal is missing: commits may be, too");
    return absl::OkStatus();
  }
  if (journal->store_id != static_cast<uint64_t>(id)) {
    found.push_back("the journal beside it is another store's");
    return absl::OkStatus();
  }
  if (journal->sequence > last->sequence) {
    found.push_back(absl::StrCat(journal->sequence - last->sequence,
                                 " commits are missing: the last one in the file is ", last->sequence, " of ",
                                 TimeText(last->unix_ms), ", the last one that was made is ", journal->sequence, " of ",
                                 TimeText(journal->unix_ms)));
    return absl::OkStatus();
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<ChainLink> same, LinkAt(database, journal->sequence));
  if (!same.has_value() || same->damaged || same->hash != journal->hash) {
    found.push_back(absl::StrCat("it has another history than its journal: commit ", journal->sequence, " of ",
                                 TimeText(journal->unix_ms), " is not in it"));
  }
  return absl::OkStatus();
}

absl::Status Store::Refusal(const Findings& findings) const {
  const std::string files =
      absl::StrJoin({FileText(path_), FileText(path_ + "-wal"), FileText(JournalPath(path_))}, ", ");
  if (!findings.damage.empty()) {
    return absl::DataLossError(absl::StrCat(
        path_, " is damaged: ", absl::StrJoin(findings.damage, "; "), ". Nothing was changed. Files: ", files,
        ". Put a backup of adjoin.db in its place (without adjoin.db-wal, and leave adjoin.journal), or move adjoin.db "
        "and adjoin.db-wal away to begin with an empty store; then start once with --accept-loss"));
  }
  return absl::DataLossError(absl::StrCat(
      path_, " is not what the coordinator left: ", absl::StrJoin(findings.history, "; "),
      ". Nothing was changed. Files: ", files,
      ". Put the right files in their place, or start once with --accept-loss to go on without what is missing"));
}

absl::Status Store::Migrate(int64_t version) {
  sqlite3* database = database_.get();
  ADJOIN_RETURN_IF_ERROR(ExecuteSql(database, "PRAGMA journal_mode = WAL"));
  if (version == kVersion) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(ExecuteSql(database, "BEGIN IMMEDIATE"));
  absl::Status status = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    for (int64_t v = version; v < kVersion; ++v) {
      ADJOIN_RETURN_IF_ERROR(ExecuteSql(database, kMigrations[v]));
      if (v + 1 == kChainVersion) ADJOIN_RETURN_IF_ERROR(TagOlderJobs());
    }
    ADJOIN_RETURN_IF_ERROR(ExecuteSql(
        database, absl::StrCat("PRAGMA user_version = ", kVersion, "; PRAGMA application_id = ", kApplication)));
    // Rows were written around the chain: it has a link that says what they are now. Rows that had sums keep them, so
    // that damage stays to be seen.
    for (const CheckedTable& table : kCheckedTables) {
      if (version >= kChainVersion) break;
      ADJOIN_RETURN_IF_ERROR(
          ExecuteSql(database, absl::StrCat("UPDATE ", table.name, " SET sum = row_sum(", table.columns, ")")));
    }
    RowCheck rows;
    ADJOIN_RETURN_IF_ERROR(CheckRows(database, kVersion, &rows));
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<ChainLink> last, NewestLink(database));
    CommitMark mark;
    mark.sequence = last.has_value() ? last->sequence + 1 : 1;
    mark.unix_ms = absl::ToUnixMillis(absl::Now());
    mark.hash = ChainHash(
        absl::StrCat(last.has_value() ? last->hash : "", " ", kVersion, " ", rows.state_sum, " ", DrawStoreId()));
    return AppendLink(database, mark, rows.state_sum);
  }();
  if (status.ok()) status = ExecuteSql(database, "COMMIT");
  if (!status.ok() && sqlite3_get_autocommit(database) == 0) ExecuteSql(database, "ROLLBACK").IgnoreError();
  return status;
}

// Their checkpoints keep their names, also where the store gets another id.
absl::Status Store::TagOlderJobs() {
  sqlite3* database = database_.get();
  ADJOIN_ASSIGN_OR_RETURN(const int64_t id, Number(database, "SELECT value FROM meta WHERE key = 'store_id'"));
  SqlStatement update(database, "UPDATE jobs SET record = ?2 WHERE number = ?1");
  std::vector<StoredJob> jobs;
  SqlStatement select(database, "SELECT record FROM jobs");
  while (select.Next()) {
    if (StoredJob job; job.ParseFromString(select.Bytes(0)) && job.tag() == 0) jobs.push_back(std::move(job));
  }
  ADJOIN_RETURN_IF_ERROR(select.status());
  for (StoredJob& job : jobs) {
    job.set_tag(OlderTag(static_cast<uint64_t>(id), job.number()));
    ADJOIN_RETURN_IF_ERROR(update.Bind(job.number(), SqlStatement::Blob{job.SerializeAsString()}).Run());
  }
  return absl::OkStatus();
}

absl::Status Store::ReadNewest() {
  sqlite3* database = database_.get();
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<ChainLink> last, NewestLink(database));
  if (last.has_value()) {
    newest_.sequence = last->sequence;
    newest_.hash = last->hash;
    newest_.unix_ms = last->unix_ms;
    state_sum_ = last->state_sum;
  }
  const auto value = [&](const char* key) {
    return Number(database, absl::StrCat("SELECT value FROM meta WHERE key = '", key, "'"));
  };
  ADJOIN_ASSIGN_OR_RETURN(const int64_t id, value("store_id"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t job, value("last_job"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t epoch, value("last_epoch"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t event, value("last_event"));
  newest_.store_id = static_cast<uint64_t>(id);
  newest_.last_job = static_cast<uint64_t>(job);
  newest_.last_epoch = static_cast<uint64_t>(epoch);
  newest_.last_event = static_cast<uint64_t>(event);
  return absl::OkStatus();
}

absl::Status Store::BeginAnew(const Findings& findings) {
  sqlite3* database = database_.get();
  lost_ = absl::StrJoin(findings.history, "; ");
  const CommitMark journal = findings.journal.value_or(CommitMark());
  // Damaged numbers may be too low, so they are counted from the rows, too.
  ADJOIN_ASSIGN_OR_RETURN(const int64_t job, Number(database, "SELECT max(number) FROM jobs"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t epoch, Number(database, "SELECT max(epoch) FROM attempts"));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t event, Number(database, "SELECT max(sequence) FROM events"));
  state_sum_ = findings.rows.rows == 0 ? state_sum_ : findings.rows.state_sum;
  newest_.sequence = std::max(newest_.sequence, journal.sequence);
  newest_.store_id = DrawStoreId();
  newest_.last_job = std::max({newest_.last_job, journal.last_job, static_cast<uint64_t>(job)}) + kSkip;
  newest_.last_epoch = std::max({newest_.last_epoch, journal.last_epoch, static_cast<uint64_t>(epoch)}) + kSkip;
  newest_.last_event = std::max({newest_.last_event, journal.last_event, static_cast<uint64_t>(event)}) + kSkip;
  newest_.hash = ChainHash(absl::StrCat(newest_.hash, " ", journal.hash, " ", newest_.store_id));
  return Transaction([&](Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    const std::set<uint64_t> jobs(findings.rows.damaged_jobs.begin(), findings.rows.damaged_jobs.end());
    for (uint64_t number : jobs) {
      absl::StrAppend(&lost_, "; job-", number, " is forgotten");
      ADJOIN_RETURN_IF_ERROR(Forget(number, commit));
    }
    for (const std::string& erase : findings.rows.erase) ADJOIN_RETURN_IF_ERROR(commit.rows.Erase(erase));
    // Uses of tokens, and revocations of them, may be among what is missing.
    ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM join_tokens"));
    for (const auto& [key, value] :
         {std::pair("store_id", newest_.store_id), std::pair("last_job", newest_.last_job),
          std::pair("last_epoch", newest_.last_epoch), std::pair("last_event", newest_.last_event)}) {
      ADJOIN_RETURN_IF_ERROR(commit.rows.Erase("DELETE FROM meta WHERE key = ?", std::string(key)));
      ADJOIN_RETURN_IF_ERROR(commit.rows.Insert("meta", std::string(key), value));
    }
    return absl::OkStatus();
  });
}

}  // namespace adjoin
