// An execution: one run of a movement, between Communicator::Start and Communicator::Wait. Its parts are a
// DirectExecution (the plain list of messages) and a CollectiveExecution per collective; what they do is in a
// CompiledMovement.
//
//   MovementExecution execution(&transport, &memory, /*communicator=*/0, &what, /*generation=*/0, &links, compiled, x,
//                               y);
//   ADJOIN_RETURN_IF_ERROR(execution.Start());                 // posts receives, sends, copies what the rank keeps
//   ADJOIN_ASSIGN_OR_RETURN(bool moved, execution.Advance());  // until done()
//
// Nothing here blocks: a Communicator advances every execution that is in flight while it waits for one.
//
// Contributions to one cell are combined in an order that the plan fixes (compiled_movement.h), so the result has the
// same bits in every run, however messages arrive. Dropping it unfinished cancels what it can.
//
// Bound on what is in flight. A sender of an execution's generation g first waits for the receiver's credit for g - 2,
// a message without payload, so the messages of at most two executions of an operator wait unreceived at a rank (in
// shared memory there is room for two, and no credits are sent). Where
// two ranks send each other data in every execution, and in an all-sum-reduce, the data itself is such a word, and no
// credits are sent: a rank starts at most two executions ahead of the last one that it has waited for, so a peer that
// has fallen behind has at most four unreceived.
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_MOVEMENT_EXECUTION_H_
#define ADJOIN_PRIMITIVES_COMM_MOVEMENT_EXECUTION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/collective_execution.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/direct_execution.h"
#include "primitives/comm/local_memory.h"
#include "primitives/comm/shared_links.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// What a rank does in an execution, and which of its messages may go through shared memory.
struct RoutedMovement {
  CompiledMovement compiled;
  SharedRoutes routes;
};

class MovementExecution {
 public:
  // What is kept of an operator in one direction between its executions.
  struct Operator {
    OperatorLinks links;
    // The two executions before the next one, by generation modulo 2: where they sent data by the transport, credits
    // are still to come.
    struct Previous {
      std::shared_ptr<const RoutedMovement> movement;
      ExecutionLinks links;
    };
    Previous previous[2];
  };

  // `execution` and `op` outlive this. Buffers as in Communicator::Start.
  MovementExecution(Transport* transport, LocalMemory* memory, int communicator, const Execution* execution,
                    int64_t generation, Operator* op, std::shared_ptr<const RoutedMovement> movement, Buffer source,
                    Buffer destination);
  // Leaves the list that it has joined.
  ~MovementExecution();
  MovementExecution(const MovementExecution&) = delete;
  MovementExecution& operator=(const MovementExecution&) = delete;

  // Errors: the transport's and the memory's; messages name operator, direction, generation and peer.
  absl::Status Start();
  // Does what can be done. Returns true where anything happened.
  absl::StatusOr<bool> Advance();
  bool done() const { return done_; }
  const Execution& execution() const { return channel_.execution(); }
  int64_t generation() const { return channel_.generation(); }
  // Appends what it now waits for: at least one of them must be over for it to go on. Empty once done.
  void AppendBlockers(std::vector<Channel::Posted>& blockers) const;
  // The error of a wait that is given up, its time being up or for an abort: names the peer. `blocker` is one of this
  // execution's.
  absl::Status GivenUp(const Channel::Posted& blocker);

  // Records its messages. Before Start; as Channel::Record.
  void Record(SpanRecorder* recorder) { channel_.Record(recorder); }

  // Executions in flight, of which this is one from now on until it is done or dropped.
  void Join(std::vector<MovementExecution*>* list);

  // The sends of the credits that it gave when it was done. A credit that cannot be delivered harms only a peer that is
  // gone, so they are not waited for; the Communicator forgets those that are over.
  std::vector<Handle> TakeCreditSends() { return std::move(credit_sends_); }

 private:
  // Posts receives of the credits for the execution before the one before.
  absl::Status ExpectCredits();
  // True where every credit has come.
  absl::StatusOr<bool> TakeCredits();
  absl::StatusOr<bool> AdvanceNow();
  void GiveCredits();
  void Leave();

  Operator* op_;
  std::shared_ptr<const RoutedMovement> movement_;
  const CompiledMovement* compiled_;
  ExecutionLinks links_;
  Buffer source_;
  Buffer destination_;
  Channel channel_;
  DirectExecution direct_;
  std::vector<std::unique_ptr<CollectiveExecution>> collectives_;
  std::vector<Channel::Posted> credits_;  // that have not come
  bool done_ = false;
  std::vector<Handle> credit_sends_;
  std::vector<MovementExecution*>* list_ = nullptr;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_MOVEMENT_EXECUTION_H_
