#include "worker/data/idx_file.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

absl::StatusOr<IdxType> ParseType(const std::string& path, int code) {
  switch (static_cast<IdxType>(code)) {
    case IdxType::kUInt8:
    case IdxType::kInt8:
    case IdxType::kInt16:
    case IdxType::kInt32:
    case IdxType::kFloat32:
    case IdxType::kFloat64:
      return static_cast<IdxType>(code);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: IDX type 0x%02x is unknown; known are 0x08 uint8, 0x09 int8, 0x0b int16, 0x0c int32, 0x0d float32, "
      "0x0e float64",
      path, code));
}

// The data's size must be a number: a header may state any extents.
absl::Status CheckSize(const std::string& path, const IdxHeader& header) {
  int64_t bytes = SizeOf(header.type);
  for (int64_t extent : header.shape) {
    if (extent == 0) return absl::OkStatus();
  }
  for (int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return absl::DataLossError(
          absl::StrCat(path, ": its IDX header says ", header.ToString(), ", more bytes than any file has"));
    }
  }
  return absl::OkStatus();
}

CellType CellTypeOf(IdxType type) {
  switch (type) {
    case IdxType::kUInt8:
      return CellType::kUInt8;
    case IdxType::kInt8:
      return CellType::kInt8;
    case IdxType::kInt16:
      return CellType::kInt16;
    case IdxType::kInt32:
      return CellType::kInt32;
    case IdxType::kFloat32:
      return CellType::kFloat32;
    case IdxType::kFloat64:
      return CellType::kFloat64;
  }
  return CellType::kUInt8;
}

absl::StatusOr<IdxHeader> TruncatedHeader(const ByteSource& source) {
  return absl::DataLossError(absl::StrCat(source.name(), ": truncated: ends within its IDX header, after ",
                                          source.position(), " bytes"));
}

}  // namespace

int64_t SizeOf(IdxType type) {
  switch (type) {
    case IdxType::kUInt8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 0;
}

std::string ToString(IdxType type) {
  switch (type) {
    case IdxType::kUInt8:
      return "uint8";
    case IdxType::kInt8:
      return "int8";
    case IdxType::kInt16:
      return "int16";
    case IdxType::kInt32:
      return "int32";
    case IdxType::kFloat32:
      return "float32";
    case IdxType::kFloat64:
      return "float64";
  }
  return "unknown";
}

int64_t IdxHeader::SampleElements() const {
  int64_t elements = 1;
  for (size_t dim = 1; dim < shape.size(); ++dim) {
    if (shape[dim] == 0) return 0;
  }
  // With no samples the other extents have no bound from CheckSize; their product is then never used to allocate.
  for (size_t dim = 1; dim < shape.size(); ++dim) {
    if (__builtin_mul_overflow(elements, shape[dim], &elements)) return INT64_MAX;
  }
  return elements;
}

int64_t IdxHeader::DataBytes() const {
  if (shape[0] == 0) return 0;
  return shape[0] * SampleElements() * SizeOf(type);
}

std::string IdxHeader::ToString() const { return absl::StrCat(absl::StrJoin(shape, "x"), " ", adjoin::ToString(type)); }

absl::StatusOr<IdxHeader> ReadIdxHeader(ByteSource& source) {
  unsigned char magic[4] = {};
  ADJOIN_ASSIGN_OR_RETURN(int64_t count, source.Read(magic, 4));
  if (count == 0) return absl::DataLossError(absl::StrCat(source.name(), ": empty; an IDX file was expected"));
  if (magic[0] != 0 || magic[1] != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: not an IDX file: it starts with %02x %02x%s; right would be 00 00, the type and the number of dims",
        source.name(), magic[0], magic[1], source.compressed() ? " (inflated)" : ""));
  }
  if (count < 4) return TruncatedHeader(source);
  IdxHeader header;
  ADJOIN_ASSIGN_OR_RETURN(header.type, ParseType(source.name(), magic[2]));
  if (magic[3] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name(), ": its IDX header has no dims; right would be one or more, samples first"));
  }
  for (int dim = 0; dim < magic[3]; ++dim) {
    unsigned char extent[4];
    ADJOIN_ASSIGN_OR_RETURN(count, source.Read(extent, 4));
    if (count < 4) return TruncatedHeader(source);
    header.shape.push_back(int64_t{extent[0]} << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
  }
  ADJOIN_RETURN_IF_ERROR(CheckSize(source.name(), header));
  return header;
}

absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path));
  return ReadIdxHeader(*source);
}

absl::StatusOr<StoredArray> ReadIdxArray(ByteSource& source) {
  ADJOIN_ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(source));
  StoredArray array;
  array.header.format = "idx";
  array.header.type = CellTypeOf(header.type);
  array.header.shape = header.shape;
  array.offset = header.bytes();
  array.big_endian = true;
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(source.name(), array.header, array.offset));
  return array;
}

absl::Status IdxLengthError(const std::string& path, const IdxHeader& header, int64_t found) {
  const int64_t expected = header.DataBytes();
  if (found < expected) {
    return absl::DataLossError(absl::StrCat(path, ": truncated: its header says ", header.ToString(), ", so ", expected,
                                            " bytes of data were expected, found ", found));
  }
  return absl::DataLossError(absl::StrCat(path, ": trailing bytes: its header says ", header.ToString(), ", so ",
                                          expected, " bytes of data were expected, but more follow"));
}

absl::StatusOr<IdxHeader> ProbeIdx(const std::string& path, const std::string& name) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path, name));
  ADJOIN_ASSIGN_OR_RETURN(IdxHeader header, ReadIdxHeader(*source));
  int64_t found = source->file_bytes() - header.bytes();
  if (source->compressed()) {
    ADJOIN_ASSIGN_OR_RETURN(found, source->Skip(header.DataBytes()));
    // One more byte would be trailing; asking for it also reads the gzip stream's end and checksum.
    char next;
    ADJOIN_ASSIGN_OR_RETURN(const int64_t more, source->Read(&next, 1));
    found += more;
  }
  if (found != header.DataBytes()) return IdxLengthError(source->name(), header, found);
  return header;
}

}  // namespace adjoin
