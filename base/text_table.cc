#include "base/text_table.h"

#include <algorithm>

#include "base/printable_text.h"

namespace adjoin {

std::string TextTable(const std::vector<std::vector<std::string>>& cells, TextTableStyle style) {
  std::vector<std::vector<std::string>> rows = cells;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = PrintableText(cell);
  }
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line.append(i == 0 ? style.indent : style.gap, ' ');
      line += row[i];
      line.append(widths[i] - row[i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
    text += '\n';
  }
  return text;
}

}  // namespace adjoin
