#include "primitives/transport/on_device_transport.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"
#include "primitives/transport/operation.h"

namespace adjoin {
namespace {

class OnDeviceTransport final : public Transport {
 public:
  OnDeviceTransport(std::unique_ptr<Transport> inner, FakeDevice* device) : inner_(std::move(inner)), device_(device) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool Test(Handle handle) override {
    if (!inner_->Test(handle)) return false;
    // A test may look at what has come before it calls Wait. What has not come leaves the device's memory as it was.
    const auto it = receives_.find(handle.id);
    if (it != receives_.end()) device_->CopyOut(it->second.host.data, it->second.on_device).IgnoreError();
    return true;
  }
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override {
    return inner_->WaitAny(handles, deadline);
  }
  void Abort(absl::Status reason) override { inner_->Abort(std::move(reason)); }
  int64_t BytesSent() const override { return inner_->BytesSent(); }
  std::string Describe(int peer) const override { return inner_->Describe(peer) + " of a device"; }

  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation({true, rank(), peer, tag, buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner_->StartSend(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, device_->Allocate(buffer.bytes));
    ADJOIN_RETURN_IF_ERROR(device_->CopyIn(on_device, buffer.data));
    return inner_->StartSend(peer, tag, on_device);
  }

  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation({false, rank(), peer, tag, buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner_->StartRecv(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, device_->Allocate(buffer.bytes));
    ADJOIN_ASSIGN_OR_RETURN(const Handle handle, inner_->StartRecv(peer, tag, on_device));
    receives_[handle.id] = {buffer, on_device};
    return handle;
  }

  absl::Status Wait(Handle handle, Deadline deadline) override {
    const absl::Status status = inner_->Wait(handle, deadline);
    const auto it = receives_.find(handle.id);
    if (it == receives_.end()) return status;
    const Receive receive = std::move(it->second);
    receives_.erase(it);
    return status.ok() ? device_->CopyOut(receive.host.data, receive.on_device) : status;
  }

 private:
  struct Receive {
    Buffer host;
    Buffer on_device;
  };

  const std::unique_ptr<Transport> inner_;
  FakeDevice* const device_;
  std::unordered_map<uint64_t, Receive> receives_;
};

}  // namespace

std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner, FakeDevice* device) {
  return std::make_unique<OnDeviceTransport>(std::move(inner), device);
}

}  // namespace adjoin
