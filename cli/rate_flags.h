// The flags that say whose rates layouts are chosen by.
//
//   RateChoice rates;
//   AddRateFlags(command, rates, /*with_nodes=*/true);   // --rates, --measured
#ifndef ADJOIN_CLI_RATE_FLAGS_H_
#define ADJOIN_CLI_RATE_FLAGS_H_

#include "CLI/CLI.hpp"
#include "cli/rates.h"

namespace adjoin {

// `rates` must outlive `command`. Without `with_nodes` there is no --measured.
void AddRateFlags(CLI::App* command, RateChoice& rates, bool with_nodes);

}  // namespace adjoin

#endif  // ADJOIN_CLI_RATE_FLAGS_H_
