// Lists of names for an error: a file may have thousands of them, and of any bytes.
//
//   PrintableList({"conv1.weight", "conv1.bias"})    // "conv1.weight, conv1.bias"
#ifndef ADJOIN_BASE_PRINTABLE_LIST_H_
#define ADJOIN_BASE_PRINTABLE_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"

namespace adjoin {

// Returns the first 20 names, each cut at 200 bytes, and how many more there are.
inline std::string PrintableList(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20, kBytes = 200;
  std::string list;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", PrintableText(names[i], kBytes));
  }
  if (names.size() > kShown) absl::StrAppend(&list, " and ", names.size() - kShown, " more");
  return list;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_PRINTABLE_LIST_H_
