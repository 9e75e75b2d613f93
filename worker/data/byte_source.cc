#include "worker/data/byte_source.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace adjoin {
absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path, const std::string& given_name) {
  const std::string& name = given_name.empty() ? path : given_name;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, name);
  // Opening a pipe would wait for its writer.
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(name, ": not a regular file"));
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, name);
  std::unique_ptr<ByteSource> source(new ByteSource(name, std::move(file), info.st_size));
  unsigned char magic[2] = {0, 0};
  ADJOIN_ASSIGN_OR_RETURN(const int64_t count, source->ReadFile(magic, 2));
  if (std::fseek(source->file_.get(), 0, SEEK_SET) != 0) return ErrnoStatus(errno, name);
  if (count == 2 && magic[0] == 0x1f && magic[1] == 0x8b) ADJOIN_RETURN_IF_ERROR(source->StartInflating());
  return source;
}

ByteSource::~ByteSource() {
  if (compressed_) inflateEnd(&zlib_);
}

absl::Status ByteSource::StartInflating() {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&zlib_, kGzipOnly) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": zlib cannot start: out of memory"));
  }
  compressed_ = true;
  inside_member_ = true;
  input_ = std::make_unique<unsigned char[]>(kChunk);
  return absl::OkStatus();
}

absl::Status ByteSource::Corrupt(const std::string& what) const {
  return absl::DataLossError(
      absl::StrCat(name_, ": ", what, " (after ", zlib_.total_out, " inflated bytes); fetch the file again"));
}

absl::StatusOr<int64_t> ByteSource::ReadFile(void* out, int64_t count) {
  errno = 0;
  const size_t got = std::fread(out, 1, static_cast<size_t>(count), file_.get());
  if (std::ferror(file_.get())) return ErrnoStatus(errno == 0 ? EIO : errno, name_);
  return static_cast<int64_t>(got);
}

absl::StatusOr<int64_t> ByteSource::Inflate(void* out, int64_t count) {
  zlib_.next_out = static_cast<unsigned char*>(out);
  zlib_.avail_out = static_cast<uInt>(count);
  while (zlib_.avail_out > 0) {
    if (zlib_.avail_in == 0) {
      ADJOIN_ASSIGN_OR_RETURN(const int64_t got, ReadFile(input_.get(), kChunk));
      if (got == 0 && inside_member_) return Corrupt("truncated: the gzip stream does not end");
      if (got == 0) break;
      zlib_.next_in = input_.get();
      zlib_.avail_in = static_cast<uInt>(got);
    }
    if (!inside_member_) {
      if (zlib_.next_in[0] != 0x1f) return Corrupt("trailing bytes after the gzip stream");
      const uLong total = zlib_.total_out;
      inflateReset(&zlib_);
      zlib_.total_out = total;
      inside_member_ = true;
    }
    const int code = inflate(&zlib_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      inside_member_ = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return Corrupt(absl::StrCat("corrupt gzip stream: ", zlib_.msg != nullptr ? zlib_.msg : "unknown error"));
    }
  }
  return count - static_cast<int64_t>(zlib_.avail_out);
}

absl::StatusOr<int64_t> ByteSource::Read(void* out, int64_t count) {
  int64_t done = 0;
  while (done < count) {
    // zlib counts in 32 bits.
    const int64_t piece = std::min<int64_t>(count - done, int64_t{1} << 30);
    char* to = static_cast<char*>(out) + done;
    absl::StatusOr<int64_t> got = compressed_ ? Inflate(to, piece) : ReadFile(to, piece);
    if (!got.ok()) return got.status();
    done += *got;
    position_ += *got;
    if (*got < piece) break;
  }
  return done;
}

absl::StatusOr<int64_t> ByteSource::Skip(int64_t count) {
  char scratch[kChunk];
  int64_t done = 0;
  while (done < count) {
    const int64_t piece = std::min(count - done, kChunk);
    ADJOIN_ASSIGN_OR_RETURN(const int64_t got, Read(scratch, piece));
    done += got;
    if (got < piece) break;
  }
  return done;
}

}  // namespace adjoin
