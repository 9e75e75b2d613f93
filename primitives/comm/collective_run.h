// One rank's part of a broadcast, sum-reduce or all-sum-reduce, step by step.
//
//   CollectiveRun run(&channel, &memory, plan.dtype(), group, steps, position, source, destination);
//   ADJOIN_RETURN_IF_ERROR(run.Begin(deadline));    // goes as far as it can without waiting for another rank's data
//   ADJOIN_RETURN_IF_ERROR(run.Finish(deadline));
//
// The steps fix the order of additions. A root that takes no part leaves the side that it does not have untouched.
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_COLLECTIVE_RUN_H_
#define ADJOIN_PRIMITIVES_COMM_COLLECTIVE_RUN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/deadline.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class CollectiveRun {
 public:
  // `group` outlives the run. `source` and `destination` are the rank's whole local tensors; the one that the group
  // does not touch may be anything. `position` is this rank's in group.ranks.
  CollectiveRun(Channel* channel, LocalMemory* memory, DType dtype, const CollectiveGroup* group,
                std::vector<CollectiveStep> steps, int position, const Buffer& source, const Buffer& destination);

  absl::Status Begin(Deadline deadline);
  absl::Status Finish(Deadline deadline);

 private:
  struct PendingSend {
    Channel::Posted posted;
    Interval elements;
  };

  absl::Status PrepareWork();
  // Posts a step's receive and send.
  absl::Status Post(const CollectiveStep& step, Deadline deadline);
  // Waits for the posted receive and takes it in.
  absl::Status Complete(const CollectiveStep& step, Deadline deadline);
  // Posts steps until one of them receives.
  absl::Status PostUntilReceive(Deadline deadline);
  // Memory that a send still reads must not change.
  absl::Status WaitForSendsOf(Interval elements, Deadline deadline);
  Buffer Elements(const Buffer& buffer, Interval elements) const;

  Channel* channel_;
  LocalMemory* memory_;
  DType dtype_;
  int64_t element_bytes_;
  const CollectiveGroup* group_;
  std::vector<CollectiveStep> steps_;
  int position_;
  Buffer source_;
  Buffer destination_;
  Buffer work_;     // what is sent and received into
  Buffer staging_;  // for what is added
  std::size_t next_ = 0;
  std::optional<Channel::Posted> receive_;  // of step next_
  std::vector<PendingSend> sends_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_COLLECTIVE_RUN_H_
