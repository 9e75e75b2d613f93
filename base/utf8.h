// Cutting text without leaving a part of a character: a message with half a character cannot be read again.
//
//   event.set_text(std::string(text.substr(0, Utf8Prefix(text, 4096))));
#ifndef ADJOIN_BASE_UTF8_H_
#define ADJOIN_BASE_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace adjoin {

// How many bytes of `text`, at most `max`, end with a whole character. Text that is not UTF-8 is cut at `max`.
inline size_t Utf8Prefix(absl::string_view text, size_t max) {
  if (text.size() <= max) return text.size();
  constexpr size_t kLongest = 4;  // bytes of a character
  // The byte after the cut begins a character, unless it is one of 10xxxxxx.
  for (size_t size = max; max - size < kLongest; --size) {
    if ((static_cast<unsigned char>(text[size]) & 0xc0) != 0x80) return size;
    if (size == 0) break;
  }
  return max;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_UTF8_H_
