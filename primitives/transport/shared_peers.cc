#include "primitives/transport/shared_peers.h"

#include "base/status_macros.h"

namespace adjoin {

absl::Status SharedPeers::Map(int peer, const std::string& address) {
  ADJOIN_ASSIGN_OR_RETURN(peers_[peer].arena, PeerArena::Map(address));
  return absl::OkStatus();
}

void SharedPeers::Touch(int peer) {
  if (peers_[peer].touched) return;
  peers_[peer].touched = true;
  touched_.push_back(peer);
}

void SharedPeers::WakeTouched() {
  if (touched_.empty()) return;
  // A peer announces that it sleeps and then looks at its words; this rank changed them and now looks whether it
  // sleeps. With a fence between on both sides, one of the two sees the other.
  FullFence();
  for (int peer : touched_) {
    peers_[peer].touched = false;
    if (With(peer)) peers_[peer].arena->WakeIfAsleep();
  }
  touched_.clear();
}

}  // namespace adjoin
