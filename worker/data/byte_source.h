// The bytes of a file from its beginning, inflated on the way where it is a gzip file.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open("mnist/train-images.idx.gz"));
//   char magic[4];
//   ADJOIN_ASSIGN_OR_RETURN(int64_t count, source->Read(magic, 4));     // below 4 only at the end
//
// Memory: a fixed buffer, whatever the file claims. Several gzip members in a row are one stream, as for gunzip.
// One thread.
#ifndef ADJOIN_WORKER_DATA_BYTE_SOURCE_H_
#define ADJOIN_WORKER_DATA_BYTE_SOURCE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <zlib.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

class ByteSource {
 public:
  // `name`: what messages call it, where that is not the path. Errors, all with the name: kNotFound, kPermissionDenied,
  // kInvalidArgument (not a regular file), kUnavailable (any other failure to open or read).
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path, const std::string& name = "");
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& name() const { return name_; }
  bool compressed() const { return compressed_; }
  int64_t file_bytes() const { return file_bytes_; }
  // Bytes that were read or skipped so far, inflated.
  int64_t position() const { return position_; }

  // Returns how many bytes were written to `out`: fewer than `count` only at the end.
  // Errors: kDataLoss (a gzip stream that is corrupt, ends too early, or is followed by something else), kUnavailable.
  absl::StatusOr<int64_t> Read(void* out, int64_t count);
  // Does the same as Read, but drops the bytes.
  absl::StatusOr<int64_t> Skip(int64_t count);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  static constexpr int64_t kChunk = 1 << 16;

  ByteSource(std::string name, std::unique_ptr<std::FILE, CloseFile> file, int64_t file_bytes)
      : name_(std::move(name)), file_(std::move(file)), file_bytes_(file_bytes) {}

  absl::Status StartInflating();
  absl::StatusOr<int64_t> ReadFile(void* out, int64_t count);
  absl::StatusOr<int64_t> Inflate(void* out, int64_t count);
  absl::Status Corrupt(const std::string& what) const;

  const std::string name_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  const int64_t file_bytes_;
  int64_t position_ = 0;
  bool compressed_ = false;
  bool inside_member_ = false;
  z_stream zlib_ = {};
  std::unique_ptr<unsigned char[]> input_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_BYTE_SOURCE_H_
