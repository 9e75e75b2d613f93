#include "worker/data/header_then_cells.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/deadline.h"
#include "base/status_macros.h"
#include "worker/data/cell_file.h"
#include "worker/data/inflate_cache.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

constexpr int64_t kCheckedPiece = 4 << 20;

absl::Status CheckLength(const std::string& name, const StoredArray& array, int64_t file_bytes) {
  if (file_bytes == array.EndOfData()) return absl::OkStatus();
  return ArrayLengthError(name, array, file_bytes - array.offset);
}

absl::StatusOr<std::unique_ptr<ArrayFile>> Open(const ReadHeader& read_header, const std::string& path,
                                                const ArrayFileOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, read_header(*source));
  if (!source->compressed()) {
    ADJOIN_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path, options.name));
    ADJOIN_ASSIGN_OR_RETURN(const int64_t size, file.Size());
    ADJOIN_RETURN_IF_ERROR(CheckLength(file.name(), array, size));
    return std::unique_ptr<ArrayFile>(std::make_unique<CellFile>(std::move(file), std::move(array)));
  }
  const InflateRequest request{
      .path = path,
      .name = source->name(),
      .bytes = array.EndOfData(),
      .cache_dir = options.cache_dir,
      .limit = options.cache_bytes,
      .deadline = Deadline::After(options.inflate_timeout),
      .stop = options.stop,
  };
  ADJOIN_ASSIGN_OR_RETURN(OpenFile copy, InflatedCopy(request));
  return std::unique_ptr<ArrayFile>(std::make_unique<CellFile>(std::move(copy), std::move(array)));
}

absl::StatusOr<ArrayHeader> Header(const ReadHeader& read_header, const std::string& path,
                                   const ArrayFileOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, read_header(*source));
  if (!source->compressed()) ADJOIN_RETURN_IF_ERROR(CheckLength(source->name(), array, source->file_bytes()));
  return std::move(array.header);
}

absl::StatusOr<ArrayHeader> Check(const ReadHeader& read_header, const std::string& path,
                                  const ArrayFileOptions& options, CheckLimits* limits) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path, options.name));
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, read_header(*source));
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

absl::StatusOr<StoredArray> Create(const std::string& name, const HeaderBytes& header_bytes, const std::string& path,
                                   int fd, CellType type, const std::vector<int64_t>& shape,
                                   const ArrayWriterOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string start, header_bytes(type, shape, options));
  StoredArray array;
  array.header.format = name;
  array.header.type = type;
  array.header.shape = shape;
  array.offset = static_cast<int64_t>(start.size());
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(path, array.header, array.offset));
  ADJOIN_RETURN_IF_ERROR(WriteAt(path, fd, 0, start.data(), array.offset));
  return array;
}

}  // namespace

ArrayFormat HeaderThenCells(ArrayFormat format, ReadHeader read_header, HeaderBytes header_bytes) {
  format.header = [read_header](const std::string& path, const ArrayFileOptions& options) {
    return Header(read_header, path, options);
  };
  format.open = [read_header](const std::string& path, const ArrayFileOptions& options) {
    return Open(read_header, path, options);
  };
  format.check = [read_header](const std::string& path, const ArrayFileOptions& options, CheckLimits* limits) {
    return Check(read_header, path, options, limits);
  };
  if (header_bytes == nullptr) return format;
  format.create = [name = format.name, header_bytes](const std::string& path, int fd, CellType type,
                                                     const std::vector<int64_t>& shape,
                                                     const ArrayWriterOptions& options) {
    return Create(name, header_bytes, path, fd, type, shape, options);
  };
  format.find = [read_header](const std::string& path, const ArrayWriterOptions&) -> absl::StatusOr<StoredArray> {
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path));
    return read_header(*source);
  };
  return format;
}

}  // namespace adjoin
