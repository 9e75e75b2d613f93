#include "importer/layers/layer_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adjoin {
namespace {

// The characters of layers' and parameters' names: letters, digits, '-', '_' and '.'.
bool IsOfName(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'; }

}  // namespace

bool IsName(absl::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsOfName); }

std::string AsName(absl::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (!IsOfName(c)) c = '_';
  }
  return name;
}

std::string PrefixOf(absl::string_view name, absl::string_view role) {
  if (!absl::ConsumeSuffix(&name, role) || !absl::ConsumeSuffix(&name, ".")) return "";
  return std::string(name);
}

bool IsLeaf(const OpNode& node) {
  return absl::StartsWith(node.module_type, "torch.nn.modules.") &&
         !absl::StrContains(node.module_type, ".container.") && !absl::StrContains(node.module_type, ".transformer.") &&
         !absl::EndsWith(node.module_type, "MultiheadAttention");
}

std::string OpName(const OpNode& node) {
  return AsName(node.module.empty() ? node.op : absl::StrCat(node.module, ".", node.op));
}

}  // namespace adjoin
