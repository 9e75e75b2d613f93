// The safetensors file format: named tensors, readable by PyTorch and others. No LibTorch here: plain bytes.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, {{"fc.weight", DType::kFloat32, {10, 84}}}));
//   ADJOIN_RETURN_IF_ERROR(writer->Append(data, bytes));      // in the order of the entries, in pieces of any size
//   ADJOIN_RETURN_IF_ERROR(writer->Finish());                 // makes the whole file appear at `path`
//
//   ADJOIN_ASSIGN_OR_RETURN(auto reader, SafetensorsReader::Open(path));
//   ADJOIN_RETURN_IF_ERROR(reader->ReadBox(*reader->Find("fc.weight"), Box({{0, 5}, {0, 84}}), out));
//
// The format: header length (8 bytes, little endian), JSON {name: {dtype, shape, data_offsets}}, data, row-major and
// little endian. Source: the README of huggingface/safetensors, with its limits: 100 MB of header, the data tiled by
// the tensors without overlap or hole. One thread.
#ifndef ADJOIN_WORKER_MODEL_SAFETENSORS_H_
#define ADJOIN_WORKER_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // its first byte within the data; set by the reader

  int64_t Bytes() const { return VolumeOf(shape) * SizeOf(dtype); }
};

// Returns the bytes before the data of a file with these entries in this order: 8 bytes of length and the JSON.
// Errors: kInvalidArgument (a name twice or reserved, a complex dtype).
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<SafetensorsEntry>& entries);

// Writes to a temporary name beside `path`; a writer that dies or is destroyed before Finish leaves `path` as it was.
class SafetensorsWriter {
 public:
  // Errors: kInvalidArgument (a name twice or reserved, a complex dtype); kUnavailable, kResourceExhausted (disk full),
  // kPermissionDenied with the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                                   const std::vector<SafetensorsEntry>& entries);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Errors: kInvalidArgument where there are more bytes than the entries have; as Create.
  absl::Status Append(const void* data, int64_t bytes);
  // Syncs the file, gives it its name, syncs the folder.
  // Errors: kInvalidArgument where bytes are missing; as Create.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::string path, int fd, int64_t data_bytes);
  absl::Status Write(const void* data, int64_t bytes);

  const std::string path_;
  const std::string temporary_;
  int fd_;
  int64_t missing_;  // data bytes not yet appended
};

class SafetensorsReader {
 public:
  // Reads and checks the header; nothing larger than the file is ever allocated.
  // Errors: kNotFound, kPermissionDenied, kUnavailable; kDataLoss (too short, a header that is longer than the file,
  // not JSON, with an unknown dtype, a bad shape, offsets that overlap, leave holes or do not fit the shape or the
  // file). `name`: as the user knows the file, for the line that converts another format; "" where it is not known.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const std::string& path, const std::string& name = "");
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  // In the order of their data in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* Find(const std::string& name) const;  // null where there is none

  // Where its data are in the file: [first byte, first byte after them).
  std::pair<int64_t, int64_t> BytesOf(const SafetensorsEntry& entry) const {
    return {data_begin_ + entry.begin, data_begin_ + entry.begin + entry.Bytes()};
  }
  int64_t data_begin() const { return data_begin_; }  // the first byte after the header

  // `box` is within the entry's shape; `out` has room for box.Volume() elements.
  // Errors: kDataLoss where the file became shorter; kUnavailable.
  absl::Status ReadBox(const SafetensorsEntry& entry, const Box& box, void* out) const;

 private:
  SafetensorsReader(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status ReadAt(int64_t offset, void* out, int64_t bytes) const;
  absl::Status ParseHeader(const std::string& text, int64_t data_bytes);

  const std::string path_;
  const int fd_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_MODEL_SAFETENSORS_H_
