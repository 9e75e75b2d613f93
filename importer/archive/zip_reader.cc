#include "importer/archive/zip_reader.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/errno_status.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"

namespace adjoin {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little endian");

// Records by their first four bytes, and how long their fixed part is.
constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kEnd64Locator = 0x07064b50;
constexpr int64_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                  kEnd64LocatorBytes = 20;
constexpr int64_t kMaxCommentBytes = 0xffff;
constexpr uint32_t kIn64 = 0xffffffff;  // the number stands in the zip64 record
constexpr uint16_t kExtra64 = 1;
constexpr int64_t kPieceBytes = 1 << 20;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMostInflation = 1032;  // of deflate: 258 bytes of 2 bits

template <typename T>
T Number(absl::string_view bytes, size_t at) {
  T value;
  memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// What a directory's entry says.
struct Claim {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, bytes = 0, header = 0;
};

// Replaces numbers that did not fit 32 bits by those of the zip64 extra field. False where one is missing.
bool TakeExtra64(absl::string_view extra, Claim& claim) {
  std::vector<uint64_t*> wanted;
  for (uint64_t* number : {&claim.bytes, &claim.packed, &claim.header}) {
    if (*number == kIn64) wanted.push_back(number);
  }
  while (!wanted.empty() && extra.size() >= 4) {
    const uint16_t id = Number<uint16_t>(extra, 0), bytes = Number<uint16_t>(extra, 2);
    if (extra.size() < 4u + bytes) return false;
    if (id == kExtra64) {
      if (bytes < wanted.size() * 8) return false;
      for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = Number<uint64_t>(extra, 4 + 8 * i);
      return true;
    }
    extra.remove_prefix(4u + bytes);
  }
  return wanted.empty();
}

}  // namespace

absl::Status ZipReader::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", what, "; right would be ", form_.right));
}

