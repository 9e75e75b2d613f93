// The memory that a job's ranks take, as its plan predicts it, and the nodes that have so much.
//
//   const RankNeed need = NeedOf(job);
//   ADJOIN_RETURN_IF_ERROR(CheckMemory(planned, spec, workers.AllKnownFor(spec.resources())));    // at submit
#ifndef ADJOIN_COORDINATOR_DECISIONS_MEMORY_NEED_H_
#define ADJOIN_COORDINATOR_DECISIONS_MEMORY_NEED_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

// What each rank takes. A job that was planned by an older coordinator takes nothing that is known.
RankNeed NeedOf(const JobSpec& spec, const StepPrediction& predicted);
RankNeed NeedOf(const JobRecord& job);

// `connected`: the workers that have the job's labels, with all of their memory.
// Errors: kFailedPrecondition where a rank fits on none of them, now and ever; the message has the sum, the largest
// node, and what helps. Where nothing is connected, or the memory of a worker or of the job is not known: none.
absl::Status CheckMemory(const PlannedJob& planned, const JobSpec& spec, const std::vector<FreeSlots>& connected);

// How memory keeps the job's ranks from starting: "each rank takes 9.10 GiB of memory, for which 2 ranks find room";
// "" where it does not. `free`: the workers that the job may use, with what is free; `all`: with all that they have.
std::string MemoryReason(const JobSpec& spec, const RankNeed& need, const std::vector<FreeSlots>& free,
                         const std::vector<FreeSlots>& all);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_MEMORY_NEED_H_
