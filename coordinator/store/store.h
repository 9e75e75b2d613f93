// Keeps everything that the coordinator may not forget, in one SQLite file.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open("/var/lib/adjoin/adjoin.db"));
//   ADJOIN_ASSIGN_OR_RETURN(StoredState state, store->Load());
//   StoreChanges changes;
//   changes.jobs.push_back(job);
//   ADJOIN_RETURN_IF_ERROR(store->Apply(changes));             // on the disk when this returns
//
// Write-ahead log, synchronous=FULL: rows survive a crash of the machine once Apply has returned. The schema has a
// version; an older file is migrated when it is opened, a newer one is refused. Any thread; calls exclude each other.
#ifndef ADJOIN_COORDINATOR_STORE_STORE_H_
#define ADJOIN_COORDINATOR_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/store/records.pb.h"
#include "proto/coordinator.pb.h"

struct sqlite3;

namespace adjoin {

// Rows to write, in one transaction. Where two rows have one key, the later one counts.
struct StoreChanges {
  std::vector<StoredSubmission> submissions;
  std::vector<StoredJob> jobs;
  std::vector<StoredPlan> plans;
  std::vector<StoredAttempt> attempts;  // the newest one of a job is kept
  std::vector<JobEvent> events;
  std::vector<uint64_t> forgotten;  // jobs whose rows are all erased, by number
  uint64_t last_epoch = 0;          // 0: unchanged

  bool empty() const;
  void Append(StoreChanges later);
  // Takes out the rows that later ones replace.
  void DropReplaced();
  // Takes out the rows of these jobs, which were never written.
  void Withdraw(const std::vector<uint64_t>& numbers);
};

struct StoredState {
  std::vector<StoredJob> jobs;  // by number
  std::map<uint64_t, StoredSubmission> submissions;
  std::map<uint64_t, StoredAttempt> attempts;  // by job: the newest one
  uint64_t last_epoch = 0;
  uint64_t last_job = 0;    // the highest number ever given
  uint64_t last_event = 0;  // the highest sequence ever given
  uint64_t store_id = 0;    // random, never changes: epochs of stores with different ids cannot be compared
};

class Store {
 public:
  // Makes the file where it is missing (readable by its owner only). Errors: kUnavailable (cannot be made, read or
  // written), kDataLoss (damaged), kFailedPrecondition (of a newer release; another process has it).
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Writes all rows or none. Errors after which another try may succeed: kUnavailable (a full disk, an error of the
  // device).
  // Errors after which none will: kInvalidArgument (a row is too large), kInternal (rows that contradict each other),
  // kDataLoss.
  absl::Status Apply(const StoreChanges& changes);

  // Writes a value that is never read, to learn whether the store can be written. Errors: as Apply's.
  absl::Status TryToWrite();

  // Errors: kDataLoss, kUnavailable.
  absl::StatusOr<StoredState> Load();
  // Errors: kNotFound.
  absl::StatusOr<std::string> Plan(uint64_t job);
  // Returns the job's events after sequence `after`, oldest first, at most `limit`. Errors: kUnavailable, kDataLoss.
  absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, uint64_t after, int limit);

  // Tokens. Errors: kUnavailable.
  absl::Status PutToken(const StoredToken& token);
  absl::Status EraseToken(const std::string& id);
  absl::StatusOr<std::vector<StoredToken>> Tokens();

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Store(std::unique_ptr<sqlite3, Close> database);

  absl::Status Migrate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const StoreChanges& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Transaction(const std::function<absl::Status()>& body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::unique_ptr<sqlite3, Close> database_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_STORE_H_
