// Rows of cells as aligned columns, for terminals.
//
//   TextTable({{"A", "B"}, {"long", "x"}});   // "A     B\nlong  x\n"
#ifndef ADJOIN_BASE_TEXT_TABLE_H_
#define ADJOIN_BASE_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace adjoin {

struct TextTableStyle {
  size_t indent = 0;  // spaces before the first column
  size_t gap = 2;     // spaces between columns
};

// Returns a line per row, each column padded to its longest cell. Rows may have fewer cells than others; no line ends
// in spaces. What a terminal would not show as it is, is written out (base/printable_text.h).
std::string TextTable(const std::vector<std::vector<std::string>>& cells, TextTableStyle style = {});

}  // namespace adjoin

#endif  // ADJOIN_BASE_TEXT_TABLE_H_
