// Point-to-point messages between the ranks of one attempt of one job.
//
//   std::vector<std::string> addresses = ExchangeSomehow(transport.Address());     // one per rank, by rank
//   ADJOIN_RETURN_IF_ERROR(transport.Connect(addresses, deadline));
//   ADJOIN_ASSIGN_OR_RETURN(Handle recv, transport.StartRecv(peer, tag, in));
//   ADJOIN_ASSIGN_OR_RETURN(Handle send, transport.StartSend(peer, tag, out));
//   ADJOIN_RETURN_IF_ERROR(transport.Wait(send, deadline));
//   ADJOIN_RETURN_IF_ERROR(transport.Wait(recv, deadline));
//   ADJOIN_RETURN_IF_ERROR(transport.Close(deadline));   // or destroy it
//
// A message is matched by (sender, tag) exactly; equal tags from one sender match in the order sent. Receives may be
// posted before or after the message comes. A message whose length differs from the receive's buffer is an error that
// names both ends. A rank may send to itself. A transport that has failed is destroyed and never reused.
//
// Threads: one thread at a time may call anything but Abort and BytesSent, which any thread may call at any time.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/deadline.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"

namespace adjoin {

class SharedPeers;
struct SharedWord;

// Names one operation in flight of one transport. Never reused by that transport.
struct Handle {
  uint64_t id = 0;
};

class Transport {
 public:
  // Never waits for peers: unfinished operations are abandoned.
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Bytes by which the other ranks reach this one; for their Connect.
  virtual std::string Address() const = 0;

  // Connects to all ranks; `addresses[r]` is rank r's Address(). Called once, before the first operation. Collective:
  // returns once every rank is in it.
  // Errors: kInvalidArgument (addresses of other ranks or of another size), kFailedPrecondition (called twice; ranks
  // that cannot reach each other in the way that the options ask for), kUnavailable, kDeadlineExceeded, the status
  // given to Abort.
  virtual absl::Status Connect(const std::vector<std::string>& addresses, Deadline deadline) = 0;

  // True where StartSend and StartRecv take memory of this kind.
  virtual bool Moves(MemoryKind kind) const { return kind == MemoryKind::kHost || kind == MemoryKind::kPinnedHost; }

  // Posts a send or a receive. The buffer must stay valid and, for a send, unchanged until Wait returns
  // (`keepalive` guarantees the former).
  // Errors: kInvalidArgument (no such peer, a tag whose source is not the sender's rank, memory of a kind that this
  // transport cannot move); the status given to Abort; kUnavailable after the peer's death, except for a receive whose
  // message had already come.
  virtual absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) = 0;
  virtual absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) = 0;

  // Waits until the operation is over and forgets the handle, whatever the outcome.
  // Errors: kDeadlineExceeded (names peer, tag and direction; the operation is cancelled, or kept with its keepalive
  // until the transport dies where it cannot be), kUnavailable (the peer died), kDataLoss (length differs: both ends,
  // both lengths), the status given to Abort, kNotFound (no such handle).
  virtual absl::Status Wait(Handle handle, Deadline deadline) = 0;

  // True where the operation is over, after making progress once without blocking. The handle stays valid until Wait.
  virtual bool Test(Handle handle) = 0;

  // Ends every wait of this rank, now and later, with `reason` (the first one given stays). Only sets a flag and wakes:
  // any thread may call it, also the watcher of signals. `reason` must not be OK.
  // Ends every wait of the other ranks as well, with "rank R: " before the message: they are told when this rank's own
  // thread next calls the transport, or destroys it.
  virtual void Abort(absl::Status reason) = 0;

  // Payload bytes handed to StartSend for other ranks since the start; what a rank sends itself does not count.
  virtual int64_t BytesSent() const = 0;

  // Waits until one of the operations is over (then Test is true for it, and its Wait returns at once). At least one
  // handle; one that names no operation counts as over.
  // Errors: kDeadlineExceeded, the status given to Abort. The handles stay valid.
  virtual absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) = 0;

  // The memory that this rank shares with ranks of its node, from Connect on (shared_peers.h); null where it has none.
  virtual SharedPeers* shared_peers() { return nullptr; }
  // As WaitAny, until one of the operations is over, one of the words has changed, or one of their peers was found
  // dead. At least one handle or word. Only for a transport that has shared_peers().
  virtual absl::Status WaitAnyWord(absl::Span<const Handle> handles, absl::Span<const SharedWord> words,
                                   Deadline deadline) {
    return absl::UnimplementedError("this transport shares no memory");
  }
  // False once `peer` was found dead, or after an abort. Makes no progress.
  virtual bool Reachable(int peer) const { return true; }
  // Makes progress without blocking. Errors, where Reachable is false by then: the status given to Abort, kUnavailable.
  virtual absl::Status Check(int peer) { return absl::OkStatus(); }

  // Waits until everything sent so far has left this process (its peers need not have received it).
  // Errors: as Wait.
  virtual absl::Status Flush(Deadline deadline) = 0;

  // The orderly end, so that a rank that finishes early cuts nothing that is in flight: returns once every rank is in
  // Close, and disconnects. Nothing can be started afterwards (kFailedPrecondition). Errors: as Wait.
  virtual absl::Status Close(Deadline deadline) = 0;

  // True where a peer was found dead or Abort was called: an error of this rank may then be only a consequence of that.
  virtual bool Disturbed() const = 0;

  // True where another rank's abort ended this rank's waits: its status is then that rank's.
  virtual bool AbortedByPeer() const = 0;

  // The way of messages to `peer`, in the words of the library beneath, e.g. "posix" or "tcp/lo"; for logs and tests.
  virtual std::string Describe(int peer) const = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_H_
