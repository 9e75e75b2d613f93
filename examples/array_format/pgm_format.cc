#include "examples/array_format/pgm_format.h"

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/header_then_cells.h"

namespace adjoin {
namespace {

constexpr char kName[] = "pgm";
constexpr int64_t kMostValue = 65535;
constexpr size_t kMostDigits = 10;

// Reads a number and the one white space after it; skips white space and comments before it.
absl::StatusOr<int64_t> ReadNumber(ByteSource& source) {
  std::string digits;
  bool comment = false;
  for (;;) {
    char c;
    ADJOIN_ASSIGN_OR_RETURN(const int64_t count, source.Read(&c, 1));
    if (count == 0) return absl::DataLossError(absl::StrCat(source.name(), ": truncated: ends within its PGM header"));
    comment = c == '#' || (comment && c != '\n');
    const bool space = absl::ascii_isspace(static_cast<unsigned char>(c));
    if (!comment && !space) digits += c;
    if ((space && !digits.empty()) || digits.size() > kMostDigits) break;
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(digits, &number) && number > 0) return number;
  return absl::DataLossError(
      absl::StrCat(source.name(), ": bad PGM header: '", digits, "'; right would be a number above 0"));
}

absl::StatusOr<StoredArray> ReadPgmHeader(ByteSource& source) {
  char magic[2] = {};
  ADJOIN_RETURN_IF_ERROR(source.Read(magic, 2).status());
  if (magic[0] != 'P' || magic[1] != '5') {
    return absl::InvalidArgumentError(absl::StrCat(source.name(), ": not a PGM image: it does not start with P5"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int64_t width, ReadNumber(source));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t height, ReadNumber(source));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t most, ReadNumber(source));
  if (most > kMostValue) {
    return absl::DataLossError(
        absl::StrCat(source.name(), ": bad PGM header: largest value ", most, "; right would be 1 to ", kMostValue));
  }
  StoredArray array;
  array.header.format = kName;
  array.header.type = most < 256 ? CellType::kUInt8 : CellType::kUInt16;
  array.header.shape = {height, width};
  array.big_endian = true;
  array.offset = source.position();
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(source.name(), array.header, array.offset));
  return array;
}

Likeness Sniff(const FileStart& start) {
  const bool begins = start.bytes.size() > 2 && start.bytes.substr(0, 2) == "P5";
  return begins && absl::ascii_isspace(static_cast<unsigned char>(start.bytes[2])) ? Likeness::kYes : Likeness::kNo;
}

}  // namespace

ArrayFormat PgmFormat() {
  return HeaderThenCells({.name = kName, .title = "PGM", .extension = ".pgm", .sniff = Sniff}, ReadPgmHeader);
}

}  // namespace adjoin
