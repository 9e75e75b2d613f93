#include "planner/spec/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace adjoin {
namespace {

// The least number of letters that are added, left out or replaced.
size_t Changes(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t before = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, before + (a[i - 1] == b[j - 1] ? 0 : 1)});
      before = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 200;
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 3 + 1);
  for (const std::string& other : names) {
    if (name.size() > kLongest || other.size() > kLongest) continue;
    const size_t changes = Changes(name, other);
    if (changes >= least) continue;
    least = changes;
    nearest = other;
  }
  return nearest;
}

}  // namespace adjoin
