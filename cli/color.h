// Colours of states, where standard output is a terminal that shows some. Text is laid out first and painted then:
// escape sequences have no width.
//
//   const bool color = UsesColor(ColorChoice::kAuto);
//   std::cout << (color ? PaintStates(table) : table);
#ifndef ADJOIN_CLI_COLOR_H_
#define ADJOIN_CLI_COLOR_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

enum class ColorChoice { kAuto, kAlways, kNever };

// "always", "never"; all else is kAuto.
ColorChoice ColorChoiceOf(absl::string_view name);

// kAuto: `terminal` is true, `no_color` (NO_COLOR, https://no-color.org) is absent or empty, and `term` (TERM) names a
// terminal that is not "dumb". Both texts may be null.
bool UsesColor(ColorChoice choice, bool terminal, const char* no_color, const char* term);
// The same of standard output and this process's environment.
bool UsesColor(ColorChoice choice);

// Paints the states in the column STATE of each table in the text: a table begins with the text or after an empty line,
// with the columns' names, and is aligned as TextTable aligns. No other text is painted, whatever it says.
std::string PaintStates(const std::string& text);

// Paints the state that follows the first line that begins with `before` and perhaps spaces: "state", "job-1".
std::string PaintStateAfter(absl::string_view before, const std::string& text);

}  // namespace adjoin

#endif  // ADJOIN_CLI_COLOR_H_
