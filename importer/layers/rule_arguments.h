// What several rules of the import need: refusals, and lists per spatial dim as jobs write them.
#ifndef ADJOIN_IMPORTER_LAYERS_RULE_ARGUMENTS_H_
#define ADJOIN_IMPORTER_LAYERS_RULE_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

template <typename... Parts>
absl::Status Unsupported(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Writes one number per spatial dim to a job's list: one for all where they are equal, and nothing where all are
// `absent`. Errors: kInvalidArgument where one is below `least` or beyond 32 bits.
template <typename Field>
absl::Status WritePerDim(const std::vector<int64_t>& numbers, int64_t absent, int64_t least, Field* field) {
  for (int64_t number : numbers) {
    if (number < least || number > std::numeric_limits<int32_t>::max()) {
      return Unsupported("it has the number ", number, " for a spatial dim");
    }
  }
  if (std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == absent; })) {
    return absl::OkStatus();
  }
  const bool equal = std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == numbers[0]; });
  for (size_t i = 0; i < (equal ? 1 : numbers.size()); ++i) field->Add(static_cast<int32_t>(numbers[i]));
  return absl::OkStatus();
}

// A dim that counts from the last where it is negative, from the first. -1 where there is none.
inline int64_t DimFromFirst(int64_t dim, size_t dims) {
  const int64_t count = static_cast<int64_t>(dims);
  if (dim < -count || dim >= count) return -1;
  return dim < 0 ? dim + count : dim;
}

// 2 of "conv2d" and of "max_pool2d_with_indices"; 0 where the name has none.
inline size_t DimsOfName(const std::string& op) {
  for (size_t i = 0; i + 1 < op.size(); ++i) {
    if (op[i] >= '1' && op[i] <= '3' && op[i + 1] == 'd') return static_cast<size_t>(op[i] - '0');
  }
  return 0;
}

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_RULE_ARGUMENTS_H_
