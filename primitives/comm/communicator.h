// Executes movements on buffers over a transport: packing, posting, collective steps, deadlines, one sticky failure.
// Every wait advances whatever is in flight, so an execution goes on while others are waited for.
//
//   HostMemory memory;
//   Communicator comm(&transport, &memory, {});
//   ADJOIN_RETURN_IF_ERROR(comm.Execute({.op = 7, .name = "conv1.x", .direction = Direction::kForward}, plan, src,
//   dst));
//
// Every rank that a plan concerns executes the same operators in the same order. The number of executions of an
// operator that were sent and not received between two ranks is bounded (movement_execution.h). After a failure, or an
// abort, every call fails at once with the first failure.
//
// Threads: as Transport (one at a time; Abort, status and waiting from any).
#ifndef ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_
#define ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/execution_check.h"
#include "primitives/comm/local_memory.h"
#include "primitives/comm/movement_execution.h"
#include "primitives/comm/span_recorder.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class Communicator {
 public:
  struct Options {
    int id = 0;                                   // in the tags: from 0 to kTransportCommunicator - 1 (reserved_ids.h)
    absl::Duration timeout = absl::Seconds(300);  // the limit of Start, Wait and Execute each
    // For programs under development: before each execution the ranks that exchange data in it compare what it is
    // (operator, direction, shape, type, layouts), and fail naming both where they differ. Start then waits for them.
    bool compare_executions = false;
  };

  using Execution = ::adjoin::Execution;

  // Both outlive the communicator.
  Communicator(Transport* transport, LocalMemory* memory, Options options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const LocalMemory& memory() const { return *memory_; }
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  // Starts one execution without blocking: posts receives, packs and sends. `source` and `destination` are contiguous
  // local tensors of plan.direct().from_shape() and to_shape() in this communicator's memory, kept by their keepalive
  // until Wait. At most two executions of an operator in one direction may be started and not waited for, and they are
  // waited for in the order of their starts, so that no rank gets further ahead of the others. (One that sends ahead
  // waits here, at most the timeout, while two of its operator are not done.) `destination` is
  // initialised by the caller: its cells that nothing reaches keep their value, those that contributions are combined
  // in must be 0 (for a maximum or minimum the lowest or highest number). The source must not change, nor the
  // destination be used, before Wait.
  // Errors: the first failure; kInvalidArgument (a buffer of another size or kind of memory, a plan of another rank);
  // kFailedPrecondition (an operator that was executed before with a plan that has other peers); the transport's.
  absl::StatusOr<std::unique_ptr<MovementExecution>> Start(const Execution& execution, const MovementPlan& plan,
                                                           const Buffer& source, const Buffer& destination);
  // Returns once this rank's part is done. That of an execution that sends ahead goes on while this rank does other
  // things here; SendAll waits for it.
  absl::Status Wait(std::unique_ptr<MovementExecution> pending);
  // Start and Wait in a row, under one deadline.
  absl::Status Execute(const Execution& execution, const MovementPlan& plan, const Buffer& source,
                       const Buffer& destination);
  // Waits until all that was sent ahead is on its way, and its sources may change. Errors: as Wait.
  absl::Status SendAll();

  // Waits until this communicator fails, for example by the abort of another rank, and returns that failure. OK where
  // nothing failed within `limit`. For a rank that met what may only follow from another rank's failure.
  absl::Status WaitForFailure(absl::Duration limit);

  // Ends every wait with `reason`, which is not OK; the first failure stays. From any thread.
  void Abort(absl::Status reason);
  // OK, or the first failure. From any thread.
  absl::Status status() const;

  // The execution in which this rank waits for other ranks.
  struct Waiting {
    std::string name;  // the operator's; "operator 7" where it has none
    Direction direction = Direction::kForward;
    int64_t execution = 0;  // which one of this operator in this direction, from 1
  };
  // Absent while it does not wait. From any thread; costs an execution one store to memory where it waits, else
  // nothing.
  std::optional<Waiting> waiting() const;

  // Time spent in Start, Wait and Execute since the start, and payload bytes sent by the transport.
  absl::Duration time_moving() const { return time_moving_; }
  // What of it this rank had nothing to do in but wait for messages.
  absl::Duration time_waiting() const { return time_waiting_; }
  int64_t BytesSent() const { return transport_->BytesSent(); }

  // Records movements, waits and messages from now on, until null. A recorder outlives the executions that were started
  // with it.
  void set_recorder(SpanRecorder* recorder) { recorder_ = recorder; }
  SpanRecorder* recorder() const { return recorder_; }
  // "conv1.x"; "operator 7" where it has no name; empty for one that was never executed. From any thread.
  std::string OperatorName(int64_t op) const;
  Transport* transport() const { return transport_; }

 private:
  // An operator in one direction.
  struct Operator {
    Execution execution;
    std::shared_ptr<const RoutedMovement> movement;
    MovementExecution::Operator kept;
    int64_t generation = 0;  // the next one
    // Executions that send ahead, in order; those that are done leave with the next one.
    std::deque<std::unique_ptr<MovementExecution>> ahead;
  };
  // Executions of an operator that send ahead and may be under way: its messages have no room for more.
  static constexpr std::size_t kMostAhead = 2;

  absl::StatusOr<std::unique_ptr<MovementExecution>> StartNow(const Execution& execution, const MovementPlan& plan,
                                                              const Buffer& source, const Buffer& destination);
  // The buffer, used in the order of the memory's stream unless it names another.
  Buffer OnStream(const Buffer& buffer) const;
  absl::StatusOr<Operator*> FindOperator(const Execution& execution, const MovementPlan& plan);
  absl::Status WaitBy(Deadline deadline, std::unique_ptr<MovementExecution> pending);
  // Waits until at most `most` executions of the operator are sent ahead and not done.
  absl::Status WaitForAhead(Operator& op, std::size_t most, Deadline deadline);
  // Waits until one of blockers_ is over.
  absl::Status WaitForBlockers(Deadline deadline);
  // Returns once `pending` is done.
  absl::Status Finish(MovementExecution& pending, Deadline deadline);
  // Notes that this rank waits in an execution, until StopWaiting.
  void BeginWaiting(const Execution& execution, int64_t generation);
  void StopWaiting() { waiting_.store(0, std::memory_order_release); }
  // Advances the other executions in flight. Returns true where anything happened.
  absl::StatusOr<bool> AdvanceOthers(const MovementExecution& pending);
  absl::Status CheckArguments(const MovementPlan& plan, const Buffer& source, const Buffer& destination) const;
  // Makes `status` the first failure if there is none, ends every wait, and returns `status`.
  absl::Status Fail(absl::Status status);
  void ForgetCredits(std::vector<Handle> sends);

  Transport* transport_;
  LocalMemory* memory_;
  Options options_;
  SpanRecorder* recorder_ = nullptr;
  absl::Duration time_moving_;
  absl::node_hash_map<std::pair<int64_t, int>, Operator> operators_;  // by id and direction
  std::vector<MovementExecution*> in_flight_;
  ExecutionCheck check_;
  // Used in Finish only; members so that their memory is used again.
  std::vector<Channel::Posted> blockers_;
  std::vector<Handle> handles_;
  std::vector<SharedWord> words_;
  std::vector<Handle> credit_sends_;
  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, std::string> names_ ABSL_GUARDED_BY(mutex_);  // the operators', by id
  std::atomic<uint64_t> waiting_{0};  // one word, so that it is consistent without a lock; 0: it does not wait
  absl::Duration time_waiting_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_
