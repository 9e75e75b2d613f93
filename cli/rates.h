// Whose rates a command predicts and chooses with.
#ifndef ADJOIN_CLI_RATES_H_
#define ADJOIN_CLI_RATES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/coordinator_client.h"
#include "layers/rules/layer_rule.h"
#include "planner/auto/auto_layouts.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"

namespace adjoin {

struct RateChoice {
  std::string file;       // a table in protobuf's text format, such as a daemon's rates.textproto
  bool of_nodes = false;  // instead: of the coordinator's nodes, the kind that most of them are
};

// Without a choice the table that is built in. Errors: kNotFound (no such file; no node has measured), those of
// ParseRates and of the coordinator.
absl::StatusOr<CostModel> ChosenModel(const RateChoice& choice, const ClientOptions& coordinator);

// Chooses a job's layouts by these rates, where `layouts` says so, and puts them into the spec and its source.
// `data_root`: the folder of the data files; absent: they are elsewhere. Says on standard error where layouts for whole
// volumes are chosen without their extents. Errors: as ChosenModel and ChooseLayouts; kInvalidArgument: rates, but no
// layouts to choose by them.
absl::Status ChooseLayoutsBy(const RateChoice& choice, const ClientOptions& coordinator,
                             const AutoLayoutOptions& layouts, const std::optional<std::string>& data_root,
                             const LayerRules& rules, LoadedSpec* loaded);

}  // namespace adjoin

#endif  // ADJOIN_CLI_RATES_H_
