// The chain of commits, in the table `chain` of the database: a row for each of the last commits, with a hash of itself
// and all before it.
//
//   ADJOIN_RETURN_IF_ERROR(AppendLink(database, mark, state_sum));          // within the commit's transaction
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<ChainLink> newest, NewestLink(database));
#ifndef ADJOIN_COORDINATOR_STORE_COMMIT_CHAIN_H_
#define ADJOIN_COORDINATOR_STORE_COMMIT_CHAIN_H_

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/commit_journal.h"

namespace adjoin {

inline constexpr uint64_t kLinksKept = 1000;

struct ChainLink {
  uint64_t sequence = 0;
  std::string hash;
  int64_t unix_ms = 0;
  uint64_t state_sum = 0;  // of all rows of kCheckedTables after the commit
  bool damaged = false;    // the row's own checksum does not fit
};

// 32 hexadecimal digits.
std::string ChainHash(absl::string_view text);

// Runs statements without results. Errors: as SqlError.
absl::Status ExecuteSql(sqlite3* database, const std::string& text);

// Adds the commit's row, and erases those that are no longer kept.
absl::Status AppendLink(sqlite3* database, const CommitMark& mark, uint64_t state_sum);
// Absent where there is none.
absl::StatusOr<std::optional<ChainLink>> NewestLink(sqlite3* database);
absl::StatusOr<std::optional<ChainLink>> LinkAt(sqlite3* database, uint64_t sequence);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_COMMIT_CHAIN_H_
