#include "importer/torchscript/aten_schemas.h"

#include <map>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

struct Line {
  const char *op, *overload, *arguments;
  size_t results;
};
constexpr Line kLines[] = {
#include "importer/torchscript/aten_schemas.inc"
};

AtenSchema SchemaOf(const Line& line) {
  AtenSchema schema{line.overload, {}, line.results};
  bool keyword_only = false;
  for (absl::string_view text : absl::StrSplit(line.arguments, ", ")) {
    if (text == "*") {
      keyword_only = true;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
    absl::string_view name = parts.second;
    const bool has_default = absl::ConsumeSuffix(&name, "=");
    schema.arguments.push_back({std::string(parts.first), std::string(name), has_default, keyword_only});
  }
  return schema;
}

}  // namespace

const std::vector<AtenSchema>& AtenSchemasOf(const std::string& op) {
  static const auto* schemas = [] {
    auto* all = new std::map<std::string, std::vector<AtenSchema>>;
    for (const Line& line : kLines) (*all)[line.op].push_back(SchemaOf(line));
    return all;
  }();
  static const auto* none = new std::vector<AtenSchema>;
  const auto found = schemas->find(op);
  return found == schemas->end() ? *none : found->second;
}

}  // namespace adjoin
