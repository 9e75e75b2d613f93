#include "worker/checkpoint/rank_sums.h"

#include <cstdint>

#include "base/status_macros.h"

namespace adjoin {
namespace {

// A float64 holds whole numbers of 53 bits exactly.
constexpr size_t kBytesPerNumber = 6;
constexpr size_t kNumbers = 4;

}  // namespace

absl::StatusOr<std::string> TellAll(const RankSums& sums, const std::string& mine) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> length, sums({static_cast<double>(mine.size())}));
  const auto size = static_cast<size_t>(length[0]);
  std::string text;
  while (text.size() < size) {
    std::vector<double> numbers(kNumbers);
    for (size_t i = 0; i < kNumbers * kBytesPerNumber; ++i) {
      const size_t at = text.size() + i;
      const double byte = at < mine.size() ? static_cast<unsigned char>(mine[at]) : 0;
      numbers[i / kBytesPerNumber] += byte * static_cast<double>(uint64_t{1} << (8 * (i % kBytesPerNumber)));
    }
    ADJOIN_ASSIGN_OR_RETURN(numbers, sums(numbers));
    for (size_t i = 0; i < kNumbers * kBytesPerNumber && text.size() < size; ++i) {
      const auto bytes = static_cast<uint64_t>(numbers[i / kBytesPerNumber]);
      text.push_back(static_cast<char>(bytes >> (8 * (i % kBytesPerNumber)) & 0xff));
    }
  }
  return text;
}

}  // namespace adjoin
