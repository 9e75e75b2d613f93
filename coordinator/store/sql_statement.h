// One SQLite statement: bound, run, read, finalized with its scope.
//
//   SqlStatement insert(database, "INSERT INTO jobs VALUES (?, ?)");
//   ADJOIN_RETURN_IF_ERROR(insert.Bind(17, "lenet5").Run());
//
//   SqlStatement select(database, "SELECT name FROM jobs WHERE number = ?");
//   select.Bind(17);
//   while (select.Next()) use(select.Text(0));
//   ADJOIN_RETURN_IF_ERROR(select.status());
//
// One thread.
#ifndef ADJOIN_COORDINATOR_STORE_SQL_STATEMENT_H_
#define ADJOIN_COORDINATOR_STORE_SQL_STATEMENT_H_

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

// Returns the last error of `database`. Another try may succeed after kUnavailable (a full disk, an error of the
// device), and cannot after kDataLoss (the file is damaged), kInvalidArgument (a value that is too large for a row)
// and kInternal (rows that contradict each other, a wrong call).
inline absl::Status SqlError(sqlite3* database) {
  const char* message = sqlite3_errmsg(database);
  switch (sqlite3_extended_errcode(database)) {
    case SQLITE_IOERR_CORRUPTFS:
    case SQLITE_READONLY_DBMOVED: return absl::DataLossError(absl::StrCat("the store cannot be used: ", message));
    default: break;
  }
  switch (sqlite3_errcode(database) & 0xff) {  // without SQLite's extension of the code
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::DataLossError(absl::StrCat("the store cannot be used: ", message));
    case SQLITE_TOOBIG: return absl::InvalidArgumentError(absl::StrCat("too large for the store: ", message));
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_MISUSE:
    case SQLITE_RANGE: return absl::InternalError(absl::StrCat("the store refuses what was to be written: ", message));
    default: return absl::UnavailableError(absl::StrCat("the store cannot be used: ", message));
  }
}

class SqlStatement {
 public:
  SqlStatement(sqlite3* database, const char* text) : database_(database) {
    if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr) != SQLITE_OK) status_ = SqlError(database);
  }
  ~SqlStatement() { sqlite3_finalize(statement_); }
  SqlStatement(const SqlStatement&) = delete;
  SqlStatement& operator=(const SqlStatement&) = delete;

  // Starts anew with these values: integers, strings as text, Blob as bytes.
  struct Blob {
    const std::string& bytes;
  };
  template <typename... Values>
  SqlStatement& Bind(const Values&... values) {
    if (!status_.ok()) return *this;
    sqlite3_reset(statement_);
    int index = 0;
    (BindOne(++index, values), ...);
    return *this;
  }

  // Runs a statement without rows to its end.
  absl::Status Run() {
    while (Next()) {
    }
    return status_;
  }
  // Goes to the next row; returns false at the end, and after an error.
  bool Next() {
    if (!status_.ok()) return false;
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) status_ = SqlError(database_);
    return code == SQLITE_ROW;
  }
  const absl::Status& status() const { return status_; }

  // The values of the row. Columns count from 0.
  int64_t Integer(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  }

 private:
  void BindOne(int index, const std::string& text) {
    Check(sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  }
  void BindOne(int index, const Blob& blob) {
    Check(sqlite3_bind_blob64(statement_, index, blob.bytes.data(), blob.bytes.size(), SQLITE_TRANSIENT));
  }
  template <typename Integer, std::enable_if_t<std::is_integral_v<Integer> || std::is_enum_v<Integer>, int> = 0>
  void BindOne(int index, Integer value) {
    Check(sqlite3_bind_int64(statement_, index, static_cast<int64_t>(value)));
  }
  void Check(int code) {
    if (code != SQLITE_OK) status_ = SqlError(database_);
  }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  absl::Status status_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_SQL_STATEMENT_H_
