// A transport that passes every call on to another one: the base of transports that change only some of them.
//
//   class CountingTransport final : public ForwardingTransport {
//    public:
//     using ForwardingTransport::ForwardingTransport;
//     absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
//       ++sends_;
//       return inner().StartSend(peer, tag, buffer);
//     }
//   };
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_FORWARDING_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_FORWARDING_TRANSPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "primitives/transport/transport.h"

namespace adjoin {

class ForwardingTransport : public Transport {
 public:
  // `inner` outlives this.
  explicit ForwardingTransport(Transport* inner) : inner_(inner) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string Address() const override { return inner_->Address(); }
  absl::Status Connect(const std::vector<std::string>& addresses, Deadline deadline) override {
    return inner_->Connect(addresses, deadline);
  }
  bool Moves(MemoryKind kind) const override { return inner_->Moves(kind); }
  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    return inner_->StartSend(peer, tag, buffer);
  }
  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override {
    return inner_->StartRecv(peer, tag, buffer);
  }
  absl::Status Wait(Handle handle, Deadline deadline) override { return inner_->Wait(handle, deadline); }
  bool Test(Handle handle) override { return inner_->Test(handle); }
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override {
    return inner_->WaitAny(handles, deadline);
  }
  absl::Status Flush(Deadline deadline) override { return inner_->Flush(deadline); }
  absl::Status Close(Deadline deadline) override { return inner_->Close(deadline); }
  void Abort(absl::Status reason) override { inner_->Abort(std::move(reason)); }
  bool Disturbed() const override { return inner_->Disturbed(); }
  bool AbortedByPeer() const override { return inner_->AbortedByPeer(); }
  int64_t BytesSent() const override { return inner_->BytesSent(); }
  std::string Describe(int peer) const override { return inner_->Describe(peer); }

 protected:
  Transport& inner() { return *inner_; }
  const Transport& inner() const { return *inner_; }

 private:
  Transport* const inner_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_FORWARDING_TRANSPORT_H_
