// Rows that know their checksum, and the checksum of all of them: what makes a row that is damaged, missing, or of an
// earlier state visible, where SQLite itself sees a healthy file.
//
//   RegisterRowSum(database);                                    // the SQL function row_sum(...)
//   RowWriter rows(database, state_sum);
//   ADJOIN_RETURN_IF_ERROR(rows.Erase("DELETE FROM jobs WHERE number = ?", 17));
//   ADJOIN_RETURN_IF_ERROR(rows.Insert("jobs", 17, "lenet5", ...));   // all columns but the last one, `sum`
//   state_sum = rows.state_sum();                                // once the transaction is committed
//
// The last column of each table of kCheckedTables is `sum`: row_sum of all other columns, 64 bits. The sum of a state
// is the sum of these over all rows, modulo 2^64, so a change costs no more than the rows that it writes. One thread.
#ifndef ADJOIN_COORDINATOR_STORE_CHECKED_ROWS_H_
#define ADJOIN_COORDINATOR_STORE_CHECKED_ROWS_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/store/sql_statement.h"

namespace adjoin {

struct CheckedTable {
  const char* name;
  const char* columns;  // all but `sum`
  const char* row;      // an SQL expression that names a row for people
  const char* job;      // an SQL expression: the number of the job that a row is part of; 0: of none
  int since = 0;        // the first version of the schema that has it
};
inline constexpr CheckedTable kCheckedTables[] = {
    {"meta", "key, value", "key", "0"},
    {"jobs", "number, name, owner, state, idempotency_key, record", "'job-' || number", "number"},
    {"submissions", "job, record", "'job-' || job", "job"},
    {"plans", "job, plan", "'job-' || job", "job"},
    {"attempts", "epoch, job, record", "'attempt ' || epoch || ' of job-' || job", "job"},
    {"events", "sequence, job, epoch, unix_ms, kind, text", "'event ' || sequence || ' of job-' || job", "0"},
    {"tokens", "id, record", "'token ' || id", "0"},
    {"keys", "owner, key, job, spec_hash, unix_ms", "'a key of job-' || job", "0"},
    {"folders", "folder, owner, job", "'a folder of job-' || job", "0"},
    {"join_tokens", "id, record", "'join token ' || id", "0", 6},
    {"certificates", "serial, record", "'certificate ' || serial", "0", 6},
    {"revoked_nodes", "node, record", "'the revocation of ' || node", "0", 6},
};

absl::Status RegisterRowSum(sqlite3* database);

// What a look at all rows found.
struct RowCheck {
  uint64_t state_sum = 0;
  uint64_t rows = 0;
  uint64_t damaged_rows = 0;
  std::vector<std::string> examples;   // "plans: job-17", the first ones
  std::vector<uint64_t> damaged_jobs;  // those that cannot go on without the row
  std::vector<std::string> erase;      // statements that erase the damaged rows of no job
};
// `version`: of the file's schema. Errors: kDataLoss (the file itself is damaged), kUnavailable.
absl::Status CheckRows(sqlite3* database, int64_t version, RowCheck* check);

class RowWriter {
 public:
  RowWriter(sqlite3* database, uint64_t state_sum) : database_(database), state_sum_(state_sum) {}
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  template <typename... Values>
  absl::Status Insert(const std::string& table, const Values&... values) {
    std::string marks;
    for (size_t i = 1; i <= sizeof...(values); ++i) absl::StrAppend(&marks, i == 1 ? "?" : ", ?", i);
    SqlStatement& statement =
        Prepared(absl::StrCat("INSERT INTO ", table, " VALUES (", marks, ", row_sum(", marks, ")) RETURNING sum"));
    return Take(statement.Bind(values...), 1);
  }
  // `text`: "DELETE FROM <table> WHERE ...".
  template <typename... Values>
  absl::Status Erase(const std::string& text, const Values&... values) {
    return Take(Prepared(absl::StrCat(text, " RETURNING sum")).Bind(values...), ~uint64_t{0});
  }

  uint64_t state_sum() const { return state_sum_; }
  // The checksums of all that was written and erased, in order.
  const std::string& written() const { return written_; }

 private:
  SqlStatement& Prepared(const std::string& text);
  // Adds the rows' sums, times `factor`, to the state's.
  absl::Status Take(SqlStatement& statement, uint64_t factor);

  sqlite3* const database_;
  uint64_t state_sum_;
  std::string written_;
  std::map<std::string, std::unique_ptr<SqlStatement>> statements_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_CHECKED_ROWS_H_
