#include "worker/data/array_file.h"

#include <cstring>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/cell_file.h"
#include "worker/data/hdf5_file.h"
#include "worker/data/idx_file.h"
#include "worker/data/inflate_cache.h"
#include "worker/data/nifti_file.h"
#include "worker/data/npy_file.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

constexpr int64_t kCheckedPiece = 4 << 20;

// As the content's first bytes show, but for IDX.
std::string FormatOf(absl::string_view start) {
  const auto begins = [&](absl::string_view with) { return start.substr(0, with.size()) == with; };
  if (begins("\x93NUMPY")) return "npy";
  if (begins(absl::string_view("\x89HDF\r\n\x1a\n", 8))) return "hdf5";
  // 348, or NIfTI-2's 540, in either byte order; its reader says more.
  for (const char* size : {"\x5c\x01\0\0", "\0\0\x01\x5c", "\x1c\x02\0\0", "\0\0\x02\x1c"}) {
    if (begins(absl::string_view(size, 4))) return "nifti";
  }
  return "";
}

// The format, asked for or found.
absl::StatusOr<std::string> FormatOf(const std::string& path, const ArrayFileOptions& options) {
  for (const char* known : {"idx", "npy", "hdf5", "nifti"}) {
    if (options.format == known) return options.format;
  }
  if (!options.format.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("format '", options.format, "' is unknown; right would be idx, npy, hdf5 or nifti"));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  char start[8];
  ADJOIN_ASSIGN_OR_RETURN(const int64_t count, source->Read(start, sizeof(start)));
  std::string format = FormatOf(absl::string_view(start, static_cast<size_t>(count)));
  // HDF5's superblock may come after something else. Two zero bytes are little of a magic.
  if (format.empty() && !source->compressed() && IsHdf5(path)) format = "hdf5";
  if (format.empty() && count >= 2 && start[0] == 0 && start[1] == 0) format = "idx";
  if (!format.empty()) return format;
  return absl::InvalidArgumentError(
      absl::StrCat(source->name(), count == 0 ? ": empty" : ": of no format that can be read",
                   "; right would be IDX or NIfTI-1 (plain or gzip), NPY or HDF5"));
}

absl::StatusOr<StoredArray> ReadHeader(ByteSource& source, const std::string& format) {
  if (format == "idx") return ReadIdxHeader(source);
  if (format == "npy") return ReadNpyHeader(source);
  return ReadNiftiHeader(source);
}

absl::Status CheckLength(const std::string& name, const StoredArray& array, int64_t file_bytes) {
  if (file_bytes == array.EndOfData()) return absl::OkStatus();
  return ArrayLengthError(name, array, file_bytes - array.offset);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayFile>> ArrayFile::Open(const std::string& path, const ArrayFileOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string format, FormatOf(path, options));
  if (format == "hdf5") return OpenHdf5(path, options.name, options.object);
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadHeader(*source, format));
  if (!source->compressed()) {
    ADJOIN_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path, options.name));
    ADJOIN_ASSIGN_OR_RETURN(const int64_t size, file.Size());
    ADJOIN_RETURN_IF_ERROR(CheckLength(file.name(), array, size));
    return std::unique_ptr<ArrayFile>(std::make_unique<CellFile>(std::move(file), std::move(array)));
  }
  InflateRequest request;
  request.path = path;
  request.name = source->name();
  request.bytes = array.EndOfData();
  request.cache_dir = options.cache_dir;
  request.limit = options.cache_bytes;
  request.deadline = Deadline::After(options.inflate_timeout);
  request.stop = options.stop;
  ADJOIN_ASSIGN_OR_RETURN(OpenFile copy, InflatedCopy(request));
  return std::unique_ptr<ArrayFile>(std::make_unique<CellFile>(std::move(copy), std::move(array)));
}

absl::StatusOr<ArrayHeader> ReadArrayHeader(const std::string& path, const ArrayFileOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string format, FormatOf(path, options));
  if (format == "hdf5") {
    ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArrayFile> file, OpenHdf5(path, options.name, options.object));
    return file->header();
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadHeader(*source, format));
  if (!source->compressed()) ADJOIN_RETURN_IF_ERROR(CheckLength(source->name(), array, source->file_bytes()));
  return std::move(array.header);
}

absl::StatusOr<ArrayHeader> CheckArrayFile(const std::string& path, const ArrayFileOptions& options,
                                           CheckLimits* limits) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string format, FormatOf(path, options));
  if (format == "hdf5") return CheckHdf5(path, options.name, options.object, limits);
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadHeader(*source, format));
  if (!source->compressed()) {
    ADJOIN_RETURN_IF_ERROR(CheckLength(source->name(), array, source->file_bytes()));
    return std::move(array.header);
  }
  if (limits != nullptr && array.EndOfData() > limits->bytes) return std::move(array.header);
  for (int64_t left = array.EndOfData() - source->position(); left > 0;) {
    if (limits != nullptr && limits->enough && limits->enough()) return std::move(array.header);
    const int64_t piece = std::min(left, kCheckedPiece);
    ADJOIN_ASSIGN_OR_RETURN(const int64_t got, source->Skip(piece));
    if (limits != nullptr) limits->bytes -= got;
    left -= got;
    if (got < piece) break;
  }
  // One more byte would be trailing; asking for it also reads the gzip stream's end and checksum.
  char next;
  ADJOIN_RETURN_IF_ERROR(source->Read(&next, 1).status());
  ADJOIN_RETURN_IF_ERROR(CheckLength(source->name(), array, source->position()));
  return std::move(array.header);
}

}  // namespace adjoin
