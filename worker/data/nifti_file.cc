#include "worker/data/nifti_file.h"

#include <cmath>
#include <cstring>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/header_then_cells.h"

namespace adjoin {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are kept little-endian and not converted");

constexpr char kNiftiName[] = "nifti";
constexpr int kHeaderBytes = 348;
constexpr int kNifti2HeaderBytes = 540;
constexpr int kFirstCell = 352;  // at the earliest: four bytes after the header announce extensions
constexpr int kMaxNiftiDims = 7;
constexpr int64_t kMaxExtent = 32767;

// Where a field is in the header, how many numbers it has and of which size.
struct Fields {
  int offset;
  int count;
  int size;
};
constexpr Fields kSizeofHdr{0, 1, 4}, kDim{40, 8, 2}, kIntent{56, 3, 4}, kIntentCode{68, 1, 2}, kDatatype{70, 1, 2},
    kBitpix{72, 1, 2}, kPixdim{76, 8, 4}, kVoxOffset{108, 1, 4}, kSclSlope{112, 1, 4}, kSclInter{116, 1, 4},
    kCalMax{124, 1, 4}, kGlMax{140, 1, 4};
constexpr int kIntentName = 328;  // text, up to the magic
constexpr int kMagicOffset = 344;
// Every field of more than one byte, to turn a header's byte order: extents, session_error, dim, intent_p, intent_code
// to slice_start, pixdim to scl_inter, slice_end, cal_max to glmin, qform_code and sform_code, quatern_b to srow_z.
constexpr Fields kNumbers[] = {{0, 1, 4},   {32, 1, 4},  {36, 1, 2},  {40, 8, 2},  {56, 3, 4},  {68, 4, 2},
                               {76, 11, 4}, {120, 1, 2}, {124, 6, 4}, {252, 2, 2}, {256, 18, 4}};

const std::pair<CellType, int> kTypeCodes[] = {
    {CellType::kUInt8, 2},    {CellType::kInt16, 4},     {CellType::kInt32, 8},    {CellType::kFloat32, 16},
    {CellType::kFloat64, 64}, {CellType::kInt8, 256},    {CellType::kUInt16, 512}, {CellType::kUInt32, 768},
    {CellType::kInt64, 1024}, {CellType::kUInt64, 1280},
};

template <typename Number>
Number Get(const std::string& header, const Fields& field, int index = 0) {
  Number number;
  std::memcpy(&number, header.data() + field.offset + index * field.size, sizeof(number));
  return number;
}

template <typename Number>
void Set(std::string& header, const Fields& field, int index, Number number) {
  std::memcpy(&header[field.offset + index * field.size], &number, sizeof(number));
}

void TurnByteOrder(std::string& header) {
  for (const Fields& field : kNumbers) {
    for (int i = 0; i < field.count; ++i) {
      const auto begin = header.begin() + field.offset + i * field.size;
      std::reverse(begin, begin + field.size);
    }
  }
}

std::string TypeName(int code) {
  switch (code) {
    case 1: return "single bits";
    case 32:
    case 1792:
    case 2048: return "complex numbers";
    case 128:
    case 2304: return "colours (RGB)";
    case 1536: return "128-bit floating point numbers";
  }
  return "cells of an unknown type";
}

// Checks by the header's size and magic that the file is NIfTI-1 with header and cells; turns the header to
// little-endian.
absl::Status CheckKind(const std::string& name, std::string& header, bool& big_endian) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
  };
  int32_t size = Get<int32_t>(header, kSizeofHdr);
  big_endian = size != kHeaderBytes && size != kNifti2HeaderBytes;
  if (big_endian) size = static_cast<int32_t>(__builtin_bswap32(static_cast<uint32_t>(size)));
  if (size == kNifti2HeaderBytes) {
    return refuse("a NIfTI-2 file, which cannot be read; right would be NIfTI-1 (magic n+1)");
  }
  if (size != kHeaderBytes) {
    return refuse("not a NIfTI-1 file: it does not start with 348, the size of the header, in either byte order");
  }
  if (header.size() < kHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat(name, ": truncated: ends within its NIfTI header, after ", header.size(), " bytes"));
  }
  const std::string magic = header.substr(kMagicOffset, 4);
  if (magic == std::string("ni1\0", 4)) {
    return refuse("the header of a pair of .hdr and .img files, which cannot be read; right would be one .nii file");
  }
  if (magic != std::string("n+1\0", 4)) {
    return refuse("not a NIfTI-1 file: it has no magic n+1 (an ANALYZE 7.5 file?); convert it to .nii");
  }
  if (big_endian) TurnByteOrder(header);
  return absl::OkStatus();
}

