// The words of a script, with the beginnings and ends of its indented blocks.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_TOKENS_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adjoin {

struct ScriptToken {
  // kSign: one character, or "->".
  enum class Kind { kName, kInt, kFloat, kText, kSign, kNewline, kIndent, kDedent, kEnd };
  Kind kind = Kind::kEnd;
  int line = 0;
  int64_t number = 0;
  double real = 0;
  std::string text;  // of kText what it says, without quotes
};

inline constexpr size_t kMaxShownToken = 60;  // bytes, for PrintableText

// kDataLoss, with `where` and the line.
absl::Status ScriptError(const std::string& where, int line, absl::string_view what);

// Line breaks in brackets are none. The last token is kEnd. Errors: as ParseScript.
absl::StatusOr<std::vector<ScriptToken>> ScriptTokens(absl::string_view text, const std::string& where);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_TOKENS_H_
