// Which worker runs which ranks: all ranks of a job at once, or none.
//
//   std::vector<FreeSlots> free = {{.worker = "node-1", .slots = 4}, {.worker = "node-2", .slots = 2}};
//   absl::StatusOr<Assignment> workers = Assign(&AssignCompactly, spec, free, /*before=*/{}, /*home=*/"");
//
// Assign finds the workers that may run the job together, an AssignmentPolicy chooses among them, and Assign checks the
// choice. So a policy can be replaced without knowing the rules that every choice must keep
// (docs/extending/assignment-policy.md; examples/assignment_policy has one).
#ifndef ADJOIN_COORDINATOR_PLACEMENT_ASSIGNMENT_H_
#define ADJOIN_COORDINATOR_PLACEMENT_ASSIGNMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// What is free of one worker. The texts lie with whoever knows the worker, and outlive this: one decision looks at
// thousands.
struct FreeSlots {
  absl::string_view worker;
  int slots = 0;
  absl::string_view output_id = "";  // identifies its --output-root (WorkerHello.output_id); "": not known
  int gpus = 0;
  // Bytes for ranks that nobody was promised, and those of the GPU that has least. Absent: not known, so anything fits.
  std::optional<int64_t> memory = std::nullopt;
  std::optional<int64_t> gpu_memory = std::nullopt;
  absl::string_view program = "";  // identifies its adjoin-rank (WorkerHello.rank_program); "": not known
};

// What each rank of a job takes, in bytes, as the plan predicts it. 0: not known, so it fits anywhere.
struct RankNeed {
  int64_t memory = 0;  // of the node
  int64_t gpu = 0;     // of its GPU
};

// How many ranks of a job with these resources the worker has room for: each needs a slot, memory, and GPUs where it
// asks for any; resources.max_ranks_per_node is a limit.
int RoomFor(const FreeSlots& worker, const Resources& resources, const RankNeed& need = {});

// The worker of each rank.
using Assignment = std::vector<std::string>;

// A worker that may run ranks of a job. Its name lies elsewhere, as that of FreeSlots.
struct Candidate {
  absl::string_view worker;
  int free_slots = 0;
  int most_ranks = 0;  // that it may run of this job (RoomFor): free_slots, or fewer
};

// Workers that may run a job together: its ranks are on workers of one group.
using CandidateGroup = std::vector<Candidate>;

struct AssignmentNeeds {
  std::vector<int> rank_order;  // every rank once; neighbours in the job's mesh follow each other (rank_order.h)
  Assignment before;            // the workers of the attempt before, of which some may be gone; empty: there was none
};

// Chooses a worker of one group for every rank. A pure function: the coordinator calls it under its lock, often, and
// also with slots that are not free, to learn whether a job could run if nothing else did. `groups` is not empty.
// Errors: kResourceExhausted (too few slots, which may not depend on rank_order: other jobs with as many ranks and the
// same resources are not asked for then; `adjoin ps` shows the number of free slots itself); any other code where
// the policy has another reason, whose message `adjoin ps` shows. The job then waits, and jobs behind it wait with it
// if they could delay it.
using AssignmentPolicy =
    std::function<absl::StatusOr<Assignment>(const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job)>;

// The policy of adjoin-coordinator. A rank keeps its worker where that has room. Of the other ranks, one worker takes
// all where one can (the one with the fewest slots, so that large jobs find room later); else ranks that follow each
// other in job.rank_order stay together, on the workers with the most slots. The groups are tried from that of
// job.before on, then from the one with the fewest free slots.
absl::StatusOr<Assignment> AssignCompactly(const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job);

// Asks `policy` for the workers of a job's ranks, each of which takes `need`. `free` has the workers whose labels fit.
// Workers with different programs of a rank (rank_programs.h) are never in one group. A job that needs a shared output
// root (shared_output.h) is offered groups of one output root each. Where `home` is not "", any job is offered groups
// of that root only. Errors: those of `policy`; kResourceExhausted where no worker may run the job; kInternal where the
// choice breaks a rule: the number of ranks, Candidate::most_ranks, one group.
absl::StatusOr<Assignment> Assign(const AssignmentPolicy& policy, const JobSpec& spec,
                                  const std::vector<FreeSlots>& free, Assignment before, const std::string& home,
                                  const RankNeed& need = {});

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_ASSIGNMENT_H_
