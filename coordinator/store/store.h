// Keeps everything that the coordinator may not forget, in one SQLite file.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open("/var/lib/adjoin/adjoin.db"));
//   ADJOIN_ASSIGN_OR_RETURN(StoredState state, store->Load());
//   StoreChanges changes;
//   changes.jobs.push_back(job);
//   ADJOIN_RETURN_IF_ERROR(store->Apply(changes));             // on the disk when this returns
//
// Write-ahead log, synchronous=FULL: rows survive a crash of the machine once Apply has returned. The schema has a
// version; an older file is migrated when it is opened, a newer one is refused.
//
// Commits are a chain: each has a number and a hash of itself and all before it, and the newest one is also named in
// "adjoin.journal" beside the database (commit_journal.h). Open reads every row, and refuses a file that is damaged,
// that ends before the commit of the journal, or that has another history: nothing goes on from an older state
// unnoticed.
//
// Any thread; calls exclude each other.
#ifndef ADJOIN_COORDINATOR_STORE_STORE_H_
#define ADJOIN_COORDINATOR_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/age_clock.h"
#include "coordinator/store/checked_rows.h"
#include "coordinator/store/commit_journal.h"
#include "coordinator/store/records.pb.h"
#include "proto/coordinator.pb.h"

struct sqlite3;

namespace adjoin {

// An idempotency key, which is kept after its job is forgotten.
struct StoredKey {
  std::string owner, key;
  uint64_t job = 0;       // number; 0: the row is erased
  std::string spec_hash;  // of the job's spec; SHA-256
  int64_t unix_ms = 0;    // when it was used first, by the coordinator's AgeClock
};

// A folder of jobs that are forgotten, whose owner is not.
struct StoredFolder {
  std::string folder, owner;
  uint64_t job = 0;  // number of the last one; 0: the row is erased
};
// "job-17" is 17; 0 for anything that is no id.
uint64_t JobNumberOf(const std::string& job_id);

// Rows to write, in one transaction. Where two rows have one key, the later one counts.
struct StoreChanges {
  std::vector<StoredSubmission> submissions;
  std::vector<StoredJob> jobs;
  std::vector<StoredPlan> plans;
  std::vector<StoredAttempt> attempts;  // the newest one of a job is kept
  std::vector<JobEvent> events;
  std::vector<StoredKey> keys;
  std::vector<StoredFolder> folders;
  std::vector<uint64_t> forgotten;  // jobs whose rows are all erased but those of keys and folders, by number
  uint64_t last_epoch = 0;          // 0: unchanged
  uint64_t last_job = 0;            // 0: that of the newest submission, or unchanged
  std::optional<AgeMark> age;       // absent: unchanged

