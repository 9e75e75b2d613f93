#include "worker/data/idx_file.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/header_then_cells.h"

namespace adjoin {
namespace {

constexpr char kIdxName[] = "idx";

absl::StatusOr<CellType> ParseType(const std::string& name, int code) {
  switch (static_cast<IdxType>(code)) {
    case IdxType::kUInt8: return CellType::kUInt8;
    case IdxType::kInt8: return CellType::kInt8;
    case IdxType::kInt16: return CellType::kInt16;
    case IdxType::kInt32: return CellType::kInt32;
    case IdxType::kFloat32: return CellType::kFloat32;
    case IdxType::kFloat64: return CellType::kFloat64;
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: IDX type 0x%02x is unknown; known are 0x08 uint8, 0x09 int8, 0x0b int16, 0x0c int32, 0x0d float32, "
      "0x0e float64",
      name, code));
}

absl::Status TruncatedHeader(const ByteSource& source) {
  return absl::DataLossError(
      absl::StrCat(source.name(), ": truncated: ends within its IDX header, after ", source.position(), " bytes"));
}

absl::StatusOr<StoredArray> ReadIdxHeader(ByteSource& source) {
  unsigned char magic[4] = {};
  ADJOIN_ASSIGN_OR_RETURN(int64_t count, source.Read(magic, 4));
  if (count == 0) return absl::DataLossError(absl::StrCat(source.name(), ": empty; an IDX file was expected"));
  if (magic[0] != 0 || magic[1] != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: not an IDX file: it starts with %02x %02x%s; right would be 00 00, the type and the number of dims",
        source.name(), magic[0], magic[1], source.compressed() ? " (inflated)" : ""));
  }
  if (count < 4) return TruncatedHeader(source);
  StoredArray array;
  array.header.format = kIdxName;
  array.big_endian = true;
  ADJOIN_ASSIGN_OR_RETURN(array.header.type, ParseType(source.name(), magic[2]));
  if (magic[3] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name(), ": its IDX header has no dims; right would be one or more, samples first"));
  }
  for (int dim = 0; dim < magic[3]; ++dim) {
    unsigned char extent[4];
    ADJOIN_ASSIGN_OR_RETURN(count, source.Read(extent, 4));
    if (count < 4) return TruncatedHeader(source);
    array.header.shape.push_back(int64_t{extent[0]} << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
  }
  array.offset = source.position();
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(source.name(), array.header, array.offset));
  return array;
}

}  // namespace

ArrayFormat IdxFormat() {
  // Two zero bytes are little of a magic.
  const auto sniff = [](const FileStart& start) {
    return start.bytes.size() >= 2 && start.bytes[0] == 0 && start.bytes[1] == 0 ? Likeness::kMaybe : Likeness::kNo;
  };
  return HeaderThenCells({.name = kIdxName, .title = "IDX", .extension = ".idx", .sniff = sniff}, ReadIdxHeader);
}

}  // namespace adjoin
