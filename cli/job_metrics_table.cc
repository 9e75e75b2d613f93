#include "cli/job_metrics_table.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBytesOfCell = 64;  // beside its text
constexpr size_t kMostFields = 1000;
constexpr size_t kLeftOut = static_cast<size_t>(-1);
constexpr char kLayersType[] = "layers";
constexpr char kLayer[] = "layer";

std::string Text(const Json& value, bool short_numbers) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (short_numbers && value.is_number_float()) return absl::StrFormat("%.6g", value.get<double>());
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

JobMetricsTable::JobMetricsTable(MetricsTableOptions options, std::vector<std::string> jobs)
    : options_(std::move(options)), jobs_(std::move(jobs)), fields_(options_.fields), lines_(jobs_.size(), 0) {
  for (size_t i = 0; i < fields_.size(); ++i) index_.emplace(fields_[i], i);
}

size_t JobMetricsTable::FieldIndex(const std::string& name) {
  const auto known = index_.find(name);
  if (known != index_.end()) return known->second;
  if (!options_.fields.empty() || fields_.size() >= kMostFields) return kLeftOut;
  index_.emplace(name, fields_.size());
  fields_.push_back(name);
  return fields_.size() - 1;
}

absl::Status JobMetricsTable::Put(size_t job, Key key, Cells cells) {
  for (const auto& [field, text] : cells) bytes_ += text.size() + kBytesOfCell;
  bytes_ += kBytesOfCell;
  if (bytes_ > options_.most_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the table has more than ", options_.most_bytes,
                     " bytes: choose a few fields with --field, or rows of epochs with --by epoch"));
  }
  std::vector<Cells>& row = rows_[std::move(key)];
  row.resize(jobs_.size());
  row[job] = std::move(cells);
  return absl::OkStatus();
}

absl::Status JobMetricsTable::Add(size_t job, const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::OkStatus();
  const auto type = json.find("type");
  if (type == json.end() || *type != options_.type) return absl::OkStatus();
  const char* number_name = options_.by_epoch ? "epoch" : "step";
  const auto number = json.find(number_name);
  const bool has_number = number != json.end() && number->is_number_integer();
  if (options_.by_epoch && !has_number) return absl::OkStatus();
  numbered_ = numbered_ || has_number;
  Key key{.number = has_number ? number->get<int64_t>() : lines_[job]++, .layer = ""};

  const auto layers = json.find(kLayer);
  const bool by_layer = options_.type == kLayersType && layers != json.end() && layers->is_array();
  layered_ = layered_ || by_layer;
  for (size_t i = 0; i < (by_layer ? layers->size() : 1); ++i) {
    Cells cells;
    for (const auto& [name, value] : json.items()) {
      if (name == "type" || name == number_name || (by_layer && name == kLayer)) continue;
      const size_t field = FieldIndex(name);
      const bool of_layer = by_layer && value.is_array() && value.size() == layers->size();
      if (field != kLeftOut) cells.emplace_back(field, Text(of_layer ? value[i] : value, options_.short_numbers));
    }
    if (by_layer) key.layer = Text((*layers)[i], false);
    const absl::Status put = Put(job, key, std::move(cells));
    if (!put.ok()) return put;
  }
  return absl::OkStatus();
}

void JobMetricsTable::ForEachRow(const std::function<void(const Row&)>& on_row) const {
  Row names;
  if (numbered_) names.push_back(options_.by_epoch ? "epoch" : "step");
  if (layered_) names.push_back(kLayer);
  const size_t keys = names.size();
  for (const std::string& field : fields_) {
    for (const std::string& job : jobs_) names.push_back(jobs_.size() == 1 ? field : absl::StrCat(job, ".", field));
  }
  on_row(names);
  for (const auto& [key, jobs] : rows_) {
    Row row(names.size());
    if (numbered_) row[0] = absl::StrCat(key.number);
    if (layered_) row[keys - 1] = key.layer;
    for (size_t job = 0; job < jobs.size(); ++job) {
      for (const auto& [field, text] : jobs[job]) row[keys + field * jobs_.size() + job] = text;
    }
    on_row(row);
  }
}

}  // namespace adjoin