  bool empty() const;
  void Append(StoreChanges later);
  // Takes out the rows that later ones replace.
  void DropReplaced();
  // Takes out the rows of these jobs, which were never written.
  void Withdraw(const std::vector<uint64_t>& numbers);
};

// What nodes join with, and what they have got, in one transaction.
struct NodeChanges {
  std::vector<StoredJoinToken> tokens;
  std::vector<StoredCertificate> certificates;
  std::vector<StoredRevokedNode> revoked;
  std::vector<std::string> erased_tokens, erased_certificates;  // by id and by serial
};
struct StoredNodes {
  std::vector<StoredJoinToken> tokens;
  std::vector<StoredCertificate> certificates;
  std::vector<StoredRevokedNode> revoked;
};

struct StoredState {
  std::vector<StoredJob> jobs;  // by number
  std::map<uint64_t, StoredSubmission> submissions;
  std::map<uint64_t, StoredAttempt> attempts;  // by job: the newest one
  std::vector<StoredKey> keys;                 // by job
  std::vector<StoredFolder> folders;           // by job
  uint64_t last_epoch = 0;
  uint64_t last_job = 0;       // the highest number ever given
  uint64_t last_event = 0;     // the highest sequence ever given
  uint64_t store_id = 0;       // random: epochs of stores with different ids cannot be compared
  std::optional<AgeMark> age;  // to the millisecond; absent in a store of an older release
  std::string lost;            // what StoreOptions::accept_loss has accepted just now; empty: nothing
};

struct StoreOptions {
  // Goes on with an older state, without the commits after it and without rows that are damaged. The store gets a new
  // id, and job numbers and epochs go on beyond all that were given before. Changes nothing where nothing is missing.
  bool accept_loss = false;
  int largest_row = 512 << 20;  // bytes; larger ones are refused with kInvalidArgument
  // The file was found to be damaged: nothing can be read or written any more. Called once, by the thread that found
  // it; it must not call back. May be empty.
  std::function<void(const absl::Status&)> on_data_loss;
};

class Store {
 public:
  // Makes the file where it is missing (readable by its owner only). Changes nothing where it returns an error.
  // Errors: kUnavailable (cannot be made, read or written), kDataLoss (damaged, older than it was, or another's
  // history; with the ways out), kFailedPrecondition (of a newer release or another program; another process has it).
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path, StoreOptions options = {});
  // The file alone has everything then: the write-ahead log is empty.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Writes all rows or none. Errors after which another try may succeed: kUnavailable (a full disk, an error of the
  // device).
  // Errors after which none will: kInvalidArgument (a row is too large), kInternal (rows that contradict each other),
  // kDataLoss (the file is damaged, or the journal cannot be written; so do all later calls).
  absl::Status Apply(const StoreChanges& changes);

  // Writes a value that is never read, to learn whether the store can be written. Errors: as Apply's.
  absl::Status TryToWrite();

  // Errors: kDataLoss, kUnavailable.
  absl::StatusOr<StoredState> Load();
  // Errors: kNotFound, kDataLoss.
  absl::StatusOr<std::string> Plan(uint64_t job);
  // Returns the job's events after sequence `after`, oldest first, at most `limit`. Errors: kUnavailable, kDataLoss.
  absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, uint64_t after, int limit);

  // Tokens. Errors: kUnavailable.
  absl::Status PutToken(const StoredToken& token);
  absl::Status EraseToken(const std::string& id);
  absl::StatusOr<std::vector<StoredToken>> Tokens();

  // Errors: as Apply's.
  absl::Status ApplyNodes(const NodeChanges& changes);
  // Errors: kDataLoss, kUnavailable.
  absl::StatusOr<StoredNodes> Nodes();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  // A transaction under way.
  struct Commit {
    RowWriter rows;
    CommitMark mark;  // as it will be in the journal
  };
  // What is wrong with the files.
  struct Findings {
    std::vector<std::string> damage;   // of pages: nothing can go on from this file
    std::vector<std::string> history;  // rows and commits that are missing
    RowCheck rows;
    std::optional<CommitMark> journal;
  };
  Store(std::string path, StoreOptions options) : path_(std::move(path)), options_(std::move(options)) {}

  // Opening, in this order (store_opening.cc).
  absl::Status OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenDatabase(const Findings& findings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> Version() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Check(int64_t version, Findings* findings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckHistory(Findings* findings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refusal(const Findings& findings) const;
  absl::Status Migrate(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TagOlderJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReadNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginAnew(const Findings& findings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status Write(const StoreChanges& changes, Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Forget(uint64_t number, Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets a value of the table meta to at least this one.
  absl::Status Raise(const std::string& key, uint64_t value, Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Set(const std::string& key, int64_t value, Commit& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Transaction(const std::function<absl::Status(Commit&)>& body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns `status`, and remembers one that says that the file is damaged.
  absl::Status Judge(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const StoreOptions options_;
  absl::Mutex mutex_;
  std::unique_ptr<sqlite3, Close> database_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CommitJournal> journal_ ABSL_GUARDED_BY(mutex_);
  CommitMark newest_ ABSL_GUARDED_BY(mutex_);  // the last commit
  uint64_t state_sum_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string lost_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_STORE_H_
