// Comma-separated values (RFC 4180) that every reader takes as data, whoever chose the names in them.
//
//   CsvLine({"step", "a,b"});       // "step,\"a,b\"\n"
//   CsvLine({"-1.5", "=1+1"});      // "-1.5,\"'=1+1\"\n": a spreadsheet would compute the second one
//
// Lines end in \n alone, as other programs of a pipe expect. A text that a spreadsheet would take for a formula has a '
// before it, which spreadsheets do not show; numbers never have one. What a terminal would not show as it is, is
// written out (base/printable_text.h), so no cell has a line end.
#ifndef ADJOIN_CLI_CSV_H_
#define ADJOIN_CLI_CSV_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

// One cell, quoted where it has to be.
std::string CsvCell(absl::string_view text);

// Cells, with the line's end.
std::string CsvLine(const std::vector<std::string>& cells);

}  // namespace adjoin

#endif  // ADJOIN_CLI_CSV_H_
