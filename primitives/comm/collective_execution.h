// One rank's part of a broadcast, sum-reduce or all-sum-reduce, in flight, step by step, without ever blocking.
//
//   CollectiveExecution execution(&channel, &memory, dtype, reduce, &compiled, source, destination);
//   ADJOIN_ASSIGN_OR_RETURN(bool moved, execution.Advance());    // until done()
//
// The steps fix the order in which contributions are combined. The source is only read, and the destination only
// written where the rank has one: nothing else is allocated but a few segments. Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_COLLECTIVE_EXECUTION_H_
#define ADJOIN_PRIMITIVES_COMM_COLLECTIVE_EXECUTION_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/local_memory.h"
#include "primitives/comm/shared_links.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class CollectiveExecution {
 public:
  // All outlive the execution; `sends` and `receives` are the routes of the steps' messages. `source` and `destination`
  // are the rank's whole local tensors; one that the group does not touch may be anything.
  CollectiveExecution(Channel* channel, LocalMemory* memory, DType dtype, ReduceOp reduce,
                      const CompiledCollective* compiled, const std::vector<SharedRoute>* sends,
                      const std::vector<SharedRoute>* receives, const ExecutionLinks* links, const Buffer* source,
                      const Buffer* destination);
  ~CollectiveExecution();
  CollectiveExecution(const CollectiveExecution&) = delete;
  CollectiveExecution& operator=(const CollectiveExecution&) = delete;

  // Does what can be done. Returns true where anything happened. Errors: the transport's and the memory's.
  absl::StatusOr<bool> Advance();
  bool done() const { return copied_ && next_ == compiled_->steps.size() && sends_.empty(); }
  // Appends what it now waits for: at least one of them must be over for it to go on.
  void AppendBlockers(std::vector<Channel::Posted>& blockers) const;

 private:
  struct InFlight {
    Channel::Posted posted;
    Interval work;  // the cells of the work buffer that it reads; empty: it reads the source
  };
  struct Receiving {
    Channel::Posted posted;
    bool over = false;
    SharedMessage shared;
  };

  absl::Status Begin();
  absl::StatusOr<bool> PostReceives();
  absl::StatusOr<bool> PostSends();
  // True where no send reads these cells of the work buffer any more.
  absl::StatusOr<bool> MayWrite(Interval work);
  // Ends the sends that are over. Returns true where there were any.
  absl::StatusOr<bool> EndSends();
  // True where the step is complete.
  absl::StatusOr<bool> Complete(const CompiledStep& step);
  absl::Status Combine(const CompiledStep& step, const void* received);
  // Takes in a message that was received in shared memory.
  absl::Status TakeShared(const CompiledStep& step, const SharedMessage& shared);
  void* At(const Buffer& buffer, Interval elements) const;
  Buffer Elements(const Buffer& buffer, Interval elements) const;
  Buffer StagingOf(std::size_t step, Interval elements) const;

  Channel* channel_;
  LocalMemory* memory_;
  DType dtype_;
  ReduceOp reduce_;
  int64_t element_bytes_;
  const CompiledCollective* compiled_;
  const std::vector<SharedRoute>* send_routes_;
  const std::vector<SharedRoute>* receive_routes_;
  const ExecutionLinks* links_;
  const Buffer* source_;
  const Buffer* destination_;
  bool begun_ = false;
  bool copied_ = false;
  Buffer work_;
  Buffer staging_;                // kAhead + 1 messages that will be combined
  std::size_t next_ = 0;          // the first incomplete step
  std::size_t posted_sends_ = 0;  // steps whose send is posted, or that have none
  bool no_room_ = false;          // for the next message, in shared memory, when it was last tried
  std::size_t posted_receives_ = 0;
  std::vector<Receiving> receiving_;  // by step modulo kAhead + 1
  std::vector<InFlight> sends_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_COLLECTIVE_EXECUTION_H_