absl::Status FileRange::ReadAt(int64_t offset, void* out, int64_t count) const {
  if (offset < 0 || count < 0 || offset > bytes || count > bytes - offset) {
    return absl::DataLossError(
        absl::StrCat(file->path(), ": ", count, " bytes from ", offset, " on are not in a part of ", bytes, " bytes"));
  }
  char* to = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t done = pread(file->fd(), to, static_cast<size_t>(std::min<int64_t>(count, 1 << 26)), begin + offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ErrnoStatus(errno, file->path());
    if (done == 0) return absl::DataLossError(absl::StrCat(file->path(), ": became shorter while it was read"));
    to += done;
    offset += done;
    count -= done;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArchiveFile>> ArchiveFile::Open(const std::string& path) {
  // A pipe would let open wait for its other end.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return ErrnoStatus(errno, path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  return std::unique_ptr<ArchiveFile>(new ArchiveFile(path, std::move(fd), info.st_size));
}

absl::StatusOr<ZipReader> ZipReader::Open(FileRange range, const ZipForm& form) {
  ZipReader reader;
  reader.form_ = form;
  reader.path_ = range.file->path();
  ADJOIN_RETURN_IF_ERROR(reader.ReadDirectory(range));
  ADJOIN_RETURN_IF_ERROR(reader.Order());
  return reader;
}

absl::Status ZipReader::ReadDirectory(FileRange range) {
  std::string tail(static_cast<size_t>(std::min(range.bytes, kEndBytes + kMaxCommentBytes)), '\0');
  const int64_t tail_begin = range.bytes - static_cast<int64_t>(tail.size());
  ADJOIN_RETURN_IF_ERROR(range.ReadAt(tail_begin, tail.data(), static_cast<int64_t>(tail.size())));
  int64_t end = static_cast<int64_t>(tail.size()) - kEndBytes;
  while (end >= 0 && Number<uint32_t>(tail, static_cast<size_t>(end)) != kEnd) --end;
  if (end < 0) return Damaged("not a zip archive, or cut off: its directory is missing");
  const size_t at = static_cast<size_t>(end);
  uint64_t count = Number<uint16_t>(tail, at + 10);
  uint64_t bytes = Number<uint32_t>(tail, at + 12), begin = Number<uint32_t>(tail, at + 16);
  int64_t before = tail_begin + end;  // the directory ends no later
  const int64_t locator = before - kEnd64LocatorBytes;
  if (locator >= 0) {
    std::string record(static_cast<size_t>(kEnd64LocatorBytes), '\0');
    ADJOIN_RETURN_IF_ERROR(range.ReadAt(locator, record.data(), kEnd64LocatorBytes));
    if (Number<uint32_t>(record, 0) == kEnd64Locator) {
      const uint64_t position = Number<uint64_t>(record, 8);
      if (locator < kEnd64Bytes || position > static_cast<uint64_t>(locator - kEnd64Bytes)) {
        return Damaged("the zip64 record is not in the file");
      }
      record.resize(static_cast<size_t>(kEnd64Bytes));
      ADJOIN_RETURN_IF_ERROR(range.ReadAt(static_cast<int64_t>(position), record.data(), kEnd64Bytes));
      if (Number<uint32_t>(record, 0) != kEnd64) return Damaged("the zip64 record is damaged");
      count = Number<uint64_t>(record, 32);
      bytes = Number<uint64_t>(record, 40);
      begin = Number<uint64_t>(record, 48);
      before = static_cast<int64_t>(position);
    }
  }
  if (begin > static_cast<uint64_t>(before) || bytes > static_cast<uint64_t>(before) - begin) {
    return Damaged("the zip directory is not in the file");
  }
  if (bytes > static_cast<uint64_t>(kMaxDirectoryBytes)) {
    return Damaged(absl::StrCat("the zip directory has ", bytes, " bytes, more than ", kMaxDirectoryBytes));
  }
  return ParseDirectory(range, static_cast<int64_t>(begin), static_cast<int64_t>(bytes), count);
}

absl::Status ZipReader::ParseDirectory(FileRange range, int64_t begin, int64_t bytes, uint64_t count) {
  std::string directory(static_cast<size_t>(bytes), '\0');
  ADJOIN_RETURN_IF_ERROR(range.ReadAt(begin, directory.data(), bytes));
  absl::string_view rest = directory;
  while (!rest.empty()) {
    if (rest.size() < static_cast<size_t>(kDirectoryEntryBytes) || Number<uint32_t>(rest, 0) != kDirectoryEntry) {
      return Damaged(absl::StrCat("entry ", entries_.size(), " of the zip directory is damaged"));
    }
    const size_t name = Number<uint16_t>(rest, 28), extra = Number<uint16_t>(rest, 30),
                 note = Number<uint16_t>(rest, 32);
    const size_t fixed = static_cast<size_t>(kDirectoryEntryBytes);
    if (rest.size() < fixed + name + extra + note) return Damaged("the zip directory is cut off");
    Claim claim{std::string(rest.substr(fixed, name)),
                Number<uint16_t>(rest, 8),
                Number<uint16_t>(rest, 10),
                Number<uint32_t>(rest, 16),
                Number<uint32_t>(rest, 20),
                Number<uint32_t>(rest, 24),
                Number<uint32_t>(rest, 42)};
    const std::string shown = PrintableText(claim.name, kMaxShownName);
    if (!TakeExtra64(rest.substr(fixed + name, extra), claim)) {
      return Damaged(absl::StrCat("the size of ", shown, " is missing"));
    }
    rest.remove_prefix(fixed + name + extra + note);
    if ((claim.flags & 1) != 0) return Damaged(absl::StrCat(shown, " is encrypted"));
    const bool deflated = claim.method == kDeflated && form_.deflated;
    if (claim.method != 0 && !deflated) {
      return Damaged(absl::StrCat(shown, form_.deflated ? " is compressed by another method than deflate"
                                                        : " is compressed, which PyTorch never does"));
    }
    // Data lie before the directory.
    std::string header(static_cast<size_t>(kLocalHeaderBytes), '\0');
    if (claim.header > static_cast<uint64_t>(begin) || begin - static_cast<int64_t>(claim.header) < kLocalHeaderBytes) {
      return Damaged(absl::StrCat(shown, " is not in the file"));
    }
    const int64_t at = static_cast<int64_t>(claim.header);
    ADJOIN_RETURN_IF_ERROR(range.ReadAt(at, header.data(), kLocalHeaderBytes));
    if (Number<uint32_t>(header, 0) != kLocalHeader) return Damaged(absl::StrCat(shown, " has a damaged header"));
    const int64_t data = at + kLocalHeaderBytes + Number<uint16_t>(header, 26) + Number<uint16_t>(header, 28);
    const bool sizes_agree = deflated ? claim.bytes / kMostInflation <= claim.packed : claim.packed == claim.bytes;
    if (data > begin || claim.packed > static_cast<uint64_t>(begin - data) || !sizes_agree) {
      return Damaged(absl::StrCat(shown, " claims ", claim.bytes, " bytes, which the file does not have"));
    }
    entries_.push_back({std::move(claim.name),
                        {range.file, range.begin + data, static_cast<int64_t>(claim.packed)},
                        claim.crc,
                        static_cast<int64_t>(claim.bytes),
                        deflated});
  }
  if (count != entries_.size()) {
    return Damaged(absl::StrCat("the zip directory has ", entries_.size(), " entries, not ", count, " as it says"));
  }
  return absl::OkStatus();
}

absl::Status ZipReader::Order() {
  std::sort(entries_.begin(), entries_.end(), [](const ZipEntry& a, const ZipEntry& b) {
    return std::make_pair(a.data.begin, a.data.bytes) < std::make_pair(b.data.begin, b.data.bytes);
  });
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string shown = PrintableText(entries_[i].name, kMaxShownName);
    if (!index_of_.emplace(entries_[i].name, i).second) return Damaged(absl::StrCat(shown, " is there twice"));
    if (i > 0 && entries_[i - 1].data.begin + entries_[i - 1].data.bytes > entries_[i].data.begin) {
      return Damaged(absl::StrCat(shown, " overlaps another entry"));
    }
  }
  return absl::OkStatus();
}

const ZipEntry* ZipReader::Find(const std::string& name) const {
  const auto found = index_of_.find(name);
  return found == index_of_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<std::string> ZipReader::ReadWhole(const ZipEntry& entry, int64_t max_bytes) const {
  const std::string shown = PrintableText(entry.name, kMaxShownName);
  if (entry.bytes > max_bytes) {
    return Damaged(absl::StrCat(shown, " has ", entry.bytes, " bytes, more than ", max_bytes));
  }
  std::string content(static_cast<size_t>(entry.bytes), '\0');
  if (entry.deflated) {
    ADJOIN_RETURN_IF_ERROR(Inflate(entry, shown, content));
  } else {
    ADJOIN_RETURN_IF_ERROR(entry.data.ReadAt(0, content.data(), entry.data.bytes));
  }
  const uLong crc = crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != entry.crc) return Damaged(absl::StrCat(shown, " has a wrong checksum"));
  return content;
}

absl::Status ZipReader::Inflate(const ZipEntry& entry, const std::string& shown, std::string& content) const {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return absl::ResourceExhaustedError("zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::string packed(static_cast<size_t>(std::min<int64_t>(entry.data.bytes, kPieceBytes)), '\0');
  char spare = 0;  // what does not fit `content` shows here
  int64_t read = 0;
  size_t filled = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    if (stream.avail_in == 0) {
      const int64_t count = std::min(kPieceBytes, entry.data.bytes - read);
      ADJOIN_RETURN_IF_ERROR(entry.data.ReadAt(read, packed.data(), count));
      read += count;
      stream.next_in = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_in = static_cast<uInt>(count);
    }
    const bool full = filled == content.size();
    const size_t room = full ? 1 : std::min(content.size() - filled, static_cast<size_t>(kPieceBytes));
    stream.next_out = reinterpret_cast<Bytef*>(full ? &spare : &content[filled]);
    stream.avail_out = static_cast<uInt>(room);
    state = inflate(&stream, Z_NO_FLUSH);  // Z_BUF_ERROR where the entry ends too early
    const size_t made = room - stream.avail_out;
    if (full && made > 0)
      return Damaged(absl::StrCat(shown, " inflates to more than the ", entry.bytes, " bytes it claims"));
    filled += made;
  }
  if (state == Z_STREAM_END && filled == content.size()) return absl::OkStatus();
  return Damaged(absl::StrCat(shown, " does not inflate to the ", entry.bytes, " bytes it claims"));
}

}  // namespace adjoin