absl::Status ParseShape(const std::string& name, const std::string& header, StoredArray& array) {
  const int dims = Get<int16_t>(header, kDim);
  if (dims < 1 || dims > kMaxNiftiDims) {
    return absl::DataLossError(absl::StrCat(name, ": bad NIfTI header: ", dims, " dims; right would be 1 to 7"));
  }
  for (int dim = dims; dim >= 1; --dim) {
    const int extent = Get<int16_t>(header, kDim, dim);
    if (extent < 1) {
      return absl::DataLossError(
          absl::StrCat(name, ": bad NIfTI header: extent ", extent, " in dim ", dim, "; right would be 1 or more"));
    }
    array.header.shape.push_back(extent);
  }
  return absl::OkStatus();
}

absl::Status ParseType(const std::string& name, const std::string& header, StoredArray& array) {
  const int code = Get<int16_t>(header, kDatatype);
  const auto* type = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                  [&](const auto& known) { return known.second == code; });
  if (type == std::end(kTypeCodes)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": holds ", TypeName(code), " (NIfTI datatype ", code,
                                                   "), which cannot be read; right would be (u)int8 to (u)int64, "
                                                   "float32 or float64"));
  }
  array.header.type = type->first;
  const int bits = Get<int16_t>(header, kBitpix);
  if (bits != 8 * SizeOf(type->first)) {
    return absl::DataLossError(absl::StrCat(name, ": bad NIfTI header: cells of ", bits, " bits, but ",
                                            ToString(type->first), " has ", 8 * SizeOf(type->first)));
  }
  return absl::OkStatus();
}

absl::Status ParseOffsetAndScale(const std::string& name, const std::string& header, StoredArray& array) {
  const auto bad = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(name, ": bad NIfTI header: ", what));
  };
  const float offset = Get<float>(header, kVoxOffset);
  // The largest float below 2^63 is still a position.
  if (!(offset >= 0) || offset >= 9.2e18F || offset != std::floor(offset) || (offset != 0 && offset < kFirstCell)) {
    return bad(absl::StrCat("data from byte ", offset, "; right would be 352 or more (or 0, which means 352)"));
  }
  array.offset = offset == 0 ? kFirstCell : static_cast<int64_t>(offset);
  const float slope = Get<float>(header, kSclSlope);
  const float intercept = Get<float>(header, kSclInter);
  // A slope of 0 (some programs write NaN) means that cells are not scaled.
  if (slope == 0 || std::isnan(slope)) return absl::OkStatus();
  if (!std::isfinite(slope) || !std::isfinite(intercept)) {
    return bad(absl::StrCat("scl_slope ", slope, " and scl_inter ", intercept, "; right would be finite numbers"));
  }
  array.header.slope = slope;
  array.header.intercept = intercept;
  return absl::OkStatus();
}

absl::StatusOr<StoredArray> ReadNiftiHeader(ByteSource& source) {
  const std::string& name = source.name();
  std::string header(kHeaderBytes, '\0');
  ADJOIN_ASSIGN_OR_RETURN(const int64_t count, source.Read(header.data(), kHeaderBytes));
  if (count == 0) return absl::DataLossError(absl::StrCat(name, ": empty; a NIfTI file was expected"));
  if (count < 4) {
    return absl::DataLossError(
        absl::StrCat(name, ": truncated: ends within its NIfTI header, after ", count, " bytes"));
  }
  header.resize(static_cast<size_t>(count));
  StoredArray array;
  array.header.format = kNiftiName;
  ADJOIN_RETURN_IF_ERROR(CheckKind(name, header, array.big_endian));
  ADJOIN_RETURN_IF_ERROR(ParseShape(name, header, array));
  ADJOIN_RETURN_IF_ERROR(ParseType(name, header, array));
  ADJOIN_RETURN_IF_ERROR(ParseOffsetAndScale(name, header, array));
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(name, array.header, array.offset));
  array.header.nifti = std::move(header);
  return array;
}

