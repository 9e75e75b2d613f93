// One execution of a movement in flight, between Communicator::Start and Communicator::Wait.
//
//   PendingMovement pending(&transport, &memory, /*communicator=*/0, {.op = 7}, /*generation=*/0, &plan, x, y);
//   ADJOIN_RETURN_IF_ERROR(pending.Start(deadline));    // posts receives, then sends, then moves what the rank keeps
//   ADJOIN_RETURN_IF_ERROR(pending.Finish(deadline));   // takes in what comes, in the order of ranks
//
// Contributions to one cell are added in ascending order of the ranks they come from, this rank's own in its place, so
// the result has the same bits in every run, however messages arrive. Dropping it unfinished cancels what it can.
//
// Bound on what is in flight. A sender of an execution's generation g first waits for the receiver's credit for g - 2, a
// message without payload, so at most two executions of an operator's messages lie unreceived at a rank. Where two
// ranks send each other data in every execution, and in an all-sum-reduce, the data itself is such a word, and no
// credits are sent.
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_PENDING_MOVEMENT_H_
#define ADJOIN_PRIMITIVES_COMM_PENDING_MOVEMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/deadline.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/collective_run.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class PendingMovement {
 public:
  // `plan` outlives this. Buffers as in Communicator::Start.
  PendingMovement(Transport* transport, LocalMemory* memory, int communicator, Execution execution, int64_t generation,
                  const MovementPlan* plan, Buffer source, Buffer destination);
  PendingMovement(const PendingMovement&) = delete;
  PendingMovement& operator=(const PendingMovement&) = delete;

  // Errors: the transport's and the memory's; messages name operator, direction, generation and peer.
  absl::Status Start(Deadline deadline);
  absl::Status Finish(Deadline deadline);

  // The sends of the credits that Finish gave. A credit that cannot be delivered harms only a peer that is gone, so
  // nobody waits for them; the Communicator forgets those that are over.
  std::vector<Handle> TakeCreditSends() { return std::move(credit_sends_); }

 private:
  struct Incoming {
    const Transfer* transfer;
    Channel::Posted posted;
    Buffer staging;  // no bytes: received in place
  };

  // Ranks that get from this one, or give to it, without a mutual exchange.
  void FindOneWayPeers();
  absl::Status WaitForCredits(Deadline deadline);
  absl::Status PostReceives();
  absl::Status PostSends();
  // How contributions go into the destination; absent: each cell has at most one.
  std::optional<ReduceOp> Combining() const;
  absl::Status KeepOwn();
  absl::Status TakeIn(const Incoming& incoming, Deadline deadline);
  void GiveCredits();

  Channel channel_;
  LocalMemory* memory_;
  const MovementPlan* plan_;
  int64_t element_bytes_;
  Buffer source_;
  Buffer destination_;
  std::vector<CollectiveRun> collectives_;
  std::vector<Incoming> incoming_;
  std::vector<Channel::Posted> sends_;
  std::set<int> sends_one_way_to_;
  std::set<int> receives_one_way_from_;
  std::vector<Handle> credit_sends_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_PENDING_MOVEMENT_H_
