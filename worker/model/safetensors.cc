#include "worker/model/safetensors.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/errno_status.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "base/sync_folder.h"
#include "worker/data/box_runs.h"

namespace adjoin {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's data are little endian and are not converted");

constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr char kMetadata[] = "__metadata__";

const std::pair<DType, const char*> kTypeNames[] = {
    {DType::kFloat64, "F64"}, {DType::kFloat32, "F32"}, {DType::kBFloat16, "BF16"}, {DType::kFloat16, "F16"},
    {DType::kInt64, "I64"},   {DType::kInt32, "I32"},   {DType::kUInt8, "U8"},      {DType::kBool, "BOOL"},
};

absl::StatusOr<std::string> HeaderText(const std::vector<SafetensorsEntry>& entries) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  int64_t begin = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto* type = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                    [&](const auto& known) { return known.first == entry.dtype; });
    if (type == std::end(kTypeNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat("safetensors files cannot hold ", ToString(entry.dtype), " (tensor ", entry.name, ")"));
    }
    if (entry.name == kMetadata || header.contains(entry.name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor name ", entry.name, " is taken; names must be unique"));
    }
    header[entry.name] = {
        {"dtype", type->second}, {"shape", entry.shape}, {"data_offsets", {begin, begin + entry.Bytes()}}};
    begin += entry.Bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned
  return text;
}

// Parses one tensor of the header. Returns the error as a text, or an empty one.
std::string ParseEntry(const nlohmann::json& value, SafetensorsEntry& entry, int64_t& end) {
  if (!value.is_object()) return "is not an object";
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return "has no dtype";
  if (shape == value.end() || !shape->is_array()) return "has no shape";
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2) return "has no data_offsets";
  const std::string name = dtype->get<std::string>();
  const auto* type = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                  [&](const auto& known) { return name == known.second; });
  if (type == std::end(kTypeNames)) return absl::StrCat("has dtype ", name, ", which is not supported");
  entry.dtype = type->first;
  int64_t bytes = SizeOf(entry.dtype);
  const auto is_size = [](const nlohmann::json& number) {
    return number.is_number_unsigned() && number.get<uint64_t>() <= INT64_MAX;
  };
  for (const nlohmann::json& extent : *shape) {
    if (!is_size(extent)) return "has a shape that is not a list of sizes";
    entry.shape.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes)) return "has a shape too large for any file";
  }
  if (!is_size((*offsets)[0]) || !is_size((*offsets)[1])) return "has data_offsets that are not positions";
  entry.begin = (*offsets)[0].get<int64_t>();
  end = (*offsets)[1].get<int64_t>();
  if (end < entry.begin || end - entry.begin != bytes) {
    return absl::StrCat("has data_offsets [", entry.begin, ", ", end, "), but its shape and dtype take ", bytes,
                        " bytes");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> SafetensorsHeader(const std::vector<SafetensorsEntry>& entries) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, HeaderText(entries));
  const uint64_t length = text.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
  return header + text;
}

SafetensorsWriter::SafetensorsWriter(std::string path, int fd, int64_t data_bytes)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), fd_(fd), missing_(data_bytes) {}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<SafetensorsEntry>& entries) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries));
  int64_t data_bytes = 0;
  for (const SafetensorsEntry& entry : entries) data_bytes += entry.Bytes();
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, temporary);
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, fd, data_bytes));
  ADJOIN_RETURN_IF_ERROR(writer->Write(header.data(), static_cast<int64_t>(header.size())));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status SafetensorsWriter::Write(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = write(fd_, from, static_cast<size_t>(std::min<int64_t>(bytes, 1 << 20)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ErrnoStatus(errno, temporary_);
    from += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(const void* data, int64_t bytes) {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, ": already finished"));
  if (bytes > missing_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", bytes, " bytes are too many; the entries have ", missing_, " left"));
  }
  ADJOIN_RETURN_IF_ERROR(Write(data, bytes));
  missing_ -= bytes;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, ": already finished"));
  if (missing_ != 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": ", missing_, " bytes are missing"));
  if (fsync(fd_) != 0) return ErrnoStatus(errno, temporary_);
  ADJOIN_RETURN_IF_ERROR(ReplaceFile(temporary_, path_));
  close(fd_);
  fd_ = -1;
  // The name is safe only once the folder is.
  const std::string folder = FolderOf(path_);
  const int error = SyncFolder(folder);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, folder);
}