// The header of options.nifti, or an empty one, with the fields that follow from the cells.
absl::StatusOr<std::string> NiftiHeaderBytes(CellType type, const std::vector<int64_t>& shape,
                                             const ArrayWriterOptions& options) {
  const std::string& kept = options.nifti;
  const auto* code = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                  [&](const auto& known) { return known.first == type; });
  if (code == std::end(kTypeCodes)) {
    return absl::InvalidArgumentError(absl::StrCat("NIfTI-1 has no ", ToString(type), "; right would be float32"));
  }
  const int dims = static_cast<int>(shape.size());
  if (dims < 1 || dims > kMaxNiftiDims ||
      std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 1 || extent > kMaxExtent; })) {
    return absl::InvalidArgumentError(absl::StrCat("NIfTI-1 has 1 to 7 dims of 1 to ", kMaxExtent,
                                                   " cells, which these are not; right would be NPY or HDF5"));
  }
  std::string header = kept;
  int kept_dims = 0;
  if (kept.empty()) {
    header.assign(kHeaderBytes, '\0');
    Set<float>(header, kPixdim, 0, 1);
    header[38] = 'r';  // "regular", for ANALYZE's sake
    header[123] = 2;   // spacing in mm
  } else if (kept.size() != kHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a NIfTI-1 header has 348 bytes, that to keep has ", kept.size()));
  } else {
    kept_dims = std::min<int>(std::max<int>(Get<int16_t>(header, kDim), 0), kMaxNiftiDims);
  }
  Set<int32_t>(header, kSizeofHdr, 0, kHeaderBytes);
  Set<int16_t>(header, kDim, 0, static_cast<int16_t>(dims));
  for (int dim = 1; dim <= kMaxNiftiDims; ++dim) {
    Set<int16_t>(header, kDim, dim, dim <= dims ? static_cast<int16_t>(shape[dims - dim]) : 1);
    if (dim > kept_dims) Set<float>(header, kPixdim, dim, 1);
  }
  Set<int16_t>(header, kDatatype, 0, static_cast<int16_t>(code->second));
  Set<int16_t>(header, kBitpix, 0, static_cast<int16_t>(8 * SizeOf(type)));
  Set<float>(header, kVoxOffset, 0, kFirstCell);
  Set<float>(header, kSclSlope, 0, 1);
  Set<float>(header, kSclInter, 0, 0);
  // The meaning and brightness of the input's cells need not hold for these cells.
  Set<int16_t>(header, kIntentCode, 0, 0);
  for (int i = 0; i < kIntent.count; ++i) Set<float>(header, kIntent, i, 0);
  for (int i = 0; i < 2; ++i) Set<float>(header, kCalMax, i, 0);
  for (int i = 0; i < 2; ++i) Set<int32_t>(header, kGlMax, i, 0);
  header.replace(kIntentName, kMagicOffset - kIntentName, kMagicOffset - kIntentName, '\0');
  std::memcpy(&header[kMagicOffset], "n+1", 4);
  return header + std::string(4, '\0');  // no extensions
}

// A header begins with its size: 348, or 540 for NIfTI-2, which the reader refuses by name; in either byte order.
Likeness SniffNifti(const FileStart& start) {
  for (const char* size : {"\x5c\x01\0\0", "\0\0\x01\x5c", "\x1c\x02\0\0", "\0\0\x02\x1c"}) {
    if (absl::StartsWith(start.bytes, absl::string_view(size, 4))) return Likeness::kYes;
  }
  return Likeness::kNo;
}

}  // namespace

ArrayFormat NiftiFormat() {
  return HeaderThenCells(
      {
          .name = kNiftiName,
          .title = "NIfTI-1",
          .extension = ".nii",
          .volume_dims = {"t", "z", "y", "x"},
          .shape_hint =
              "a NIfTI file's extents are in the order of its memory, [z, y, x], which is nibabel's shape reversed",
          .sniff = SniffNifti,
      },
      ReadNiftiHeader, NiftiHeaderBytes);
}

}  // namespace adjoin
