#include "coordinator/store/commit_chain.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "coordinator/store/sql_statement.h"

namespace adjoin {
namespace {

absl::StatusOr<std::optional<ChainLink>> ReadLink(SqlStatement& select) {
  if (!select.Next()) {
    if (!select.status().ok()) return select.status();
    return std::optional<ChainLink>();
  }
  return ChainLink{.sequence = static_cast<uint64_t>(select.Integer(0)),
                   .hash = select.Bytes(1),
                   .unix_ms = select.Integer(2),
                   .state_sum = static_cast<uint64_t>(select.Integer(3)),
                   .damaged = select.Integer(4) == 0};
}

constexpr char kSelect[] =
    "SELECT sequence, hash, unix_ms, state_sum, sum = row_sum(sequence, hash, unix_ms, state_sum) FROM chain ";

}  // namespace

std::string ChainHash(absl::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
}

absl::Status ExecuteSql(sqlite3* database, const std::string& text) {
  const int code = sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqlError(database);
}

absl::Status AppendLink(sqlite3* database, const CommitMark& mark, uint64_t state_sum) {
  SqlStatement insert(database, "INSERT INTO chain VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))");
  ADJOIN_RETURN_IF_ERROR(insert.Bind(mark.sequence, mark.hash, mark.unix_ms, state_sum).Run());
  SqlStatement erase(database, "DELETE FROM chain WHERE sequence <= ?");
  return mark.sequence <= kLinksKept ? absl::OkStatus() : erase.Bind(mark.sequence - kLinksKept).Run();
}

absl::StatusOr<std::optional<ChainLink>> NewestLink(sqlite3* database) {
  SqlStatement select(database, absl::StrCat(kSelect, "ORDER BY sequence DESC LIMIT 1").c_str());
  return ReadLink(select);
}

absl::StatusOr<std::optional<ChainLink>> LinkAt(sqlite3* database, uint64_t sequence) {
  SqlStatement select(database, absl::StrCat(kSelect, "WHERE sequence = ?").c_str());
  return ReadLink(select.Bind(sequence));
}

}  // namespace adjoin
