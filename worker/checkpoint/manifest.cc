#include "worker/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/content_hash.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr char kStepPrefix[] = "step-";

// The body is followed by its checksum, so that every changed bit is noticed.
constexpr char kOpening[] = "{\"checkpoint\": ";
constexpr char kMiddle[] = ",\n\"xxh3_128\": \"";
constexpr char kEnd[] = "\"}\n";
constexpr size_t kHexDigits = 32;

std::string Sealed(const Json& body) {
  const std::string text = body.dump(1);
  return absl::StrCat(kOpening, text, kMiddle, ContentHash::Of(text), kEnd);
}

absl::StatusOr<Json> Unsealed(const std::string& text) {
  absl::string_view body = text;
  if (!absl::ConsumePrefix(&body, kOpening)) return absl::DataLossError("it does not begin as a manifest does");
  if (!absl::ConsumeSuffix(&body, kEnd) || body.size() < kHexDigits) {
    return absl::DataLossError("it does not end as a manifest does");
  }
  const std::string hash(body.substr(body.size() - kHexDigits));
  body.remove_suffix(kHexDigits);
  if (!absl::ConsumeSuffix(&body, kMiddle)) return absl::DataLossError("it has no checksum");
  if (ContentHash::Of(std::string(body)) != hash) {
    return absl::DataLossError("its checksum does not fit: it is damaged");
  }
  Json json = Json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  return json;
}

// Numbers are text: with all digits they are read back unchanged, and JSON has no infinity and no NaN.
Json NumbersToJson(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = absl::StrFormat("%.17g", value);
  return json;
}

std::map<std::string, double> NumbersFromJson(const Json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) {
    double number = std::numeric_limits<double>::quiet_NaN();
    if (absl::SimpleAtod(value.get<std::string>(), &number)) numbers[name] = number;
  }
  return numbers;
}

Json ToJson(const CheckpointName& name) { return {{"step", name.step}, {"attempt", name.epoch}, {"tag", name.tag}}; }

CheckpointName NameFromJson(const Json& json) {
  return {json.at("step").get<int64_t>(), json.at("attempt").get<uint64_t>(), json.at("tag").get<uint64_t>()};
}

Json ToJson(const Manifest::File& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.hash}};
}

Manifest::File FileFromJson(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("bytes").get<int64_t>(), json.at("xxh3_128").get<std::string>()};
}

Json ToJson(const Manifest::Piece& piece) {
  Json from = Json::array(), to = Json::array();
  for (int d = 0; d < piece.box.dims(); ++d) {
    from.push_back(piece.box[d].lo);
    to.push_back(piece.box[d].hi);
  }
  return {{"file", piece.file}, {"from", from}, {"to", to}, {"offset", piece.offset}, {"xxh3_128", piece.hash}};
}

Manifest::Piece PieceFromJson(const Json& json) {
  const auto from = json.at("from").get<std::vector<int64_t>>();
  const auto to = json.at("to").get<std::vector<int64_t>>();
  std::vector<Interval> dims(from.size());
  for (size_t d = 0; d < from.size(); ++d) dims[d] = {from[d], d < to.size() ? to[d] : from[d]};
  return {
      .file = json.at("file").get<int>(),
      .box = Box(std::move(dims)),
      .offset = json.at("offset").get<int64_t>(),
      .hash = json.at("xxh3_128").get<std::string>(),
  };
}

// More than any file system holds, and so few that counting bytes does not overflow.
constexpr int64_t kMostElements = int64_t{1} << 56;

bool IsShape(const std::vector<int64_t>& shape) {
  int64_t volume = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMostElements / volume) return false;
    volume *= std::max<int64_t>(1, extent);
  }
  return true;
}

bool IsWithin(const Box& box, const std::vector<int64_t>& shape) {
  if (box.dims() != static_cast<int>(shape.size())) return false;
  for (int d = 0; d < box.dims(); ++d) {
    if (box[d].lo < 0 || box[d].lo > box[d].hi || box[d].hi > shape[d]) return false;
  }
  return true;
}

