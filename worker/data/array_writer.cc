#include "worker/data/array_writer.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/data/array_formats.h"
#include "worker/data/box_runs.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

// Takes the disk's blocks for the file now, so that a full disk is found at once.
absl::Status Allocate(const std::string& path, int fd, int64_t bytes) {
  if (bytes == 0 || fallocate(fd, 0, 0, bytes) == 0) return absl::OkStatus();
  if (errno != EOPNOTSUPP) return ErrnoStatus(errno, absl::StrCat(path, " (", bytes, " bytes)"));
  return ftruncate(fd, bytes) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
}

absl::StatusOr<const ArrayFormat*> WrittenFormat(const std::string& path, const std::string& name,
                                                 const ArrayFormats& formats) {
  const absl::StatusOr<const ArrayFormat*> format = formats.Written(name);
  if (format.ok()) return format;
  return absl::Status(format.status().code(), absl::StrCat(path, ": ", std::string(format.status().message())));
}

// Makes all but the cells.
absl::StatusOr<StoredArray> MakeFile(const std::string& path, const ArrayFormat& format, CellType type,
                                     const std::vector<int64_t>& shape, const ArrayWriterOptions& options) {
  ArrayHeader wanted;
  wanted.format = format.name;
  wanted.type = type;
  wanted.shape = shape;
  ADJOIN_RETURN_IF_ERROR(CheckArraySize(path, wanted, 0));
  const OpenFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644), path);
  if (file.fd() < 0) return ErrnoStatus(errno, path);
  ADJOIN_ASSIGN_OR_RETURN(StoredArray array, format.create(path, file.fd(), type, shape, options));
  ADJOIN_RETURN_IF_ERROR(Allocate(path, file.fd(), array.EndOfData()));
  return array;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayWriter>> ArrayWriter::Create(const std::string& path, const std::string& format,
                                                                 CellType type, const std::vector<int64_t>& shape,
                                                                 const ArrayWriterOptions& options,
                                                                 const ArrayFormats& formats) {
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const found, WrittenFormat(path, format, formats));
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a negative extent"));
  }
  std::unique_ptr<ArrayWriter> writer(new ArrayWriter(path));
  writer->creator_ = true;
  absl::StatusOr<StoredArray> array = MakeFile(writer->temporary_, *found, type, shape, options);
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
                                                               const ArrayWriterOptions& options,
                                                               const ArrayFormats& formats) {
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const found, WrittenFormat(path, format, formats));
  std::unique_ptr<ArrayWriter> writer(new ArrayWriter(path));
  ADJOIN_ASSIGN_OR_RETURN(writer->array_, found->find(writer->temporary_, options));
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
  ADJOIN_RETURN_IF_ERROR(ReplaceFile(temporary_, path_));
  creator_ = false;
  // The name is safe only once the folder is.
  const std::string folder = FolderOf(path_);
  const int error = SyncFolder(folder);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, folder);
}

}  // namespace adjoin
