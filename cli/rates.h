// Whose rates a command predicts with.
#ifndef ADJOIN_CLI_RATES_H_
#define ADJOIN_CLI_RATES_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/coordinator_client.h"
#include "planner/time/cost_model.h"

namespace adjoin {

struct RateChoice {
  std::string file;       // a table in protobuf's text format, such as a daemon's rates.textproto
  bool of_nodes = false;  // instead: of the coordinator's nodes, the kind that most of them are
};

// Without a choice the table that is built in. Errors: kNotFound (no such file; no node has measured), those of
// ParseRates and of the coordinator.
absl::StatusOr<CostModel> ChosenModel(const RateChoice& choice, const ClientOptions& coordinator);

}  // namespace adjoin

#endif  // ADJOIN_CLI_RATES_H_
