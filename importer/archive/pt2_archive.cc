#include "importer/archive/pt2_archive.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/scalar_type.h"
#include "importer/archive/shown_name.h"

namespace adjoin {
namespace {

constexpr char kOldProgram[] = "serialized_exported_program.json";
constexpr int64_t kMaxPickleBytes = 16 << 20;
constexpr int64_t kMaxShortEntry = 100;  // "little"

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// How deeply brackets are nested outside of strings.
int DepthOf(absl::string_view json, int limit) {
  int depth = 0, deepest = 0;
  bool text = false;
  for (size_t i = 0; i < json.size() && deepest <= limit; ++i) {
    if (text && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      text = !text;
    } else if (!text && (json[i] == '{' || json[i] == '[')) {
      deepest = std::max(deepest, ++depth);
    } else if (!text && (json[i] == '}' || json[i] == ']')) {
      --depth;
    }
  }
  return deepest;
}

// Python's JSON has three numbers that JSON has no word for. PyTorch 2.7 and later write them as text, and so do they
// stand here: "Infinity", "-Infinity", "NaN".
std::string WithQuotedNumbers(absl::string_view json) {
  std::string quoted;
  quoted.reserve(json.size());
  bool text = false;
  for (size_t i = 0; i < json.size();) {
    size_t length = 1;
    if (text && json[i] == '\\') {
      length = std::min<size_t>(2, json.size() - i);
    } else if (json[i] == '"') {
      text = !text;
    } else if (!text && (json[i] == 'I' || json[i] == '-' || json[i] == 'N')) {
      for (const absl::string_view word : {"Infinity", "-Infinity", "NaN"}) {
        if (!absl::StartsWith(json.substr(i), word)) continue;
        absl::StrAppend(&quoted, "\"", word, "\"");
        length = word.size();
      }
      if (length > 1) {
        i += length;
        continue;
      }
    }
    quoted.append(json.data() + i, length);
    i += length;
  }
  return quoted;
}

absl::StatusOr<nlohmann::json> ReadJson(const ZipReader& zip, const ZipEntry& entry, const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip.ReadWhole(entry, Pt2Archive::kMaxProgramBytes));
  const std::string shown = PrintableText(entry.name, kMaxShownName);
  if (DepthOf(text, Pt2Archive::kMaxDepth) > Pt2Archive::kMaxDepth) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", shown, " is nested more than ", Pt2Archive::kMaxDepth, " deep"));
  }
  nlohmann::json json = nlohmann::json::parse(WithQuotedNumbers(text), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError(absl::StrCat(path, ": ", shown, " is not a JSON object"));
  return json;
}

// {"as_int": 3}
bool ReadInt(const nlohmann::json& value, int64_t& number) {
  const auto found = value.is_object() ? value.find("as_int") : value.end();
  if (found == value.end() || !found->is_number_integer()) return false;
  if (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX) return false;
  number = found->get<int64_t>();
  return true;
}

bool ReadInts(const nlohmann::json& meta, const char* key, std::vector<int64_t>& numbers) {
  const auto list = meta.find(key);
  if (list == meta.end() || !list->is_array() || list->size() > 16) return false;
  for (const nlohmann::json& item : *list) {
    numbers.push_back(0);
    if (!ReadInt(item, numbers.back())) return false;
  }
  return true;
}

// An entry of data/weights/NAME_weights_config.json. Returns what is wrong with it, or nothing.
std::string ParsePayload(const nlohmann::json& payload, StoredTensor& tensor) {
  if (!payload.is_object()) return "is not an object";
  const auto path = payload.find("path_name"), meta = payload.find("tensor_meta"), pickle = payload.find("use_pickle");
  if (path == payload.end() || !path->is_string()) return "has no path_name";
  if (pickle != payload.end() && pickle->is_boolean() && pickle->get<bool>()) return "is pickled, and not read";
  if (meta == payload.end() || !meta->is_object()) return "has no tensor_meta";
  const auto dtype = meta->find("dtype");
  if (dtype == meta->end() || !dtype->is_number_unsigned()) return "has no dtype";
  const std::optional<DType> known = DTypeOfCode(dtype->get<uint64_t>());
  if (!known.has_value()) return absl::StrCat("has the type ", dtype->get<uint64_t>(), ", which is not supported");
  const auto offset = meta->find("storage_offset");
  if (!ReadInts(*meta, "sizes", tensor.shape) || !ReadInts(*meta, "strides", tensor.stride) ||
      tensor.shape.size() != tensor.stride.size()) {
    return "has no sizes and strides of whole numbers";
  }
  if (offset != meta->end() && !ReadInt(*offset, tensor.offset)) return "has no storage_offset";
  tensor.dtype = *known;
  tensor.storage = path->get<std::string>();
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pt2Archive>> Pt2Archive::Open(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveFile> file, ArchiveFile::Open(path));
  std::unique_ptr<Pt2Archive> archive(new Pt2Archive(std::move(file)));
  ADJOIN_ASSIGN_OR_RETURN(const ZipReader zip, ZipReader::Open(archive->file().whole()));
  for (const ZipEntry& entry : zip.entries()) {
    const size_t slash = entry.name.rfind('/') == std::string::npos ? 0 : entry.name.rfind('/') + 1;
    if (entry.name.substr(slash) == kOldProgram) {
      ADJOIN_RETURN_IF_ERROR(archive->ReadOld(zip, entry.name.substr(0, slash)));
      return archive;
    }
  }
  for (const ZipEntry& entry : zip.entries()) {
    if (!absl::EndsWith(entry.name, "archive_format")) continue;
    ADJOIN_RETURN_IF_ERROR(
        archive->ReadNew(zip, entry.name.substr(0, entry.name.size() - sizeof("archive_format") + 1)));
    return archive;
  }
  const bool traced = std::any_of(zip.entries().begin(), zip.entries().end(), [](const ZipEntry& entry) {
    return absl::StrContains(entry.name, "/code/") || absl::EndsWith(entry.name, "data.pkl");
  });
  return Bad(path, traced
                       ? "a file of torch.save or torch.jit.save, which has no graph of torch.export; `adjoin import "
                         "--script` prints how to export the model"
                       : "not an archive of torch.export.save; `adjoin import --script` prints how to write one");
}

absl::Status Pt2Archive::ReadOld(const ZipReader& zip, const std::string& folder) {
  ADJOIN_ASSIGN_OR_RETURN(program_, ReadJson(zip, *zip.Find(folder + kOldProgram), path()));
  const ZipEntry* state = zip.Find(folder + "serialized_state_dict.pt");
  if (state == nullptr) return Bad(path(), "it has no serialized_state_dict.pt, so no weights");
  ADJOIN_RETURN_IF_ERROR(ReadTorchSave(*state));
  // PyTorch 2.4 and later; what is in it may be other things than tensors, and is needed only where the graph says so.
  const ZipEntry* constants = zip.Find(folder + "serialized_constants.pt");
  return constants == nullptr ? absl::OkStatus() : ReadTorchSave(*constants);
}

absl::Status Pt2Archive::ReadNew(const ZipReader& zip, const std::string& folder) {
  const ZipEntry* order = zip.Find(folder + "byteorder");
  if (order != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip.ReadWhole(*order, kMaxShortEntry));
    if (text != "little") return Bad(path(), "its byteorder is not little; right would be an export on such a machine");
  }
  std::vector<std::string> models;
  const std::string prefix = folder + "models/";
  for (const ZipEntry& entry : zip.entries()) {
    if (!absl::StartsWith(entry.name, prefix) || !absl::EndsWith(entry.name, ".json")) continue;
    models.push_back(entry.name.substr(prefix.size(), entry.name.size() - prefix.size() - 5));
  }
  if (models.size() != 1) {
    return Bad(path(), absl::StrCat("it has ", models.size(), " models; right would be one"));
  }
  ADJOIN_ASSIGN_OR_RETURN(program_, ReadJson(zip, *zip.Find(absl::StrCat(prefix, models[0], ".json")), path()));
  for (const char* part : {"weights", "constants"}) {
    const std::string data = absl::StrCat(folder, "data/", part, "/");
    const std::string config = absl::StrCat(data, models[0], "_", part, "_config.json");
    const ZipEntry* saved = zip.Find(absl::StrCat(data, models[0], ".pt"));  // PyTorch 2.7 and 2.8
    if (saved != nullptr) {
      ADJOIN_RETURN_IF_ERROR(ReadTorchSave(*saved));
    } else if (zip.Find(config) != nullptr) {
      ADJOIN_RETURN_IF_ERROR(ReadIndex(zip, config, data));
    }
  }
  return absl::OkStatus();
}

