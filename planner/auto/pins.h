// Pins: what a user keeps of the layouts that are chosen.
//
//   ADJOIN_ASSIGN_OR_RETURN(const auto pins, ParsePins({"conv1=1x1x2x2", "fc1=rows"}, job, /*ranks=*/4));
//   pins.at("conv1").partition();   // 1, 1, 2, 2
#ifndef ADJOIN_PLANNER_AUTO_PINS_H_
#define ADJOIN_PLANNER_AUTO_PINS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace adjoin {

// Returns, by layer, the layout in which it reads its inputs: a partition, or a layout of the job by its name.
// Errors: kInvalidArgument: no LAYER=PARTITION; an unknown layer (names the nearest) or layout; a part of 0; more ranks
// than `ranks`; a layer twice.
absl::StatusOr<std::map<std::string, LayoutSpec>> ParsePins(const std::vector<std::string>& pins, const JobSpec& job,
                                                            int ranks);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_PINS_H_