// Describes what does not fit together; empty where all does.
std::string Wrong(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!IsShape(tensor.shape)) return absl::StrCat("tensor ", name, " has no shape that a tensor can have");
    int64_t volume = 0;
    for (const Manifest::Piece& piece : tensor.pieces) {
      if (piece.file < 0 || piece.file >= static_cast<int>(manifest.files.size())) {
        return absl::StrCat("tensor ", name, " is in a file that is not listed");
      }
      if (!IsWithin(piece.box, tensor.shape)) return absl::StrCat("tensor ", name, " has a piece outside of it");
      if (volume > VolumeOf(tensor.shape)) break;
      volume += piece.box.Volume();
      const int64_t bytes = manifest.files[piece.file].bytes;
      if (piece.offset < 0 || piece.offset > bytes ||
          piece.box.Volume() * SizeOf(tensor.dtype) > bytes - piece.offset) {
        return absl::StrCat("tensor ", name, " reaches beyond its file");
      }
    }
    if (volume != VolumeOf(tensor.shape)) {
      return absl::StrCat("tensor ", name, " has ", VolumeOf(tensor.shape), " elements, its pieces ", volume);
    }
  }
  for (const Manifest::File& file : manifest.files) {
    if (file.name.empty() || absl::StrContains(file.name, '/')) return absl::StrCat("'", file.name, "' names no file");
  }
  return "";
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest manifest;
  const auto version = json.at("version").get<int64_t>();
  if (version > kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("it has format ", version, ", of a newer release; this one reads ", kVersion));
  }
  if (version != kVersion)
    return absl::DataLossError(absl::StrCat("it has format ", version, ", which there never was"));
  manifest.job = {json.at("job").get<std::string>(), json.at("store").get<uint64_t>()};
  manifest.job_name = json.at("job_name").get<std::string>();
  manifest.name = NameFromJson(json.at("name"));
  manifest.plan_hash = json.at("plan").get<std::string>();
  manifest.seed = json.at("seed").get<uint64_t>();
  manifest.ranks = json.at("ranks").get<int64_t>();
  manifest.data_epoch = json.at("data_epoch").get<int64_t>();
  manifest.step_in_epoch = json.at("step_in_epoch").get<int64_t>();
  manifest.written_unix_ms = json.at("written_unix_ms").get<int64_t>();
  manifest.numbers = NumbersFromJson(json.at("numbers"));
  manifest.validation = NumbersFromJson(json.at("validation"));
  for (const Json& file : json.at("files")) manifest.files.push_back(FileFromJson(file));
  for (const auto& [name, value] : json.at("tensors").items()) {
    Manifest::Tensor tensor;
    ADJOIN_ASSIGN_OR_RETURN(tensor.dtype, ParseDType(value.at("dtype").get<std::string>()));
    tensor.shape = value.at("shape").get<std::vector<int64_t>>();
    for (const Json& piece : value.at("pieces")) tensor.pieces.push_back(PieceFromJson(piece));
    manifest.tensors.emplace(name, std::move(tensor));
  }
  if (const std::string wrong = Wrong(manifest); !wrong.empty()) return absl::DataLossError(wrong);
  return manifest;
}

absl::StatusOr<RankPart> PartFromJson(const Json& json) {
  RankPart part;
  part.name = NameFromJson(json.at("name"));
  part.file = FileFromJson(json.at("file"));
  for (const auto& [tensor, piece] : json.at("pieces").items()) part.pieces.emplace(tensor, PieceFromJson(piece));
  return part;
}

// nlohmann throws where a member is missing or of another type.
template <typename F>
auto Caught(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat("it does not have what a manifest has: ", error.what()));
  }
}

}  // namespace

std::string CheckpointName::ToString() const {
  return absl::StrFormat("%s%010d.%d-%016x", kStepPrefix, step, epoch, tag);
}

std::optional<CheckpointName> CheckpointName::Parse(const std::string& name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kStepPrefix)) return std::nullopt;
  const size_t dot = rest.find('.');
  const size_t dash = rest.find('-');
  if (dot == absl::string_view::npos || dash == absl::string_view::npos || dash < dot) return std::nullopt;
  CheckpointName parsed;
  if (!absl::SimpleAtoi(rest.substr(0, dot), &parsed.step) ||
      !absl::SimpleAtoi(rest.substr(dot + 1, dash - dot - 1), &parsed.epoch) ||
      !absl::SimpleHexAtoi(rest.substr(dash + 1), &parsed.tag)) {
    return std::nullopt;
  }
  // Only the text that ToString returns: not the same numbers in another form.
  if (parsed.step < 0 || parsed.ToString() != name) return std::nullopt;
  return parsed;
}

std::string Manifest::ToText() const {
  Json json = {{"version", kVersion},
               {"job", job.job_id},
               {"store", job.store_id},
               {"job_name", job_name},
               {"name", ToJson(name)},
               {"plan", plan_hash},
               {"seed", seed},
               {"ranks", ranks},
               {"data_epoch", data_epoch},
               {"step_in_epoch", step_in_epoch},
               {"written_unix_ms", written_unix_ms}};
  json["numbers"] = NumbersToJson(numbers);
  json["validation"] = NumbersToJson(validation);
  json["files"] = Json::array();
  for (const File& file : files) json["files"].push_back(ToJson(file));
  json["tensors"] = Json::object();
  for (const auto& [tensor_name, tensor] : tensors) {
    Json value = {{"dtype", adjoin::ToString(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", Json::array()}};
    for (const Piece& piece : tensor.pieces) value["pieces"].push_back(ToJson(piece));
    json["tensors"][tensor_name] = std::move(value);
  }
  return Sealed(json);
}

absl::StatusOr<Manifest> Manifest::Parse(const std::string& text) {
  ADJOIN_ASSIGN_OR_RETURN(const Json json, Unsealed(text));
  return Caught([&] { return FromJson(json); });
}

std::string RankPart::ToText() const {
  Json json = {{"name", ToJson(name)}, {"file", ToJson(file)}, {"pieces", Json::object()}};
  for (const auto& [tensor, piece] : pieces) json["pieces"][tensor] = ToJson(piece);
  return Sealed(json);
}

absl::StatusOr<RankPart> RankPart::Parse(const std::string& text) {
  ADJOIN_ASSIGN_OR_RETURN(const Json json, Unsealed(text));
  return Caught([&] { return PartFromJson(json); });
}

std::string RankFile(int rank) { return absl::StrFormat("rank-%04d.safetensors", rank); }

std::string RankNote(int rank) { return absl::StrFormat("rank-%04d.json", rank); }

}  // namespace adjoin
