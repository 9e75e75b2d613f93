#include "worker/data/array_writer.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/data/box_runs.h"
#include "worker/data/byte_source.h"
#include "worker/data/hdf5_file.h"
#include "worker/data/nifti_file.h"
#include "worker/data/npy_file.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

absl::Status CheckFormat(const std::string& path, const std::string& format) {
  if (format == "npy" || format == "nifti" || format == "hdf5") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": format '", format, "' cannot be written; right would be npy, nifti or hdf5"));
}

absl::Status WriteAt(const std::string& path, int fd, int64_t offset, const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = pwrite(fd, from, static_cast<size_t>(std::min<int64_t>(bytes, 1 << 30)), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ErrnoStatus(errno, path);
    from += done;
    offset += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

// The disk's blocks are the file's from now on, so that a full disk is found at once.
absl::Status Allocate(const std::string& path, int fd, int64_t bytes) {
  if (bytes == 0 || fallocate(fd, 0, 0, bytes) == 0) return absl::OkStatus();
  if (errno != EOPNOTSUPP) return ErrnoStatus(errno, absl::StrCat(path, " (", bytes, " bytes)"));
  return ftruncate(fd, bytes) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
}

// Makes all but the cells.
absl::StatusOr<StoredArray> MakeFile(const std::string& path, const std::string& format, CellType type,
                                     const std::vector<int64_t>& shape, const ArrayWriterOptions& options) {
  StoredArray array;
  array.header.format = format;
  array.header.type = type;
  array.header.shape = shape;
  std::string start;
  if (format == "npy") start = NpyHeaderBytes(type, shape);
  if (format == "nifti") {
    ADJOIN_ASSIGN_OR_RETURN(start, NiftiHeaderBytes(type, shape, options.nifti));
  }
  array.offset = static_cast<int64_t>(start.size());
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(path, array.header, array.offset));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, path);
  const OpenFile file(fd, path);
  if (format == "hdf5") {
    ADJOIN_ASSIGN_OR_RETURN(array, CreateHdf5(path, options.object, type, shape));
  } else {
    ADJOIN_RETURN_IF_ERROR(WriteAt(path, fd, 0, start.data(), static_cast<int64_t>(start.size())));
  }
  ADJOIN_RETURN_IF_ERROR(Allocate(path, fd, array.EndOfData()));
  return array;
}

absl::StatusOr<StoredArray> FindFile(const std::string& path, const std::string& format, const std::string& object) {
  if (format == "hdf5") return ReadHdf5Place(path, object);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(path));
  return format == "npy" ? ReadNpyHeader(*source) : ReadNiftiHeader(*source);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayWriter>> ArrayWriter::Create(const std::string& path, const std::string& format,
                                                                 CellType type, const std::vector<int64_t>& shape,
                                                                 const ArrayWriterOptions& options) {
  ADJOIN_RETURN_IF_ERROR(CheckFormat(path, format));
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a negative extent"));
  }
  std::unique_ptr<ArrayWriter> writer(new ArrayWriter(path));
  writer->creator_ = true;
  absl::StatusOr<StoredArray> array = MakeFile(writer->temporary_, format, type, shape, options);
  if (!array.ok()) {
    return absl::Status(array.status().code(),
                        absl::StrCat(path, " cannot be made: ", std::string(array.status().message())));
  }
  writer->array_ = *std::move(array);
  writer->fd_ = open(writer->temporary_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (writer->fd_ < 0) return ErrnoStatus(errno, writer->temporary_);
  return writer;
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> ArrayWriter::Open(const std::string& path, const std::string& format,
                                                               CellType type, const std::vector<int64_t>& shape,
                                                               const ArrayWriterOptions& options) {
  ADJOIN_RETURN_IF_ERROR(CheckFormat(path, format));
  std::unique_ptr<ArrayWriter> writer(new ArrayWriter(path));
  ADJOIN_ASSIGN_OR_RETURN(writer->array_, FindFile(writer->temporary_, format, options.object));
  const ArrayHeader& header = writer->array_.header;
  if (header.type != type || header.shape != shape || writer->array_.big_endian || header.fortran) {
    ArrayHeader wanted;
    wanted.type = type;
    wanted.shape = shape;
    return absl::InvalidArgumentError(absl::StrCat(writer->temporary_, " is there for ", header.ToString(),
                                                   ", this rank writes ", wanted.ToString()));
  }
  writer->fd_ = open(writer->temporary_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (writer->fd_ < 0) return ErrnoStatus(errno, writer->temporary_);
  return writer;
}

ArrayWriter::~ArrayWriter() {
  if (fd_ >= 0) close(fd_);
  if (creator_) unlink(temporary_.c_str());
}

absl::Status ArrayWriter::Write(const Box& box, const void* cells) {
  const ArrayHeader& header = array_.header;
  ADJOIN_RETURN_IF_ERROR(CheckBox(path_, header, box));
  const int64_t size = SizeOf(header.type);
  const char* from = static_cast<const char*>(cells);
  finished_ = false;
  return ForEachRun(header.shape, box, [&](const CellRun& run) {
    const int64_t bytes = run.count * size;
    absl::Status status = WriteAt(temporary_, fd_, array_.offset + run.first * size, from, bytes);
    from += bytes;
    return status;
  });
}

absl::Status ArrayWriter::Finish() {
  if (fsync(fd_) != 0) return ErrnoStatus(errno, temporary_);
  finished_ = true;
  return absl::OkStatus();
}

absl::Status ArrayWriter::Publish() {
  if (!creator_) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": only the rank that created it publishes it, once"));
  }
  if (!finished_) return absl::FailedPreconditionError(absl::StrCat(path_, ": is published before it was finished"));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, path_);
  creator_ = false;
  // The name is safe only once the folder is.
  const std::string folder = FolderOf(path_);
  const int error = SyncFolder(folder);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, folder);
}

}  // namespace adjoin
