// Lists of numbers as people write them.
//
//   NumberRanges(std::vector<int>{0, 1, 2, 3, 6});   // "0-3,6"
#ifndef ADJOIN_BASE_NUMBER_RANGES_H_
#define ADJOIN_BASE_NUMBER_RANGES_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {

// In their order; numbers that follow each other by one are a range.
template <typename Numbers>
std::string NumberRanges(const Numbers& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first, next = first;
    while (++next != numbers.end() && *next == *last + 1) last = next;
    absl::StrAppend(&text, text.empty() ? "" : ",", *first);
    if (last != first) absl::StrAppend(&text, "-", *last);
    first = next;
  }
  return text;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_NUMBER_RANGES_H_
