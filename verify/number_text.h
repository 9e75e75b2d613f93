// How reports write a difference or a tolerance.
//
//   NumberText(1e-10);  // "1.0e-10"
//   NumberText(0);      // "0"
#ifndef ADJOIN_VERIFY_NUMBER_TEXT_H_
#define ADJOIN_VERIFY_NUMBER_TEXT_H_

#include <string>

#include "absl/strings/str_format.h"

namespace adjoin {

inline std::string NumberText(double number) { return number == 0 ? "0" : absl::StrFormat("%.1e", number); }

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_NUMBER_TEXT_H_
