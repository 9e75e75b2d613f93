// Zip archives whose entries are stored, not compressed, as PyTorch writes them: each entry is a range of the file.
// NumPy's may be deflated, where that is allowed.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveFile> file, ArchiveFile::Open("model.pt2"));
//   ADJOIN_ASSIGN_OR_RETURN(ZipReader zip, ZipReader::Open(file->whole()));
//   const ZipEntry* entry = zip.Find("archive/version");
//   ADJOIN_ASSIGN_OR_RETURN(std::string text, zip.ReadWhole(*entry, /*max_bytes=*/100));
//   ADJOIN_ASSIGN_OR_RETURN(ZipReader inner, ZipReader::Open(entry->data));    // an archive in the archive
//
// The format: APPNOTE.TXT of PKWARE, with the zip64 extension. A compressed entry is refused unless ZipForm allows
// it, so no entry is larger than the file, or, where it is deflated, than 1,032 times the file. What an archive claims
// is allocated only within ReadWhole's `max_bytes`. One thread.
#ifndef ADJOIN_IMPORTER_ARCHIVE_ZIP_READER_H_
#define ADJOIN_IMPORTER_ARCHIVE_ZIP_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace adjoin {

class ArchiveFile;

// A range of an open file, which outlives it.
struct FileRange {
  const ArchiveFile* file = nullptr;
  int64_t begin = 0;
  int64_t bytes = 0;

  // Reads `count` bytes from `offset` of the range on. Errors: kDataLoss (outside of the range, or the file became
  // shorter), kUnavailable.
  absl::Status ReadAt(int64_t offset, void* out, int64_t count) const;
};

// A regular file, open for reading.
class ArchiveFile {
 public:
  // Errors: as ErrnoStatus; kInvalidArgument (not a regular file).
  static absl::StatusOr<std::unique_ptr<ArchiveFile>> Open(const std::string& path);
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  FileRange whole() const { return {this, 0, bytes_}; }

 private:
  ArchiveFile(std::string path, UniqueFd fd, int64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  const std::string path_;
  const UniqueFd fd_;
  const int64_t bytes_;
};

struct ZipEntry {
  std::string name;
  FileRange data;  // as it is in the file
  uint32_t crc = 0;
  int64_t bytes = 0;  // of its content; those of `data`, unless it is deflated
  bool deflated = false;
};

// Which archives are read, and what messages about others call right.
struct ZipForm {
  bool deflated = false;  // entries may be
  std::string right = "the archive as torch.export.save wrote it";
};

class ZipReader {
 public:
  static constexpr int64_t kMaxDirectoryBytes = 64 << 20;

  // Errors: kDataLoss with the path: not a zip archive; cut off; compressed, encrypted or overlapping entries; names
  // that come twice; a directory of more than kMaxDirectoryBytes.
  static absl::StatusOr<ZipReader> Open(FileRange range, const ZipForm& form = {});

  // In the order of their data in the file.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null where there is none.
  const ZipEntry* Find(const std::string& name) const;
  // Returns an entry's content, of which the checksum is right. Errors: kDataLoss (larger than `max_bytes`, a wrong
  // checksum); as FileRange::ReadAt.
  absl::StatusOr<std::string> ReadWhole(const ZipEntry& entry, int64_t max_bytes) const;

 private:
  absl::Status ReadDirectory(FileRange range);
  absl::Status ParseDirectory(FileRange range, int64_t begin, int64_t bytes, uint64_t count);
  absl::Status Order();
  // Fills `content`, which has the size that the entry claims.
  absl::Status Inflate(const ZipEntry& entry, const std::string& shown, std::string& content) const;
  absl::Status Damaged(const std::string& what) const;

  std::string path_;
  ZipForm form_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, size_t> index_of_;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_ZIP_READER_H_
