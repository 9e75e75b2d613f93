#include "base/amount_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adjoin {
namespace {

// Returns three digits of `value`, which is at least 0 and, but for the last unit, below 1024.
std::string ThreeDigits(double value) {
  return absl::StrFormat("%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

}  // namespace

std::string BytesText(int64_t bytes) {
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, bytes == 1 ? " byte" : " bytes");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  // 1023.6 KiB would be written as 1024 KiB.
  for (; value >= 1023.5 && unit < 5; ++unit) value /= 1024;
  return absl::StrCat(ThreeDigits(value), " ", kUnits[unit]);
}

std::string CountText(int64_t count) {
  std::string digits = absl::StrCat(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string FlopsText(double flops) {
  static const char* const kUnits[] = {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop", "Eflop"};
  int unit = 0;
  for (; flops >= 999.5 && unit < 6; ++unit) flops /= 1000;
  return absl::StrCat(absl::StrFormat("%.3g", flops), " ", kUnits[unit]);
}

}  // namespace adjoin
