#include "cli/job_comparison.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/amount_text.h"
#include "base/printable_text.h"
#include "base/text_table.h"
#include "base/utf8.h"
#include "cli/text.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;
using Unit = ComparedNumber::Unit;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kLongestValue = 60;  // of a spec's field, in a table
constexpr char kNone[] = "-";

// ---------------------------------------------------------------------------------------------------------------------
// Numbers and metrics

ComparedJob Named(const JobFacts& facts) {
  return {.name = facts.name,
          .id = facts.job.has_value() ? facts.job->job_id() : "",
          .state = facts.job.has_value() ? StateName(facts.job->state()) : ""};
}

template <typename Read>
ComparedNumber Number(const char* name, Unit unit, const JobFacts& a, const JobFacts& b, const Read& read) {
  ComparedNumber number{.name = name, .unit = unit, .a = std::nullopt, .b = std::nullopt};
  if (const auto value = read(a); value.has_value()) number.a = static_cast<double>(*value);
  if (const auto value = read(b); value.has_value()) number.b = static_cast<double>(*value);
  return number;
}

std::optional<double> StepsOf(const JobFacts& facts) {
  const MetricSeries* losses = facts.Find("loss");
  if (losses != nullptr) return static_cast<double>(losses->last().first);
  return std::nullopt;
}

std::vector<ComparedNumber> Numbers(const JobFacts& a, const JobFacts& b, int64_t now) {
  const auto number = [&](const char* name, Unit unit, const auto& read) { return Number(name, unit, a, b, read); };
  return {
      number("ranks", Unit::kCount, [](const JobFacts& f) { return std::optional<double>(f.spec.ranks()); }),
      number("seconds", Unit::kSeconds, [&](const JobFacts& f) { return f.seconds(now); }),
      number("steps", Unit::kCount, StepsOf),
      number("steps_per_second", Unit::kPerSecond, [](const JobFacts& f) { return f.steps_per_second(); }),
      number("samples_per_second", Unit::kPerSecond, [](const JobFacts& f) { return f.samples_per_second(); }),
      number("t_comp", Unit::kSeconds, [](const JobFacts& f) { return f.compute_seconds(); }),
      number("t_sync", Unit::kSeconds, [](const JobFacts& f) { return f.sync_seconds(); }),
      number("predicted_step_seconds", Unit::kSeconds, [](const JobFacts& f) { return f.predicted_step_seconds; }),
      number("predicted_tensor_bytes", Unit::kBytes, [](const JobFacts& f) { return f.predicted_tensor_bytes; }),
      number("measured_tensor_bytes", Unit::kBytes, [](const JobFacts& f) { return f.measured_tensor_bytes; }),
      number("predicted_resident_bytes", Unit::kBytes, [](const JobFacts& f) { return f.predicted_resident_bytes; }),
      number("measured_resident_bytes", Unit::kBytes, [](const JobFacts& f) { return f.measured_resident_bytes; }),
  };
}

std::vector<ComparedMetric::EqualStep> EqualSteps(const MetricSeries& a, const MetricSeries& b, size_t most) {
  std::vector<ComparedMetric::EqualStep> all;
  for (const auto& [step, value] : a.points()) {
    const auto other = b.points().find(step);
    if (other != b.points().end()) all.push_back({step, value, other->second});
  }
  if (all.size() <= most || most == 0) return most == 0 ? std::vector<ComparedMetric::EqualStep>{} : all;
  if (most == 1) return {all.back()};
  std::vector<ComparedMetric::EqualStep> some;
  for (size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

ComparedMetric MetricOf(const std::string& name, const JobFacts& a, const JobFacts& b, size_t steps) {
  ComparedMetric metric;
  metric.name = name;
  const MetricSeries* in_a = a.Find(name);
  const MetricSeries* in_b = b.Find(name);
  const bool larger = LargerIsBetter(name);
  if (in_a != nullptr) {
    metric.last_a = in_a->last();
    metric.best_a = in_a->best(larger);
  }
  if (in_b != nullptr) {
    metric.last_b = in_b->last();
    metric.best_b = in_b->best(larger);
  }
  if (in_a != nullptr && in_b != nullptr) metric.equal_steps = EqualSteps(*in_a, *in_b, steps);
  return metric;
}

// ---------------------------------------------------------------------------------------------------------------------
// For people

std::string ValueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kCount: return absl::StrCat(static_cast<int64_t>(value));
    case Unit::kPerSecond: return absl::StrFormat("%.4g", value);
    case Unit::kSeconds: return value < 1 ? absl::StrFormat("%.3f ms", value * 1000) : DurationText(value);
    case Unit::kBytes: return BytesText(static_cast<int64_t>(value));
  }
  return "";
}

