#include "cli/metrics_lines.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/csv.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestLine = size_t{64} << 20;  // a matrix of 1024 classes has some megabytes
constexpr size_t kMostWithoutStep = 10000;
constexpr size_t kMostFields = 1000;
constexpr char kLayersType[] = "layers";

Json Parsed(const std::string& line) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::string TypeOf(const Json& json) {
  const auto type = json.find("type");
  return type != json.end() && type->is_string() ? type->get<std::string>() : "";
}

std::string Cell(const Json& value) {
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

absl::Status MetricsLines::Add(uint64_t epoch, absl::string_view bytes) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    offset_ = 0;
    begun_.clear();
  }
  offset_ += bytes.size();
  for (size_t end = bytes.find('\n'); end != absl::string_view::npos; end = bytes.find('\n')) {
    begun_.append(bytes.data(), end);
    bytes.remove_prefix(end + 1);
    Take(begun_);
    begun_.clear();
  }
  begun_.append(bytes.data(), bytes.size());
  if (begun_.size() <= kLongestLine) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a line of metrics.jsonl has more than ", kLongestLine >> 20, " MiB"));
}

void MetricsLines::Take(const std::string& line) {
  const Json json = Parsed(line);
  const auto step = json.find("step");
  if (step != json.end() && step->is_number_integer()) {
    const auto [last, is_new] = last_step_.emplace(TypeOf(json), step->get<int64_t>());
    if (!is_new && step->get<int64_t>() <= last->second) return;
    last->second = step->get<int64_t>();
  } else if (!without_step_.insert(line).second) {
    return;
  } else if (without_step_.size() > kMostWithoutStep) {
    without_step_.clear();
  }
  on_line_(line);
}

std::string MetricsTable::Add(const std::string& line) {
  const Json json = Parsed(line);
  if (TypeOf(json) != type_) return "";
  std::string rows;
  if (columns_.empty()) {
    columns_ = fields_;
    for (const auto& [name, value] : json.items()) {
      if (fields_.empty() && name != "type") columns_.push_back(name);
    }
    rows = CsvLine(columns_);
  }
  const auto layers = json.find("layer");
  const bool by_layer = type_ == kLayersType && layers != json.end() && layers->is_array();
  for (size_t i = 0; i < (by_layer ? layers->size() : 1); ++i) {
    std::vector<std::string> cells;
    for (const std::string& column : columns_) {
      const auto value = json.find(column);
      const bool of_layer = by_layer && value != json.end() && value->is_array() && value->size() == layers->size();
      cells.push_back(value == json.end() ? "" : Cell(of_layer ? (*value)[i] : *value));
    }
    rows += CsvLine(cells);
  }
  return rows;
}

absl::Status MetricsFields::Check() const {
  for (const std::string& field : chosen_) {
    if (seen_.empty() || seen_.count(field) > 0) continue;
    return absl::NotFoundError(absl::StrCat("no line", type_.empty() ? "" : absl::StrCat(" of type ", type_),
                                            " has a field '", field, "'; there are: ", absl::StrJoin(seen_, ", ")));
  }
  return absl::OkStatus();
}

void MetricsFields::Add(const std::string& line) {
  const Json json = Parsed(line);
  if (chosen_.empty() || (!type_.empty() && TypeOf(json) != type_)) return;
  for (const auto& [name, value] : json.items()) {
    if (name != "type" && seen_.size() < kMostFields) seen_.insert(name);
  }
}

std::string MetricsFields::Chosen(const std::string& job, const std::string& line) const {
  if (job.empty() && chosen_.empty()) return line;
  const Json json = Parsed(line);
  Json shown = Json::object();
  if (!job.empty()) shown["job"] = job;
  for (const auto& [name, value] : json.items()) {
    const bool always = name == "type" || name == "step" || name == "epoch";
    if (always || chosen_.empty() || std::find(chosen_.begin(), chosen_.end(), name) != chosen_.end()) {
      shown[name] = value;
    }
  }
  return shown.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string MetricsTypeOf(const std::string& line) { return TypeOf(Parsed(line)); }

}  // namespace adjoin
