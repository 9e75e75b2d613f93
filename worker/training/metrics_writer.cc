#include "worker/training/metrics_writer.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NumberText(double number) { return std::isfinite(number) ? absl::StrFormat("%.17g", number) : "null"; }

std::string ValueText(const MetricsWriter::Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return absl::StrCat(*whole);
  if (const auto* text = std::get_if<std::string>(&value)) return Quoted(*text);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return absl::StrCat("[", absl::StrJoin(*list, ", ", [](std::string* out, double x) { *out += NumberText(x); }),
                        "]");
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return absl::StrCat(
        "[", absl::StrJoin(*texts, ", ", [](std::string* out, const std::string& text) { *out += Quoted(text); }), "]");
  }
  if (const auto* rows = std::get_if<std::vector<std::vector<int64_t>>>(&value)) {
    return absl::StrCat("[",
                        absl::StrJoin(*rows, ", ",
                                      [](std::string* out, const std::vector<int64_t>& row) {
                                        absl::StrAppend(out, "[", absl::StrJoin(row, ", "), "]");
                                      }),
                        "]");
  }
  return NumberText(std::get<double>(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GrowingFile>> file = GrowingFile::Create(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(*std::move(file)));
}

std::string MetricsWriter::TextOf(const Line& line) {
  std::string text = "{";
  for (const auto& [name, value] : line) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", Quoted(name), ": ", ValueText(value));
  }
  text += "}\n";
  return text;
}

}  // namespace adjoin
