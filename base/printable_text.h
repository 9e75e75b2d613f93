// Text that came from outside (a file, a name, a system's message) made fit for messages, logs and terminals.
//
//   PrintableText("caf\xc3\xa9\x1b[31m")    // "café\x1b[31m", where the escape is written out as four characters
//   PrintableText(error, 4096)              // at most 4,096 bytes; tells how many were left out
//
// The result is valid UTF-8 without control characters but the tab. What would not be is written out: bytes as \xff,
// control characters as \x1b or \n, characters that change the direction or the line of the text as \u202e.
#ifndef ADJOIN_BASE_PRINTABLE_TEXT_H_
#define ADJOIN_BASE_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

// The result has at most `max_bytes` bytes, and at least as many as the note of what was left out needs (48).
std::string PrintableText(absl::string_view text, size_t max_bytes = static_cast<size_t>(-1));

// True where PrintableText would change nothing.
bool IsPrintableText(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_BASE_PRINTABLE_TEXT_H_
