// A transport whose sends read their buffers as late as they may: only once their rank has nothing else to do, and in
// any order but among those of equal peer and tag. For tests: code that overwrites a buffer before its send is over is
// found.
//
//   LateTransport late(&transport, /*seed=*/7);      // around an in-memory transport, which outlives it
//   Communicator communicator(&late, &memory, {});
#ifndef ADJOIN_PRIMITIVES_COMM_LATE_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_COMM_LATE_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <random>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/deadline.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/forwarding_transport.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class LateTransport final : public ForwardingTransport {
 public:
  // `never`: sends never read their buffers, as those to a peer that is stopped.
  LateTransport(Transport* inner, uint64_t seed, bool never = false)
      : ForwardingTransport(inner), random_(seed), never_(never) {}

  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override;
  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override;
  absl::Status Wait(Handle handle, Deadline deadline) override;
  bool Test(Handle handle) override;
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override;

 private:
  struct Late {
    uint64_t id;
    int peer;
    Tag tag;
    Buffer buffer;
  };

  bool IsLate(Handle handle) const;
  // Lets one of the late sends go.
  absl::Status SendOne();

  std::mt19937_64 random_;
  const bool never_;
  uint64_t last_id_ = 0;
  std::deque<Late> late_;
  std::unordered_map<uint64_t, Handle> begun_;  // by this transport's ids
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_LATE_TRANSPORT_H_
