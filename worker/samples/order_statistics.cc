#include "worker/samples/order_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace adjoin {
namespace {

constexpr int kDigitBits = 16;
constexpr uint64_t kDigits = uint64_t{1} << kDigitBits;
constexpr uint64_t kSign = uint64_t{1} << 63;

// Orders as the values do; 0 and -0 are one.
uint64_t KeyOf(double value) {
  value += 0.0;  // -0 becomes 0
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

double ValueOf(uint64_t key) {
  const uint64_t bits = (key & kSign) != 0 ? key & ~kSign : ~key;
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Where a percentile is among the sorted values, as NumPy computes it.
double PlaceOf(int64_t count, double percentage) { return static_cast<double>(count - 1) * (percentage / 100); }

// NumPy's, so that the bits are the same.
double Interpolated(double a, double b, double t) {
  const double difference = b - a;
  return t >= 0.5 ? b - difference * (1 - t) : a + difference * t;
}

}  // namespace

OrderStatistics::OrderStatistics(const std::vector<int64_t>& ranks) : below_(64 - kDigitBits), wanted_(ranks.size()) {
  for (size_t i = 0; i < ranks.size(); ++i) wanted_[i].rank = ranks[i];
  StartPass();
}

void OrderStatistics::StartPass() {
  bins_.clear();
  for (const Wanted& wanted : wanted_) {
    if (wanted.found) continue;
    Bins& bins = bins_[wanted.prefix];
    bins.count.assign(kDigits, 0);
    bins.first.resize(kDigits);
    bins.several.assign(kDigits, 0);
  }
}

void OrderStatistics::Add(const double* values, int64_t count) {
  const bool all = below_ == 64 - kDigitBits;
  for (auto& [prefix, bins] : bins_) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = KeyOf(values[i]);
      if (!all && (key >> (below_ + kDigitBits)) != prefix) continue;
      const uint64_t digit = (key >> below_) & (kDigits - 1);
      if (bins.count[digit]++ == 0) {
        bins.first[digit] = key;
      } else if (bins.first[digit] != key) {
        bins.several[digit] = 1;
      }
    }
  }
}

// Goes on to the digit of the wanted key. False where there are fewer keys than before.
bool OrderStatistics::Narrow(const Bins& bins, Wanted& wanted) {
  for (uint64_t digit = 0; digit < kDigits; ++digit) {
    if (wanted.rank >= bins.count[digit]) {
      wanted.rank -= bins.count[digit];
      continue;
    }
    wanted.prefix = (wanted.prefix << kDigitBits) | digit;
    wanted.found = bins.several[digit] == 0;
    wanted.key = bins.first[digit];
    return true;
  }
  return false;
}

absl::Status OrderStatistics::EndPass() {
  for (Wanted& wanted : wanted_) {
    if (wanted.found || Narrow(bins_.at(wanted.prefix), wanted)) continue;
    return absl::DataLossError("its values were changed while they were read");
  }
  below_ -= kDigitBits;  // after the last digit, every key is known
  StartPass();
  return absl::OkStatus();
}

std::vector<double> OrderStatistics::Found() const {
  std::vector<double> values;
  for (const Wanted& wanted : wanted_) values.push_back(ValueOf(wanted.key));
  return values;
}

std::vector<int64_t> Percentiles::RanksOf(int64_t count, const std::vector<double>& percentages) {
  std::vector<int64_t> ranks;
  for (double percentage : percentages) {
    const auto below = static_cast<int64_t>(std::floor(PlaceOf(count, percentage)));
    ranks.push_back(std::min(below, count - 1));
    ranks.push_back(std::min(below + 1, count - 1));
  }
  return ranks;
}

Percentiles::Percentiles(int64_t count, const std::vector<double>& percentages)
    : statistics_(RanksOf(count, percentages)) {
  for (double percentage : percentages) {
    const double place = PlaceOf(count, percentage);
    between_.push_back(place - std::floor(place));
  }
}

std::vector<double> Percentiles::Found() const {
  const std::vector<double> values = statistics_.Found();
  std::vector<double> found;
  for (size_t i = 0; i < between_.size(); ++i) {
    found.push_back(Interpolated(values[2 * i], values[2 * i + 1], between_[i]));
  }
  return found;
}

}  // namespace adjoin
