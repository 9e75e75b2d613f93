#include "cli/csv.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

// What begins a formula: the ASCII characters, and the full-width ones that spreadsheets take for them.
constexpr const char* kFormulaBegins[] = {"=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20"};

bool IsNumber(absl::string_view text) {
  double ignored = 0;
  return !text.empty() && text.find_first_not_of("+-.0123456789eE") == absl::string_view::npos &&
         absl::SimpleAtod(text, &ignored);
}

bool LooksLikeFormula(absl::string_view text) {
  return !IsNumber(text) && std::any_of(std::begin(kFormulaBegins), std::end(kFormulaBegins),
                                        [&](const char* begin) { return absl::StartsWith(text, begin); });
}

}  // namespace

std::string CsvCell(absl::string_view text) {
  std::string cell = PrintableText(text);
  const bool formula = LooksLikeFormula(cell);
  if (formula) cell.insert(0, 1, '\'');
  if (!formula && cell.find_first_of(",\"") == std::string::npos) return cell;
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) absl::StrAppend(&line, i == 0 ? "" : ",", CsvCell(cells[i]));
  line += '\n';
  return line;
}

}  // namespace adjoin