namespace {

// What another file of weights is, by how it begins; "" for anything that is not known.
std::string OtherFormat(std::string name, absl::string_view begin) {
  static constexpr char kConversion[] =
      "; this converts it: python3 -c 'import torch, safetensors.torch as s; s.save_file(torch.load(\"";
  const bool is_zip = absl::StartsWith(begin, "PK\x03\x04");
  // A pickle of protocol 2 or later; torch.save wrote one before PyTorch 1.6.
  const bool is_pickle = begin.size() > 1 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5;
  if (is_zip || is_pickle) {
    name = name.substr(name.rfind('/') + 1);
    const bool ends_quotes = name.find_first_of("'\"\\") != std::string::npos;
    if (name.empty() || ends_quotes) name = "MODEL.pt";
    std::string converted = absl::StrCat(name.substr(0, name.rfind('.')), ".safetensors");
    if (converted == name) converted.insert(0, "converted-");
    return absl::StrCat(is_zip ? "a zip archive, as torch.save writes" : "a pickle, as torch.save wrote before 1.6",
                        ", which can hold any program and is not read", kConversion, name,
                        "\", map_location=\"cpu\", weights_only=True), \"", converted, "\")'");
  }
  if (absl::StartsWith(begin, "\x89HDF\r\n")) return "an HDF5 file; right would be a safetensors file";
  if (absl::StartsWith(begin, "\x93NUMPY")) return "a NumPy file; right would be a safetensors file";
  if (absl::StartsWith(begin, "\x1f\x8b")) return "compressed with gzip; right would be the file itself";
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const std::string& path,
                                                                           const std::string& name) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path);
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader(path, fd));
  uint64_t length = 0;
  if (info.st_size < 8) {
    return absl::DataLossError(absl::StrCat(path, ": not a safetensors file: ", info.st_size, " bytes, at least 8"));
  }
  ADJOIN_RETURN_IF_ERROR(reader->ReadAt(0, &length, sizeof(length)));
  if (length > static_cast<uint64_t>(info.st_size - 8) || length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    const std::string other = OtherFormat(name, absl::string_view(reinterpret_cast<const char*>(&length), 8));
    if (!other.empty()) return absl::DataLossError(absl::StrCat(path, ": not a safetensors file but ", other));
    return absl::DataLossError(absl::StrCat(path, ": truncated, or not a safetensors file: its header would have ",
                                            length, " bytes, the file has ", info.st_size));
  }
  std::string text(length, '\0');
  ADJOIN_RETURN_IF_ERROR(reader->ReadAt(8, text.data(), static_cast<int64_t>(length)));
  reader->data_begin_ = 8 + static_cast<int64_t>(length);
  ADJOIN_RETURN_IF_ERROR(reader->ParseHeader(text, info.st_size - reader->data_begin_));
  return reader;
}

SafetensorsReader::~SafetensorsReader() { close(fd_); }

absl::Status SafetensorsReader::ParseHeader(const std::string& text, int64_t data_bytes) {
  const auto bad = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(path_, ": bad safetensors header: ", what));
  };
  // The parser keeps the last of equal names; a file with two is ambiguous.
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  const nlohmann::json header = nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object()) return bad("not a JSON object");
  if (!twice.empty()) return bad(absl::StrCat("tensor ", twice, " is there twice"));
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) continue;
    SafetensorsEntry entry;
    entry.name = name;
    int64_t end = 0;
    const std::string wrong = ParseEntry(value, entry, end);
    if (!wrong.empty()) return bad(absl::StrCat("tensor ", name, " ", wrong));
    entries_.push_back(std::move(entry));
  }
  std::sort(entries_.begin(), entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::make_pair(a.begin, a.Bytes()) < std::make_pair(b.begin, b.Bytes());
  });
  int64_t expected = 0;
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.begin != expected) {
      return bad(absl::StrCat("tensor ", entry.name, " begins at ", entry.begin, ", where ", expected,
                              " would be right: data without overlap or hole"));
    }
    expected += entry.Bytes();
  }
  if (expected != data_bytes) {
    return bad(absl::StrCat("its tensors take ", expected, " bytes, the file has ", data_bytes, " after the header"));
  }
  return absl::OkStatus();
}

const SafetensorsEntry* SafetensorsReader::Find(const std::string& name) const {
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status SafetensorsReader::ReadAt(int64_t offset, void* out, int64_t bytes) const {
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, to, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path_);
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read"));
    to += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsReader::ReadBox(const SafetensorsEntry& entry, const Box& box, void* out) const {
  const int64_t element = SizeOf(entry.dtype);
  char* to = static_cast<char*>(out);
  for (const CellRun& run : RunsOf(entry.shape, box)) {
    ADJOIN_RETURN_IF_ERROR(ReadAt(data_begin_ + entry.begin + run.first * element, to, run.count * element));
    to += run.count * element;
  }
  return absl::OkStatus();
}

}  // namespace adjoin
