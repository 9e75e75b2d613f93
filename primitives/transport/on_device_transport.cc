#include "primitives/transport/on_device_transport.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "base/status_macros.h"
#include "primitives/transport/fake_device.h"
#include "primitives/transport/forwarding_transport.h"
#include "primitives/transport/operation.h"

namespace adjoin {
namespace {

class OnDeviceTransport final : public ForwardingTransport {
 public:
  explicit OnDeviceTransport(std::unique_ptr<Transport> owned)
      : ForwardingTransport(owned.get()), owned_(std::move(owned)) {}

  bool Test(Handle handle) override {
    if (!inner().Test(handle)) return false;
    // A test may look at what has come before it calls Wait. What has not come leaves the device's memory as it was.
    const auto it = receives_.find(handle.id);
    if (it != receives_.end()) FakeDevice::CopyOut(it->second.host.data, it->second.on_device).IgnoreError();
    return true;
  }
  std::string Describe(int peer) const override { return inner().Describe(peer) + " of a device"; }

  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation(
        {.send = true, .rank = rank(), .peer = peer, .tag = tag, .bytes = buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner().StartSend(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, FakeDevice::Allocate(buffer.bytes));
    ADJOIN_RETURN_IF_ERROR(FakeDevice::CopyIn(on_device, buffer.data));
    return inner().StartSend(peer, tag, on_device);
  }

  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation(
        {.send = false, .rank = rank(), .peer = peer, .tag = tag, .bytes = buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner().StartRecv(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, FakeDevice::Allocate(buffer.bytes));
    ADJOIN_ASSIGN_OR_RETURN(const Handle handle, inner().StartRecv(peer, tag, on_device));
    receives_[handle.id] = {buffer, on_device};
    return handle;
  }

  absl::Status Wait(Handle handle, Deadline deadline) override {
    const absl::Status status = inner().Wait(handle, deadline);
    const auto it = receives_.find(handle.id);
    if (it == receives_.end()) return status;
    const Receive receive = std::move(it->second);
    receives_.erase(it);
    return status.ok() ? FakeDevice::CopyOut(receive.host.data, receive.on_device) : status;
  }

 private:
  struct Receive {
    Buffer host;
    Buffer on_device;
  };

  const std::unique_ptr<Transport> owned_;
  std::unordered_map<uint64_t, Receive> receives_;
};

}  // namespace

std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner) {
  return std::make_unique<OnDeviceTransport>(std::move(inner));
}

}  // namespace adjoin
