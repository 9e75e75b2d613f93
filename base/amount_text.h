// Amounts as people read them. What is exact is printed beside, or for programs.
//
//   BytesText(1289748);     // "1.23 MiB"
//   CountText(61706);       // "61,706"
//   FlopsText(2.71e7);      // "27.1 Mflop"
#ifndef ADJOIN_BASE_AMOUNT_TEXT_H_
#define ADJOIN_BASE_AMOUNT_TEXT_H_

#include <cstdint>
#include <string>

namespace adjoin {

// Below 1024 "17 bytes"; else three digits and KiB, MiB, ... EiB. A negative number is not shortened.
std::string BytesText(int64_t bytes);

// The whole number with a comma before every three digits.
std::string CountText(int64_t count);

// Three digits and flop, kflop, Mflop, ... Eflop.
std::string FlopsText(double flops);

}  // namespace adjoin

#endif  // ADJOIN_BASE_AMOUNT_TEXT_H_
