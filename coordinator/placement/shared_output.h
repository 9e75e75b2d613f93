// Jobs whose ranks share files: they need nodes that have one --output-root, which each daemon's output_id proves.
//
//   ADJOIN_RETURN_IF_ERROR(CheckSharedOutput(spec, all_slots));                    // at submit
#ifndef ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_
#define ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/placement/assignment.h"
#include "proto/job.pb.h"

namespace adjoin {

// True where the job's ranks read and write files of each other: checkpoints, and what PREDICT writes.
bool NeedsSharedOutput(const JobSpec& spec);

// True where an attempt of the job goes on from files of the attempt before, which only ranks that see its output
// root can read.
bool KeepsCheckpoints(const JobSpec& spec);

// An output root, equal for the workers that share it. Those with an output_id come first. The worker's texts outlive
// it.
struct OutputRoot {
  bool of_one = false;          // no output_id is known: nobody else is known to share it
  absl::string_view name = "";  // the output_id, or the worker's name
  // "ID" or "only WORKER", as jobs keep it (JobRecord::home).
  std::string ToString() const;
  friend bool operator==(const OutputRoot& a, const OutputRoot& b) { return a.of_one == b.of_one && a.name == b.name; }
  friend bool operator<(const OutputRoot& a, const OutputRoot& b) {
    return std::tie(a.of_one, a.name) < std::tie(b.of_one, b.name);
  }
};
OutputRoot OutputRootOf(const FreeSlots& worker);

// The workers by OutputRoot, in its order.
std::vector<std::vector<FreeSlots>> GroupsByOutputRoot(const std::vector<FreeSlots>& workers);

// True where all of `workers` are known to share one output root, so that only the number of slots counts.
bool ShareAll(const std::vector<FreeSlots>& workers);

// Finds, worker by worker, whether those of one output root have slots for all ranks of a job.
class SharedRoom {
 public:
  // `spec`, and the texts of the workers, outlive it.
  explicit SharedRoom(const JobSpec& spec) : spec_(spec) {}
  // True where they are found with this worker.
  bool Add(const FreeSlots& worker);

 private:
  const JobSpec& spec_;
  std::map<absl::string_view, int64_t> room_;  // in ranks, by output_id
};

// Errors: kFailedPrecondition where the workers of `all` have slots enough for the job, but none that share an output
// root do; the message names the workers that share one, and what would be right.
absl::Status CheckSharedOutput(const JobSpec& spec, const std::vector<FreeSlots>& all);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLACEMENT_SHARED_OUTPUT_H_