absl::Status Pt2Archive::ReadTorchSave(const ZipEntry& entry) {
  ADJOIN_ASSIGN_OR_RETURN(const ZipReader zip, ZipReader::Open(entry.data));
  const auto pickle = std::find_if(zip.entries().begin(), zip.entries().end(), [](const ZipEntry& candidate) {
    return absl::EndsWith(candidate.name, "/data.pkl") || candidate.name == "data.pkl";
  });
  const std::string where = absl::StrCat(path(), ": ", PrintableText(entry.name, kMaxShownName));
  if (pickle == zip.entries().end()) return absl::DataLossError(absl::StrCat(where, " has no data.pkl"));
  const std::string folder = pickle->name.substr(0, pickle->name.size() - sizeof("data.pkl") + 1);
  const ZipEntry* order = zip.Find(folder + "byteorder");
  if (order != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip.ReadWhole(*order, kMaxShortEntry));
    if (text != "little") return Bad(path(), "its byteorder is not little; right would be an export on such a machine");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, zip.ReadWhole(*pickle, kMaxPickleBytes));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<StoredTensor> tensors, ReadTensorPickle(text, where));
  for (const StoredTensor& tensor : tensors) {
    ADJOIN_RETURN_IF_ERROR(Add(tensor, zip.Find(absl::StrCat(folder, "data/", tensor.storage))));
  }
  return absl::OkStatus();
}

absl::Status Pt2Archive::ReadIndex(const ZipReader& zip, const std::string& config, const std::string& folder) {
  ADJOIN_ASSIGN_OR_RETURN(const nlohmann::json index, ReadJson(zip, *zip.Find(config), path()));
  const auto entries = index.find("config");
  if (entries == index.end() || !entries->is_object()) {
    return absl::DataLossError(absl::StrCat(path(), ": ", PrintableText(config, kMaxShownName), " has no config"));
  }
  for (const auto& [name, payload] : entries->items()) {
    StoredTensor tensor;
    tensor.name = name;
    const std::string wrong = ParsePayload(payload, tensor);
    if (!wrong.empty()) {
      return absl::DataLossError(absl::StrCat(path(), ": ", PrintableText(name, kMaxShownName), " ", wrong));
    }
    ADJOIN_RETURN_IF_ERROR(Add(tensor, zip.Find(folder + tensor.storage)));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
