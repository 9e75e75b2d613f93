#include "worker/training/evaluation_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adjoin {

std::optional<double> EvaluationReport::ValueOf(const std::string& metric) const {
  if (metric == "loss") return loss;
  for (const MetricValue& known : metrics) {
    if (known.name == metric) return known.value;
  }
  return std::nullopt;
}

MetricsWriter::Line LineOf(const EvaluationReport& report, const std::string& type) {
  MetricsWriter::Line line = {
      {"type", type}, {"dataset", report.dataset}, {"samples", report.samples}, {"loss", report.loss}};
  if (report.hits.has_value()) line.push_back({"correct", report.hits->correct});
  for (const MetricValue& metric : report.metrics) {
    if (!metric.matrix.empty()) {
      line.push_back({metric.name, metric.matrix});
      continue;
    }
    line.push_back({metric.name, metric.value});
    if (!metric.per_class.empty()) line.push_back({absl::StrCat(metric.name, "_per_class"), metric.per_class});
  }
  return line;
}

void AddMetrics(const EvaluationReport& report, google::protobuf::Map<std::string, double>* metric) {
  (*metric)["samples"] = static_cast<double>(report.samples);
  (*metric)["loss"] = report.loss;
  if (report.hits.has_value()) (*metric)["correct"] = static_cast<double>(report.hits->correct);
  for (const MetricValue& known : report.metrics) {
    if (!known.matrix.empty()) continue;
    (*metric)[known.name] = known.value;
    if (known.per_class.size() > kMostClassesInProgress) continue;
    for (size_t c = 0; c < known.per_class.size(); ++c) {
      if (!std::isnan(known.per_class[c])) (*metric)[absl::StrCat(known.name, "[", c, "]")] = known.per_class[c];
    }
  }
}

std::string TextOf(const EvaluationReport& report) {
  std::string text = absl::StrCat(report.dataset, ": ");
  if (report.hits.has_value()) {
    absl::StrAppendFormat(&text, "%d of %d right, ", report.hits->correct, report.hits->counted);
  }
  for (const MetricValue& metric : report.metrics) {
    if (metric.matrix.empty()) absl::StrAppendFormat(&text, "%s %.4f, ", metric.name, metric.value);
  }
  absl::StrAppendFormat(&text, "loss %.6g", report.loss);
  return text;
}

}  // namespace adjoin
