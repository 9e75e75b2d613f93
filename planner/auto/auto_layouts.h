// `--auto` of commands: layouts that the planner chooses.
#ifndef ADJOIN_PLANNER_AUTO_AUTO_LAYOUTS_H_
#define ADJOIN_PLANNER_AUTO_AUTO_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "planner/auto/auto_plan.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"
#include "proto/job.pb.h"

namespace adjoin {

// As they are written on the command line.
struct AutoLayoutOptions {
  bool chosen = false;           // --auto
  std::string ranks;             // "8", "1..64"; "": the job's
  uint64_t memory_bytes = 0;     // 0: as the job says
  std::vector<std::string> pin;  // "conv1=1x1x2x2"
  std::string diff;              // another job's file
  bool emit = false;             // print the job and nothing else
};

// Errors: kInvalidArgument: an option that needs --auto without it.
absl::Status CheckAutoOptions(const AutoLayoutOptions& options);

struct RanksRange {
  int64_t first = 0, last = 0;  // 0: as the job says
};
// "8" or "1..64". Errors: kInvalidArgument: no such numbers, below 1, above Planner::kMaxRanks, or in falling order.
absl::StatusOr<RanksRange> ParseRanks(const std::string& text);

// The numbers of ranks that a table shows: the first, the powers of two between, and the last.
std::vector<int64_t> RanksInTable(RanksRange range);

// The job as text, with a first line that says where its layouts are from.
absl::StatusOr<std::string> EmittedText(const JobSpec& spec);

// Chooses layouts by the rates of `model` and puts them into the spec and its source. `extents`: as of AutoOptions.
// Errors: as PlanAutomatically, with the lines of `loaded`, and of the options.
absl::Status ChooseLayouts(const AutoLayoutOptions& options, const DatasetSizes& sizes, const VolumeExtents& extents,
                           const LayerRules& rules, const CostModel& model, LoadedSpec* loaded);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_AUTO_LAYOUTS_H_
