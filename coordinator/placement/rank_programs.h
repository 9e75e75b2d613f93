// Nodes that are upgraded one after the other run different programs of a rank for a while. All ranks of a job run one:
// two releases may give each other numbers that mean something else, or other bits.
#ifndef ADJOIN_COORDINATOR_PLACEMENT_RANK_PROGRAMS_H_
#define ADJOIN_COORDINATOR_PLACEMENT_RANK_PROGRAMS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "coordinator/placement/assignment.h"
#include "proto/job.pb.h"

namespace adjoin {

// Equal for workers that have one program of a rank. The worker's texts outlive it.
using ProgramKey = std::pair<absl::string_view, absl::string_view>;
ProgramKey ProgramOf(const FreeSlots& worker);

// The workers by FreeSlots::program, in the order of its texts. A worker whose program is not read yet
// (kUnreadProgram) is alone; those that do not tell it are one group: daemons of releases before it was told.
std::vector<std::vector<FreeSlots>> GroupsByProgram(const std::vector<FreeSlots>& workers);

// True where all of `workers` have one program of a rank, so that only the number of slots counts.
bool HaveOneProgram(const std::vector<FreeSlots>& workers);

// Why the job cannot run on `all`: they have slots enough for it, but none that have one program of a rank do. Names
// the workers, and what would be right. "" where that is not so.
std::string ProgramsReason(const JobSpec& spec, const std::vector<FreeSlots>& all);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_RANK_PROGRAMS_H_
