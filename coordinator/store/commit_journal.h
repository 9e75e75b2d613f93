// The newest commit of a store, in a small file of its own beside the database: what a start compares the database
// with. A write-ahead log that is cut, damaged or deleted, and an older copy that was put back, look to SQLite like a
// healthy database; they end before the commit that this file names.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<CommitMark> newest, CommitJournal::Read("/var/lib/adjoin/adjoin.journal"));
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<CommitJournal> journal, CommitJournal::Open(path));
//   ADJOIN_RETURN_IF_ERROR(journal->Write(mark));               // on the disk when this returns
//
// Two slots are written in turn, each a line of text with its checksum, so a write that is torn leaves the mark before.
// One thread at a time.
#ifndef ADJOIN_COORDINATOR_STORE_COMMIT_JOURNAL_H_
#define ADJOIN_COORDINATOR_STORE_COMMIT_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace adjoin {

struct CommitMark {
  uint64_t store_id = 0;
  uint64_t sequence = 0;  // of commits, from 1
  std::string hash;       // of this commit and all before it: 32 hexadecimal digits
  int64_t unix_ms = 0;
  uint64_t last_job = 0, last_epoch = 0, last_event = 0;  // the highest numbers ever given

  bool operator==(const CommitMark& other) const {
    return store_id == other.store_id && sequence == other.sequence && hash == other.hash && unix_ms == other.unix_ms &&
           last_job == other.last_job && last_epoch == other.last_epoch && last_event == other.last_event;
  }
};

class CommitJournal {
 public:
  // Returns the newest mark; absent where there is no file, or nothing was written to it. Errors: kDataLoss (no slot is
  // readable), kUnavailable.
  static absl::StatusOr<std::optional<CommitMark>> Read(const std::string& path);

  // Makes the file where it is missing, readable by its owner only. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<CommitJournal>> Open(const std::string& path);

  // Errors: kUnavailable (the mark before is still there).
  absl::Status Write(const CommitMark& mark);

 private:
  CommitJournal(std::string path, UniqueFd file, int next_slot)
      : path_(std::move(path)), file_(std::move(file)), next_slot_(next_slot) {}

  const std::string path_;
  UniqueFd file_;
  int next_slot_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_COMMIT_JOURNAL_H_
