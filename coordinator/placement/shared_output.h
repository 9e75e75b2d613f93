// Jobs whose ranks meet in files: they need nodes that share one --output-root, which each daemon's output_id proves.
//
//   ADJOIN_RETURN_IF_ERROR(CheckSharedOutput(spec, all_slots));                    // at submit
//   std::optional<std::vector<std::string>> of_rank = PlaceJob(spec, free_slots, before, home);
#ifndef ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_
#define ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/placement/placement.h"
#include "proto/job.pb.h"

namespace adjoin {

// Whether a job's ranks read and write files of each other: checkpoints, and what PREDICT writes.
bool NeedsSharedOutput(const JobSpec& spec);

// Whether a job's attempts leave each other files: what one has written, only ranks that see its output root go on from.
bool KeepsCheckpoints(const JobSpec& spec);

// The workers that share a worker's output root, as a name: its output_id, or where that is not known, one of its own.
std::string OutputGroup(const FreeSlots& worker);

// Whether all workers of `workers` are known to share one output root: then slots are slots.
bool ShareAll(const std::vector<FreeSlots>& workers);

// As PlaceRanks; all ranks of a job that needs it on workers of one OutputGroup, of `home` where that is not "". A worker
// whose output_id is not known shares with no other.
std::optional<std::vector<std::string>> PlaceJob(const JobSpec& spec, const std::vector<FreeSlots>& free,
                                                 const std::vector<std::string>& before, const std::string& home);

// Errors: kFailedPrecondition where the workers of `all` have slots enough for the job, and those of no output_id have; names
// which share and which do not, and what would be right.
absl::Status CheckSharedOutput(const JobSpec& spec, const std::vector<FreeSlots>& all);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_
