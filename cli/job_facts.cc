#include "cli/job_facts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "planner/checks/metric_rule.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostMetrics = 200;

std::optional<double> NumberOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void SetKnown(int64_t bytes, std::optional<int64_t>* known) {
  if (bytes > 0) *known = bytes;
}

}  // namespace

MetricSeries::Point MetricSeries::best(bool larger_is_better) const {
  Point best = *points_.begin();
  for (const auto& [step, value] : points_) {
    if (larger_is_better ? value > best.second : value < best.second) best = {step, value};
  }
  return best;
}

void JobFacts::Take(const DescribeJobResponse& described) {
  job = described.job();
  spec = described.spec();
  // A job that names no folder gets one of its own.
  if (spec.output_dir() == job->job_id()) spec.clear_output_dir();
  SetKnown(described.predicted().tensor_bytes(), &predicted_tensor_bytes);
  SetKnown(described.predicted().resident_bytes(), &predicted_resident_bytes);
  if (described.predicted().step_seconds() > 0) predicted_step_seconds = described.predicted().step_seconds();
  int64_t tensors = 0, resident = 0;
  for (const RankStatus& rank : described.rank()) {
    tensors = std::max(tensors, rank.progress().peak_tensor_bytes());
    resident = std::max(resident, rank.progress().peak_resident_bytes());
  }
  SetKnown(tensors, &measured_tensor_bytes);
  SetKnown(resident, &measured_resident_bytes);
}

void JobFacts::AddLine(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) return;
  const std::string type = json["type"];
  int64_t at = last_step_;
  if (const auto step = json.find("step"); step != json.end() && step->is_number_integer()) {
    at = step->get<int64_t>();
    last_step_ = std::max(last_step_, at);
  }
  if (type == "step") {
    const std::optional<double> loss = NumberOf(json, "loss");
    if (loss.has_value()) metrics["loss"].Add(at, *loss);
    const std::optional<double> compute = NumberOf(json, "t_comp"), sync = NumberOf(json, "t_sync");
    if (!compute.has_value() || !sync.has_value()) return;
    ++timed_steps_;
    compute_ += *compute;
    sync_ += *sync;
    samples_ += NumberOf(json, "samples").value_or(0);
    return;
  }
  if (type != "validation" && type != "evaluation") return;
  for (const auto& [name, value] : json.items()) {
    const bool counts = name == "step" || name == "epoch" || name == "samples" || name == "correct";
    if (!value.is_number() || counts || metrics.size() >= kMostMetrics) continue;
    metrics[absl::StrCat(type, ".", name)].Add(at, value.get<double>());
  }
}

const MetricSeries* JobFacts::Find(const std::string& metric) const {
  const auto found = metrics.find(metric);
  return found == metrics.end() ? nullptr : &found->second;
}

std::optional<double> JobFacts::steps_per_second() const {
  if (compute_ + sync_ <= 0) return std::nullopt;
  return static_cast<double>(timed_steps_) / (compute_ + sync_);
}

std::optional<double> JobFacts::samples_per_second() const {
  if (compute_ + sync_ <= 0 || samples_ <= 0) return std::nullopt;
  return samples_ / (compute_ + sync_);
}

std::optional<double> JobFacts::compute_seconds() const {
  if (timed_steps_ == 0) return std::nullopt;
  return compute_ / static_cast<double>(timed_steps_);
}

std::optional<double> JobFacts::sync_seconds() const {
  if (timed_steps_ == 0) return std::nullopt;
  return sync_ / static_cast<double>(timed_steps_);
}

std::optional<double> JobFacts::seconds(int64_t now_unix_ms) const {
  if (!job.has_value() || job->started_unix_ms() == 0) return std::nullopt;
  const int64_t end = job->ended_unix_ms() > 0 ? job->ended_unix_ms() : now_unix_ms;
  return static_cast<double>(std::max<int64_t>(0, end - job->started_unix_ms())) / 1000;
}

bool LargerIsBetter(const std::string& metric) {
  const size_t dot = metric.find('.');
  const absl::StatusOr<Metric> known = ParseMetric(dot == std::string::npos ? metric : metric.substr(dot + 1));
  return known.ok() && known->LargerIsBetter();
}

}  // namespace adjoin
