// Which messages of an operator go through memory that the ranks of a node share (shared_channel.h), and how two ranks
// agree on where that memory is.
//
//   OperatorLinks links;                                                         // of an operator in one direction
//   ADJOIN_ASSIGN_OR_RETURN(ExecutionLinks mine, links.Begin(channel, routes));  // in each execution
//   ADJOIN_ASSIGN_OR_RETURN(bool known, mine.TakeOffers(channel));               // before the first send, until true
//   if (const SharedMessage message = mine.Receive(routes.in.listed[i]); message.channel != nullptr) { ... }
//
// What one rank sends another in an execution is a list of lengths that both know. A link is such a list between two
// ranks of an operator in one direction. The first executions of a link go by the transport. In the second of these,
// the receiver takes memory for the link and sends its offset; the sender waits for it before it sends the first
// message that way, two executions later: by then an execution that came after the memory was offered is over, so this
// waits no longer than for a credit (movement_execution.h). A receiver that has no memory left offers none, and the
// link goes by the transport for ever. Both ranks count the executions of a link alike, whatever else they execute.
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_SHARED_LINKS_H_
#define ADJOIN_PRIMITIVES_COMM_SHARED_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/channel.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/shared_channel.h"
#include "primitives/transport/shared_peers.h"

namespace adjoin {

// A message of a pair of ranks; pair -1: it goes by the transport.
struct SharedRoute {
  int pair = -1;
  int message = 0;
};

// The messages of a movement on one rank that may go through shared memory.
struct SharedRoutes {
  // More in one execution goes by the transport: the memory of a link is twice this.
  static constexpr int64_t kMostBytes = 256 << 10;
  static constexpr std::size_t kMostMessages = 256;

  struct Pair {
    int peer = 0;
    std::vector<int64_t> bytes;  // of each message, in an order that both ranks know: as listed, then by slot
  };
  // What is sent, or what is received.
  struct Way {
    std::vector<Pair> pairs;
    std::vector<SharedRoute> listed;              // as CompiledMovement::sends or receives
    std::vector<std::vector<SharedRoute>> steps;  // by collective and step
  };

  // None where `shared` is null.
  static SharedRoutes Find(const CompiledMovement& compiled, const SharedPeers* shared);

  Way out;
  Way in;
};

// One end of a link. The receiver's end owns the memory.
class SharedLink {
 public:
  static constexpr int64_t kByTransport = 3;  // the first executions

  SharedLink(SharedPeers* shared, const SharedRoutes::Pair& pair) : shared_(shared), pair_(pair) {}
  ~SharedLink();
  SharedLink(const SharedLink&) = delete;
  SharedLink& operator=(const SharedLink&) = delete;

  int peer() const { return pair_.peer; }
  const std::vector<int64_t>& bytes() const { return pair_.bytes; }
  int64_t NextUse() { return uses_++; }

  // At the receiver: takes memory and tells the sender. Errors: the transport's.
  absl::Status Offer(Channel& channel);
  // At the sender: posts the receive of the offer. Errors: the transport's.
  absl::Status Ask(Channel& channel);
  // At the sender: true once the offer has come. Errors: the transport's; kDataLoss (there is no such memory).
  absl::StatusOr<bool> Known(Channel& channel);
  bool known() const { return known_; }
  const Channel::Posted& asked() const { return posted_; }
  // Known, and there is memory for it.
  bool open() const { return known_ && !channels_.empty(); }
  const SharedChannel& channel(int message) const { return channels_[message]; }

 private:
  int64_t BlockBytes() const;
  void Open(char* memory);

  SharedPeers* shared_;
  SharedRoutes::Pair pair_;
  int64_t uses_ = 0;
  bool known_ = false;
  std::vector<SharedChannel> channels_;
  int64_t taken_at_ = -1;  // of this rank's arena
  std::shared_ptr<int64_t> offer_;
  Transport* transport_ = nullptr;  // while `posted_` is in flight
  Channel::Posted posted_;
};

// A message of an execution in shared memory; channel null: it goes by the transport.
struct SharedMessage {
  const SharedChannel* channel = nullptr;
  int64_t n = 0;
  int peer = 0;

  bool MayWrite() const { return channel->MayWrite(n); }
  char* payload() const { return channel->Payload(n); }
  // What a receive of it waits for, and a send of it while it may not be written.
  Channel::Posted Arrival() const;
  Channel::Posted Room() const;
};

// True where the message may be written. Errors: the transport's, where the receiver is gone; kDataLoss (it wrote what
// must not be there): nobody may wait again for a word that changes no more.
absl::StatusOr<bool> HasRoom(Channel& channel, const SharedMessage& message);

class ExecutionLinks {
 public:
  ExecutionLinks() = default;

  SharedMessage Send(SharedRoute route) const { return Message(out_, route); }
  SharedMessage Receive(SharedRoute route) const { return Message(in_, route); }
  void Publish(const SharedMessage& message) const;
  void Release(const SharedMessage& message) const;
  // Wakes the peers that may wait for what was published and released.
  void Wake() const {
    if (shared_ != nullptr) shared_->WakeTouched();
  }

  // True once it is known of every link whether its messages go through shared memory. Errors: as SharedLink::Known.
  absl::StatusOr<bool> TakeOffers(Channel& channel) const;
  // Appends the offers that have not come.
  void AppendBlockers(std::vector<Channel::Posted>& blockers) const;
  // True where messages to, or from, the peer go by the transport; once TakeOffers was true.
  bool SendsByTransport(int peer) const { return ByTransport(out_, peer); }
  bool ReceivesByTransport(int peer) const { return ByTransport(in_, peer); }

 private:
  friend class OperatorLinks;
  struct Use {
    std::shared_ptr<SharedLink> link;
    int64_t n = -1;  // the number of its messages; below 0: it goes by the transport
  };
  using Uses = absl::InlinedVector<Use, 4>;  // by pair

  static SharedMessage Message(const Uses& uses, SharedRoute route) {
    if (route.pair < 0) return {};
    const Use& use = uses[route.pair];
    if (use.n < 0 || !use.link->open()) return {};
    return {&use.link->channel(route.message), use.n, use.link->peer()};
  }
  static bool ByTransport(const Uses& uses, int peer);

  SharedPeers* shared_ = nullptr;
  Uses out_;
  Uses in_;
};

class OperatorLinks {
 public:
  // The links of an execution: `channel` is that execution's, on a rank whose messages go as `routes` says.
  // Errors: the transport's.
  absl::StatusOr<ExecutionLinks> Begin(Channel& channel, const SharedRoutes& routes);

 private:
  // Lists of lengths that one operator has in turn: the longest unused goes, on both ranks the same.
  static constexpr std::size_t kKept = 4;
  using Links = std::vector<std::shared_ptr<SharedLink>>;  // the last used first

  std::shared_ptr<SharedLink> LinkOf(SharedPeers* shared, Links& links, const SharedRoutes::Pair& pair);

  std::map<int, Links> out_;  // by peer
  std::map<int, Links> in_;
  int64_t begun_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_SHARED_LINKS_H_
