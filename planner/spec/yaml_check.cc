#include "planner/spec/yaml_check.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

// True for "- name: conv1", "- {name: conv1}" and "-", but not for the numbers "-1" and "- 1" of a list in text format.
bool BeginsElement(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "-")) return false;
  if (line.empty()) return true;
  if (line[0] != ' ') return false;
  line = absl::StripLeadingAsciiWhitespace(line);
  return absl::ascii_isalpha(static_cast<unsigned char>(line[0])) || line[0] == '{' || line[0] == '"';
}

// True for "layer:" and "name: lenet".
bool IsEntry(absl::string_view line) {
  size_t end = 0;
  while (end < line.size() && (absl::ascii_isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_')) ++end;
  return end > 0 && end < line.size() && line[end] == ':';
}

}  // namespace

bool LooksLikeYaml(absl::string_view text, const std::string& file_name) {
  if (absl::EndsWith(file_name, ".yaml") || absl::EndsWith(file_name, ".yml")) return true;
  bool open = false;  // the line before is "layer:", without a value
  size_t indent_of_open = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t length = line.size();
    line = absl::StripLeadingAsciiWhitespace(line);
    const size_t indent = length - line.size();
    line = absl::StripTrailingAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    if (line == "---" || absl::StartsWith(line, "%YAML") || BeginsElement(line)) return true;
    const bool entry = IsEntry(line);
    if (open && entry && indent > indent_of_open) return true;
    open = entry && line.back() == ':';
    indent_of_open = indent;
  }
  return false;
}

}  // namespace adjoin
