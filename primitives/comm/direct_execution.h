// One rank's part of a plain list of messages, in flight: packs, sends, receives and takes in, segment after segment,
// without ever blocking.
//
//   DirectExecution execution(&channel, &memory, &compiled, source, destination);
//   ADJOIN_RETURN_IF_ERROR(execution.PostReceives());
//   ADJOIN_ASSIGN_OR_RETURN(bool moved, execution.Send());       // then, until done():
//   ADJOIN_ASSIGN_OR_RETURN(moved, execution.Receive());
//
// Beside the two tensors it uses at most about kStagedBytes for what was packed and is not sent, and as much for what
// is received and not taken in (or one segment of each, if that is more). Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_DIRECT_EXECUTION_H_
#define ADJOIN_PRIMITIVES_COMM_DIRECT_EXECUTION_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/local_memory.h"
#include "primitives/comm/shared_links.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

class DirectExecution {
 public:
  static constexpr int64_t kStagedBytes = 8 << 20;

  // All outlive the execution. `links` are known before PostReceives; which messages go through shared memory is said
  // by `routes`.
  DirectExecution(Channel* channel, LocalMemory* memory, const CompiledMovement* compiled, const SharedRoutes* routes,
                  const ExecutionLinks* links, const Buffer* source, const Buffer* destination);
  ~DirectExecution();
  DirectExecution(const DirectExecution&) = delete;
  DirectExecution& operator=(const DirectExecution&) = delete;

  // Posts as many receives as may be staged. Errors: the transport's and the memory's, here and below.
  absl::Status PostReceives();
  // Sends what can be sent. Returns true where anything happened.
  absl::StatusOr<bool> Send();
  // Copies the messages that have come, and the cells that the rank keeps, to the destination. Returns true where
  // anything happened.
  absl::StatusOr<bool> Receive();

  bool received() const { return taken_ == compiled_->receives.size() && kept_ == compiled_->kept.size(); }
  bool sent() const { return posted_sends_ == compiled_->sends.size() && ended_sends_ == sends_.size(); }
  // Appends what it now waits for: at least one of them must be over for it to go on.
  void AppendBlockers(std::vector<Channel::Posted>& blockers) const;

 private:
  struct InFlight {
    Channel::Posted posted;
    Buffer staging;  // no bytes: in place
    SharedMessage shared;
  };

  absl::StatusOr<Buffer> TakeStaging(int64_t bytes);
  absl::Status EndSends();
  // False where the receiver still reads the message before.
  absl::StatusOr<bool> SendShared(const ListedMessage& message, const SharedMessage& shared);
  absl::Status TakeIn(const ListedMessage& message, const InFlight& receive);
  absl::Status Keep(const KeptCells& kept);
  std::optional<ReduceOp> op() const {
    return compiled_->combines ? std::make_optional(compiled_->reduce) : std::nullopt;
  }
  int64_t BytesOf(const ListedMessage& message) const { return message.elements * element_bytes_; }

  Channel* channel_;
  LocalMemory* memory_;
  const CompiledMovement* compiled_;
  const SharedRoutes* routes_;
  const ExecutionLinks* links_;
  const Buffer* source_;
  const Buffer* destination_;
  int64_t element_bytes_;
  std::vector<InFlight> sends_;     // one per message posted to the transport, in order
  std::vector<InFlight> receives_;  // one per message posted, in order
  std::size_t posted_sends_ = 0;
  bool no_room_ = false;  // for the next message, in shared memory, when it was last tried
  std::size_t ended_sends_ = 0;
  std::size_t taken_ = 0;
  std::size_t kept_ = 0;
  int64_t staged_to_send_ = 0;  // bytes of the buffers, which may be longer than the messages
  int64_t staged_to_take_ = 0;
  std::vector<Buffer> free_staging_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_DIRECT_EXECUTION_H_
