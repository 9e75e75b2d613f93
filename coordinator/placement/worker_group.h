// What is said of workers that may run a job together.
#ifndef ADJOIN_COORDINATOR_PLACEMENT_WORKER_GROUP_H_
#define ADJOIN_COORDINATOR_PLACEMENT_WORKER_GROUP_H_

#include <string>
#include <vector>

#include "coordinator/placement/assignment.h"
#include "proto/job.pb.h"

namespace adjoin {

// True where the job's ranks have slots on these workers.
bool Suffice(const std::vector<FreeSlots>& workers, const JobSpec& spec);

// "node-1 (4 slots) and node-2 (4 slots)", "node-1 (4 slots, 2 GPUs)"
std::string NamesWithSlots(const std::vector<FreeSlots>& workers, bool with_gpus);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_WORKER_GROUP_H_
