// The memory that a rank shares with ranks of its node, beside a transport's messages: for messages whose receiver,
// length and order are known beforehand (primitives/comm/shared_links.h).
//
//   SharedPeers* const shared = transport.shared_peers();                        // null: it shares none
//   if (shared != nullptr && shared->With(peer)) {
//     ADJOIN_ASSIGN_OR_RETURN(const int64_t offset, shared->arena().Take(256));  // tell the peer
//     ...
//     char* const memory = shared->OfPeer(peer, offset, 256);                    // the peer
//     ... write, then a release store to a word of it ...
//     shared->Touch(rank);
//     shared->WakeTouched();                                                     // after any number of them
//   }
//   transport.WaitAnyWord(handles, words, deadline);                             // until it changes
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_SHARED_PEERS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_SHARED_PEERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "primitives/transport/shared_arena.h"

namespace adjoin {

// A word of shared memory that a peer will change.
struct SharedWord {
  const std::atomic<uint64_t>* word = nullptr;
  uint64_t before = 0;  // its value until then
  int peer = 0;

  bool Changed() const { return word->load(std::memory_order_acquire) != before; }
};

class SharedPeers {
 public:
  // Begins with `size` ranks none of which shares memory.
  SharedPeers(std::unique_ptr<SharedArena> arena, int size) : arena_(std::move(arena)), peers_(size) {}

  SharedArena& arena() { return *arena_; }
  // Errors: as PeerArena::Map.
  absl::Status Map(int peer, const std::string& address);
  void Forget(int peer) { peers_[peer].arena.reset(); }

  // True where both ranks have mapped the other's arena.
  bool With(int peer) const { return peers_[peer].arena != nullptr; }
  // Null where `peer` has no such memory: `offset` is the peer's word only.
  char* OfPeer(int peer, int64_t offset, int64_t bytes) const {
    return With(peer) ? peers_[peer].arena->At(offset, bytes) : nullptr;
  }

  // Notes that a word was changed that `peer` may wait for.
  void Touch(int peer);
  // Wakes those that wait for one asleep.
  void WakeTouched();

  // Counts payload that went to another rank in this way, and bytes that the transport sent to agree on it, which are
  // no payload. The sums: any thread.
  void CountSent(int64_t bytes) {
    bytes_sent_.store(bytes_sent_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);  // one writer
  }
  void CountAgreement(int64_t bytes) { agreement_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t BytesSent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  int64_t AgreementBytes() const { return agreement_.load(std::memory_order_relaxed); }

 private:
  struct Peer {
    std::unique_ptr<PeerArena> arena;
    bool touched = false;
  };

  std::unique_ptr<SharedArena> arena_;
  std::vector<Peer> peers_;
  std::vector<int> touched_;
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> agreement_{0};
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_SHARED_PEERS_H_