std::string DifferenceText(std::optional<double> a, std::optional<double> b) {
  if (!a.has_value() || !b.has_value() || *a == 0 || !std::isfinite(*a) || !std::isfinite(*b)) return "";
  return *a == *b ? "0 %" : absl::StrFormat("%+.3g %%", 100 * (*b - *a) / std::abs(*a));
}

std::string LabelOf(const std::string& name) {
  static constexpr std::pair<const char*, const char*> kLabels[] = {{"seconds", "time"},
                                                                    {"steps_per_second", "steps/s"},
                                                                    {"samples_per_second", "samples/s"},
                                                                    {"t_comp", "T_comp of a step"},
                                                                    {"t_sync", "T_sync of a step"},
                                                                    {"predicted_step_seconds", "step, predicted"},
                                                                    {"predicted_tensor_bytes", "tensors, predicted"},
                                                                    {"measured_tensor_bytes", "tensors, measured"},
                                                                    {"predicted_resident_bytes", "process, predicted"},
                                                                    {"measured_resident_bytes", "process, measured"}};
  for (const auto& [known, label] : kLabels) {
    if (name == known) return label;
  }
  return name;
}

// "0.9 (default)"
std::string SpecText(const std::optional<std::string>& value, bool written) {
  if (!value.has_value()) return kNone;
  std::string text = PrintableText(*value);
  if (text.size() > kLongestValue) text = absl::StrCat(text.substr(0, Utf8Prefix(text, kLongestValue - 4)), " ...");
  return written ? text : absl::StrCat(text, " (default)");
}

std::string PointText(const ComparedMetric::Point& point) {
  return point.has_value() ? absl::StrFormat("%.6g (step %d)", point->second, point->first) : kNone;
}

std::optional<double> ValueOf(const ComparedMetric::Point& point) {
  return point.has_value() ? std::optional<double>(point->second) : std::nullopt;
}

Rows NumberRows(const JobComparison& comparison) {
  Rows rows = {{"", comparison.a.name, comparison.b.name, "DIFFERENCE"}};
  if (comparison.a.id != comparison.a.name || comparison.b.id != comparison.b.name) {
    rows.push_back(
        {"job", comparison.a.id.empty() ? kNone : comparison.a.id, comparison.b.id.empty() ? kNone : comparison.b.id});
  }
  rows.push_back({"state", comparison.a.state.empty() ? kNone : comparison.a.state,
                  comparison.b.state.empty() ? kNone : comparison.b.state});
  for (const ComparedNumber& number : comparison.numbers) {
    if (!number.a.has_value() && !number.b.has_value()) continue;
    rows.push_back({LabelOf(number.name), number.a.has_value() ? ValueText(number.unit, *number.a) : kNone,
                    number.b.has_value() ? ValueText(number.unit, *number.b) : kNone,
                    DifferenceText(number.a, number.b)});
  }
  return rows;
}

std::string SpecTable(const JobComparison& comparison) {
  if (comparison.spec.empty()) return "the specs mean the same\n";
  Rows rows = {{"FIELD", comparison.a.name, comparison.b.name}};
  for (const SpecDifference& each : comparison.spec) {
    rows.push_back({each.path, SpecText(each.a, each.a_written), SpecText(each.b, each.b_written)});
  }
  return TextTable(rows);
}

