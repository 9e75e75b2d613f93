// What the command knows of the terminal that it writes to.
#ifndef ADJOIN_CLI_TERMINAL_H_
#define ADJOIN_CLI_TERMINAL_H_

#include <cstddef>
#include <string>

namespace adjoin {

// The columns of the terminal that is standard output; 0 where it is none.
int TerminalWidth();

// Its lines; 0 where it is none.
int TerminalHeight();

// The first so many lines of `text`, each with its end. `height` 0: all of it.
std::string FirstLines(const std::string& text, size_t height);

// Returns what stands for the missing end of a line: an ellipsis where the locale's characters are UTF-8, else "...".
// The locale is the first of LC_ALL, LC_CTYPE and LANG that is neither null nor empty.
std::string CutMark(const char* lc_all, const char* lc_ctype, const char* lang);
// The same of this process's environment.
std::string CutMark();

// Cuts each line to so many characters, which end with `mark`, or the beginning of it that fits, where something is
// missing. `width` 0: nothing is cut.
std::string CutLines(const std::string& text, size_t width, const std::string& mark = CutMark());

}  // namespace adjoin

#endif  // ADJOIN_CLI_TERMINAL_H_
