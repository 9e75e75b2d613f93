// The text that `adjoin verify` prints.
//
//   std::cout << ReportText(result);
#ifndef ADJOIN_VERIFY_REPORT_H_
#define ADJOIN_VERIFY_REPORT_H_

#include <string>

#include "verify/verify.h"

namespace adjoin {

// For each number of ranks a table of the layers' largest differences, and what deviates first, where, by how much.
std::string ReportText(const VerifyResult& result);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_REPORT_H_
