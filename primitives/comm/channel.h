// The messages of one execution of one operator: their tags, and errors that say who waited for whom.
//
//   const Execution execution{.op = 7, .name = "conv1.x"};
//   Channel channel(&transport, /*communicator=*/0, &execution, /*generation=*/3);
//   ADJOIN_ASSIGN_OR_RETURN(Posted in, channel.Recv(peer, Channel::kDirectSlot, buffer));
//   ADJOIN_RETURN_IF_ERROR(channel.Wait(in, deadline));
//   // "operator 7 (conv1.x) forward, generation 3: waiting for rank 2: ..."
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_CHANNEL_H_
#define ADJOIN_PRIMITIVES_COMM_CHANNEL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/deadline.h"
#include "primitives/comm/span_recorder.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/shared_peers.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// The operator and direction that are executed.
struct Execution {
  int64_t op = 0;
  std::string name;  // for messages
  Direction direction = Direction::kForward;
  // FingerprintOf the movement, by which ranks find out that they mean the same one, and what it moves, for messages.
  uint64_t fingerprint = 0;
  std::string what = {};
  // This rank only sends in it, or nothing, and does not wait until that is done (Communicator::Wait).
  bool sends_ahead = false;
};

// What messages call an operator: "operator 7 (conv1.x)", or "operator 7" where it has no name.
std::string OperatorText(int64_t op, absl::string_view name);

// A part of `buffer`, kept by the same keepalive.
Buffer PartOf(const Buffer& buffer, int64_t offset_bytes, int64_t bytes);

class Channel {
 public:
  // A send or a receive in flight. The code that posted it ends it: by Wait, or by Abandon.
  struct Posted {
    Handle handle;
    int peer = 0;
    bool send = false;
    SpanRecorder::Open span = {};  // where it is recorded
    // Instead of a handle: a word of shared memory, and what the peer will make of it (shared_links.h).
    SharedWord word = {};
    uint64_t after = 0;
    bool shared() const { return word.word != nullptr; }
  };

  static constexpr int kDirectSlot = 0;
  static int CollectiveSlot(int step_slot) { return 1 + step_slot; }

  // `transport` and `execution` outlive the channel.
  Channel(Transport* transport, int communicator, const Execution* execution, int64_t generation);

  // Records its messages from now on; `recorder` outlives the channel, and may be null.
  void Record(SpanRecorder* recorder) { recorder_ = recorder; }

  // Errors: the transport's, with the execution and the peer before it.
  absl::StatusOr<Posted> Send(int peer, int slot, const Buffer& buffer);
  absl::StatusOr<Posted> Recv(int peer, int slot, const Buffer& buffer);
  absl::Status Wait(const Posted& posted, Deadline deadline);
  // True where Wait would return at once; makes progress without blocking, unless it is a word.
  bool Over(const Posted& posted) {
    if (!posted.shared()) return transport_->Test(posted.handle);
    return posted.word.Changed() || !transport_->Reachable(posted.peer);
  }
  // Takes back what was never waited for, without blocking: cancelled, or kept by its keepalive.
  void Abandon(const Posted& posted);

  // Records a message that goes through shared memory; Wait ends the span that a Posted has.
  SpanRecorder::Open BeginSpan(SpanKind kind, int peer, int slot, int64_t bytes);
  void EndSpan(SpanRecorder::Open span) {
    if (recorder_ != nullptr) recorder_->End(span);
  }

  // The receiver's word, without payload, that it is done with this execution; see Communicator on the bound.
  absl::StatusOr<Handle> SendCredit(int peer);
  absl::StatusOr<Posted> RecvCredit(int peer, int64_t generation);

  // The receiver's word, where in its shared memory messages are to be written.
  absl::StatusOr<Posted> SendOffer(int peer, const Buffer& buffer);
  absl::StatusOr<Posted> RecvOffer(int peer, const Buffer& buffer);

  Transport& transport() const { return *transport_; }
  const Execution& execution() const { return *execution_; }
  int64_t generation() const { return generation_; }
  // `status` with "operator 7 (conv1.x) forward, generation 3: `what`: " before its message.
  absl::Status Annotate(const absl::Status& status, absl::string_view what) const;

 private:
  absl::StatusOr<Tag> MakeTag(int source, int slot) const;
  absl::StatusOr<Tag> OfferTag(int source) const;
  absl::Status WaitWord(const Posted& posted) const;
  absl::StatusOr<Posted> Checked(absl::StatusOr<Handle> handle, int peer, bool send) const;

  Transport* transport_;
  int communicator_;
  const Execution* execution_;
  int64_t generation_;
  SpanRecorder* recorder_ = nullptr;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_CHANNEL_H_
