// What the keys of a terminal mean, from the bytes that it sends.
//
//   KeyReader keys;
//   for (const Key key : keys.Read("j\x1b[A")) ...     // kDown, kUp
//   if (keys.waiting()) ...                            // half a sequence: more comes at once, or Flush() ends it
#ifndef ADJOIN_CLI_KEY_READER_H_
#define ADJOIN_CLI_KEY_READER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

enum class Key { kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kBack, kQuit, kSort, kReverse, kRefresh };

class KeyReader {
 public:
  // Other keys and sequences are left out. Bytes that may begin a sequence wait for the next call.
  std::vector<Key> Read(absl::string_view bytes);
  bool waiting() const { return !begun_.empty(); }
  // Nothing more came: an escape alone is the key Esc.
  std::vector<Key> Flush();

 private:
  std::string begun_;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_KEY_READER_H_
