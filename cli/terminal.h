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

// Cuts each line to so many characters, the last of them "…" where something is missing. `width` 0: nothing is cut.
std::string CutLines(const std::string& text, size_t width);

}  // namespace adjoin

#endif  // ADJOIN_CLI_TERMINAL_H_