std::string MetricTables(const JobComparison& comparison) {
  if (comparison.metrics.empty()) return "";
  Rows rows = {{"METRIC", "", comparison.a.name, comparison.b.name, "DIFFERENCE"}};
  for (const ComparedMetric& metric : comparison.metrics) {
    rows.push_back({metric.name, "final", PointText(metric.last_a), PointText(metric.last_b),
                    DifferenceText(ValueOf(metric.last_a), ValueOf(metric.last_b))});
    rows.push_back({metric.name, "best", PointText(metric.best_a), PointText(metric.best_b),
                    DifferenceText(ValueOf(metric.best_a), ValueOf(metric.best_b))});
    for (const ComparedMetric::EqualStep& equal : metric.equal_steps) {
      rows.push_back({metric.name, absl::StrCat("step ", equal.step), absl::StrFormat("%.6g", equal.a),
                      absl::StrFormat("%.6g", equal.b), DifferenceText(equal.a, equal.b)});
    }
  }
  return absl::StrCat("\n", TextTable(rows));
}

// ---------------------------------------------------------------------------------------------------------------------
// For programs

Json OrNull(const std::optional<double>& value) { return value.has_value() ? Json(*value) : Json(nullptr); }

Json OrNull(const ComparedMetric::Point& point) {
  return point.has_value() ? Json{{"step", point->first}, {"value", point->second}} : Json(nullptr);
}

Json JobJson(const ComparedJob& job) {
  Json json = {{"name", job.name}};
  json["job_id"] = job.id.empty() ? Json(nullptr) : Json(job.id);
  json["state"] = job.state.empty() ? Json(nullptr) : Json(job.state);
  return json;
}

Json SpecJson(const SpecDifference& each) {
  return {{"path", each.path},
          {"a", each.a.has_value() ? Json(*each.a) : Json(nullptr)},
          {"b", each.b.has_value() ? Json(*each.b) : Json(nullptr)},
          {"a_written", each.a_written},
          {"b_written", each.b_written}};
}

Json MetricJson(const ComparedMetric& metric) {
  Json steps = Json::array();
  for (const auto& equal : metric.equal_steps) {
    steps.push_back(Json{{"step", equal.step}, {"a", equal.a}, {"b", equal.b}});
  }
  return {{"name", metric.name},
          {"final", Json{{"a", OrNull(metric.last_a)}, {"b", OrNull(metric.last_b)}}},
          {"best", Json{{"a", OrNull(metric.best_a)}, {"b", OrNull(metric.best_b)}}},
          {"equal_steps", steps}};
}

}  // namespace

JobComparison Compare(const JobFacts& a, const JobFacts& b, const ComparisonOptions& options) {
  JobComparison comparison;
  comparison.a = Named(a);
  comparison.b = Named(b);
  comparison.spec = DifferencesOf(a.spec, b.spec);
  if (a.job.has_value() || b.job.has_value()) comparison.numbers = Numbers(a, b, options.now_unix_ms);
  std::set<std::string> names;
  for (const auto& [name, series] : a.metrics) names.insert(name);
  for (const auto& [name, series] : b.metrics) names.insert(name);
  // The loss of the steps first.
  for (const bool of_steps : {true, false}) {
    for (const std::string& name : names) {
      if ((name == "loss") == of_steps) comparison.metrics.push_back(MetricOf(name, a, b, options.steps));
    }
  }
  return comparison;
}

std::string ComparisonText(const JobComparison& comparison) {
  std::string text = SpecTable(comparison);
  if (!comparison.numbers.empty()) absl::StrAppend(&text, "\n", TextTable(NumberRows(comparison)));
  return text + MetricTables(comparison);
}

std::string ComparisonJson(const JobComparison& comparison) {
  Json json = {{"a", JobJson(comparison.a)}, {"b", JobJson(comparison.b)}};
  json["spec"] = Json::array();
  for (const SpecDifference& each : comparison.spec) json["spec"].push_back(SpecJson(each));
  json["numbers"] = Json::object();
  for (const ComparedNumber& number : comparison.numbers) {
    json["numbers"][number.name] = Json{{"a", OrNull(number.a)}, {"b", OrNull(number.b)}};
  }
  json["metrics"] = Json::array();
  for (const ComparedMetric& metric : comparison.metrics) json["metrics"].push_back(MetricJson(metric));
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace adjoin
