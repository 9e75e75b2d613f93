#include "primitives/transport/on_device_transport.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "primitives/transport/forwarding_transport.h"
#include "primitives/transport/operation.h"

namespace adjoin {
namespace {

class OnDeviceTransport final : public ForwardingTransport {
 public:
  OnDeviceTransport(std::unique_ptr<Transport> owned, std::shared_ptr<Device> device)
      : ForwardingTransport(owned.get()), owned_(std::move(owned)), device_(std::move(device)) {}

  std::string Describe(int peer) const override { return inner().Describe(peer) + " of a device"; }

  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation(
        {.send = true, .rank = rank(), .peer = peer, .tag = tag, .bytes = buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner().StartSend(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, Allocate(buffer.bytes));
    ADJOIN_RETURN_IF_ERROR(stream_->Copy(on_device.data, buffer.data, buffer.bytes));
    return inner().StartSend(peer, tag, on_device);
  }

  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override {
    ADJOIN_RETURN_IF_ERROR(CheckOperation(
        {.send = false, .rank = rank(), .peer = peer, .tag = tag, .bytes = buffer.bytes}, size(), buffer));
    if (buffer.kind != MemoryKind::kHost) return inner().StartRecv(peer, tag, buffer);
    ADJOIN_ASSIGN_OR_RETURN(const Buffer on_device, Allocate(buffer.bytes));
    // Work that still writes to the memory: it must not come after the message.
    ADJOIN_RETURN_IF_ERROR(stream_->Set(on_device.data, 0xee, buffer.bytes));
    ADJOIN_ASSIGN_OR_RETURN(const Handle handle, inner().StartRecv(peer, tag, on_device));
    receives_[handle.id] = {buffer, on_device, std::nullopt};
    return handle;
  }

  // A test may look at what has come before it calls Wait.
  bool Test(Handle handle) override {
    const auto it = receives_.find(handle.id);
    if (it != receives_.end() && it->second.outcome.has_value()) return true;
    if (!inner().Test(handle)) return false;
    if (it != receives_.end()) End(handle, it->second, Deadline::After(absl::ZeroDuration()));
    return true;
  }

  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override {
    for (const Handle handle : handles) {
      const auto it = receives_.find(handle.id);
      if (it != receives_.end() && it->second.outcome.has_value()) return absl::OkStatus();
    }
    return inner().WaitAny(handles, deadline);
  }

  absl::Status Wait(Handle handle, Deadline deadline) override {
    const auto it = receives_.find(handle.id);
    if (it == receives_.end()) return inner().Wait(handle, deadline);
    Receive receive = std::move(it->second);
    receives_.erase(it);
    if (!receive.outcome.has_value()) End(handle, receive, deadline);
    return *receive.outcome;
  }

 private:
  struct Receive {
    Buffer host;
    Buffer on_device;
    std::optional<absl::Status> outcome;  // once `inner` has forgotten it
  };

  absl::StatusOr<Buffer> Allocate(std::size_t bytes) {
    if (stream_ == nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
    }
    ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation memory, device_->Allocate(bytes));
    Buffer buffer;
    buffer.data = memory.data;
    buffer.bytes = memory.bytes;
    buffer.kind = device_->kind();
    buffer.stream = stream_;
    buffer.keepalive = std::move(memory.keepalive);
    return buffer;
  }

  void End(Handle handle, Receive& receive, Deadline deadline) {
    receive.outcome = inner().Wait(handle, deadline);
    if (!receive.outcome->ok()) return;
    receive.outcome = stream_->Copy(receive.host.data, receive.on_device.data, receive.host.bytes);
    if (receive.outcome->ok()) receive.outcome = stream_->Synchronize();
  }

  const std::unique_ptr<Transport> owned_;
  const std::shared_ptr<Device> device_;
  std::shared_ptr<DeviceStream> stream_;
  std::unordered_map<uint64_t, Receive> receives_;
};

}  // namespace

std::unique_ptr<Transport> OnDevice(std::unique_ptr<Transport> inner, std::shared_ptr<Device> device) {
  return std::make_unique<OnDeviceTransport>(std::move(inner), std::move(device));
}

}  // namespace adjoin
