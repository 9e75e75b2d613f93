#include "cli/rate_flags.h"

namespace adjoin {

void AddRateFlags(CLI::App* command, RateChoice& rates, bool with_nodes) {
  CLI::Option* file = command
                          ->add_option("--rates", rates.file,
                                       "With --auto: choose by this table of rates, as adjoin-worker --calibrate keeps "
                                       "it; absent: one that is built in")
                          ->type_name("FILE");
  if (!with_nodes) return;
  command
      ->add_flag("--measured", rates.of_nodes,
                 "With --auto: choose by the rates that the coordinator's nodes have measured")
      ->excludes(file);
}

}  // namespace adjoin
