#include "coordinator/store/checked_rows.h"

#include <xxhash.h>

#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kMostExamples = 5;

// Each value is hashed with its type and length, so that no two rows have the same bytes.
void RowSum(sqlite3_context* context, int count, sqlite3_value** values) {
  std::string bytes;
  const auto add = [&bytes](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); };
  for (int i = 0; i < count; ++i) {
    const int64_t type = sqlite3_value_type(values[i]);
    const bool is_integer = type == SQLITE_INTEGER;
    const void* data = is_integer ? nullptr : sqlite3_value_blob(values[i]);
    const int64_t value = is_integer ? sqlite3_value_int64(values[i]) : sqlite3_value_bytes(values[i]);
    add(&type, sizeof(type));
    add(&value, sizeof(value));
    if (data != nullptr) add(data, static_cast<size_t>(value));
  }
  sqlite3_result_int64(context, static_cast<int64_t>(XXH3_64bits(bytes.data(), bytes.size())));
}

}  // namespace

absl::Status RegisterRowSum(sqlite3* database) {
  const int code = sqlite3_create_function_v2(database, "row_sum", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                                              &RowSum, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqlError(database);
}

absl::Status CheckRows(sqlite3* database, int64_t version, RowCheck* check) {
  for (const CheckedTable& table : kCheckedTables) {
    if (table.since > version) continue;
    SqlStatement rows(database, absl::StrCat("SELECT sum, row_sum(", table.columns, "), ", table.row, ", ", table.job,
                                             " FROM ", table.name)
                                    .c_str());
    bool damaged = false;
    while (rows.Next()) {
      ++check->rows;
      check->state_sum += static_cast<uint64_t>(rows.Integer(0));
      if (rows.Integer(0) == rows.Integer(1)) continue;
      damaged = true;
      ++check->damaged_rows;
      if (check->examples.size() < kMostExamples) {
        check->examples.push_back(absl::StrCat(table.name, ": ", rows.Bytes(2)));
      }
      if (rows.Integer(3) != 0) check->damaged_jobs.push_back(static_cast<uint64_t>(rows.Integer(3)));
    }
    ADJOIN_RETURN_IF_ERROR(rows.status());
    if (damaged) {
      check->erase.push_back(absl::StrCat("DELETE FROM ", table.name, " WHERE sum <> row_sum(", table.columns, ")"));
    }
  }
  return absl::OkStatus();
}

SqlStatement& RowWriter::Prepared(const std::string& text) {
  std::unique_ptr<SqlStatement>& statement = statements_[text];
  if (statement == nullptr) statement = std::make_unique<SqlStatement>(database_, text.c_str());
  return *statement;
}

absl::Status RowWriter::Take(SqlStatement& statement, uint64_t factor) {
  while (statement.Next()) {
    const uint64_t sum = static_cast<uint64_t>(statement.Integer(0));
    state_sum_ += factor * sum;
    const uint64_t written[2] = {factor, sum};
    written_.append(reinterpret_cast<const char*>(written), sizeof(written));
  }
  return statement.status();
}

}  // namespace adjoin
