// Ranks as threads of one process, their messages copied in memory: for `adjoin verify`, and for tests of everything
// above the transport.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(4, {.seed = 7, .delay = true}));
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> rank_2, fabric->CreateTransport(2));
//
// With `delay` the transport is as unhelpful as its contract allows. A send reads its buffer, and a message becomes
// visible to its receiver, only after a number of calls into that rank's transport, which comes from the seed and the
// message's position among those of its pair; so messages overtake each other, except those of equal sender and tag.
// Nothing depends on a clock.
//
// The transports of a fabric find each other without Connect: a program may leave it out. Where it is called, it does
// what Transport says.
//
// Memory: kHost, kPinnedHost, and what `Options::view` knows.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_IN_MEMORY_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_IN_MEMORY_TRANSPORT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// What the ranks of one attempt share. Threads: any thread may call anything.
class InMemoryFabric : public std::enable_shared_from_this<InMemoryFabric> {
 public:
  struct Options {
    uint64_t seed = 0;
    bool delay = false;
    // Memory that is not the host's: its kind, and the address at which this process may touch it. Null: only host
    // memory.
    MemoryKind view_kind = MemoryKind::kHost;
    std::function<absl::StatusOr<char*>(const void* data, std::size_t bytes)> view;
  };

  // Errors: kInvalidArgument (size < 1).
  static absl::StatusOr<std::shared_ptr<InMemoryFabric>> Create(int size, const Options& options);

  // The transport of one rank; it keeps the fabric alive. Once per rank.
  // Errors: kInvalidArgument (no such rank), kAlreadyExists.
  absl::StatusOr<std::unique_ptr<Transport>> CreateTransport(int rank);

  // Simulates the death of a rank: waits of others on it end with kUnavailable, now and later, unless the message had
  // already been sent; the rank's own calls fail.
  void Kill(int rank);

 private:
  friend class InMemoryTransport;

  struct Message {
    int sender = 0;
    uint64_t tag = 0;
    uint64_t sequence = 0;  // counts this pair's messages
    std::unique_ptr<char[]> payload;
    std::size_t bytes = 0;
  };
  // The state of a rank that other threads change.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Message> inbox;  // guarded by mutex
    bool taken = false;          // guarded by mutex
    absl::Status abort_reason;   // guarded by mutex
    std::atomic<bool> aborted{false};
    std::atomic<bool> aborted_by_peer{false};
    std::atomic<bool> dead{false};
  };

  InMemoryFabric(int size, const Options& options) : options_(options), mailboxes_(size) {}

  int size() const { return static_cast<int>(mailboxes_.size()); }
  std::string AddressOf(int rank) const;
  // The number of calls, in [0, 64), for which a message is held back at its sender (`at_sender`) or receiver.
  int HoldBack(int sender, int receiver, uint64_t sequence, bool at_sender) const;

  const Options options_;
  std::vector<Mailbox> mailboxes_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_IN_MEMORY_TRANSPORT_H_
