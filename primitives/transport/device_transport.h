// Messages from and to the memory of a device, over any transport.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> on_device,
//                           DeviceTransport::Create(std::move(ucx), device, {.staged = false}));
//
// What the device does for a message is queued on its streams, and nothing here waits for the device: a message is
// posted to `inner` when a call of this transport finds that the work before it is done. Two ways:
//  - not staged: `inner` moves the device's memory itself (Transport::Moves);
//  - staged: the device copies a message to pinned memory, which `inner` sends, and copies what is received from there.
//    The copies have a stream of their own, so that they run beside the work on the tensors.
// The bits are the same. Buffers of host memory go to `inner` as they are.
//
// Pinned memory is taken from the device once and used again. What is sent waits while the messages in pinned memory
// have `most_staged_bytes` (one message always has room); receives do not, since their senders may wait for them.
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_DEVICE_TRANSPORT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_DEVICE_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "primitives/device/device.h"
#include "primitives/transport/forwarding_transport.h"
#include "primitives/transport/pinned_pool.h"

namespace adjoin {

class DeviceTransport final : public ForwardingTransport {
 public:
  struct Options {
    bool staged = true;
    int64_t most_staged_bytes = int64_t{256} << 20;
  };

  // Errors: kInvalidArgument (`inner` cannot move the device's memory, and it shall not be staged), the device's.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(std::unique_ptr<Transport> inner,
                                                           std::shared_ptr<Device> device, const Options& options);
  ~DeviceTransport() override;

  bool Moves(MemoryKind kind) const override { return kind == device_->kind() || inner().Moves(kind); }
  absl::StatusOr<Handle> StartSend(int peer, Tag tag, const Buffer& buffer) override;
  absl::StatusOr<Handle> StartRecv(int peer, Tag tag, const Buffer& buffer) override;
  absl::Status Wait(Handle handle, Deadline deadline) override;
  bool Test(Handle handle) override;
  absl::Status WaitAny(absl::Span<const Handle> handles, Deadline deadline) override;
  void Abort(absl::Status reason) override;
  absl::Status Flush(Deadline deadline) override;
  absl::Status Close(Deadline deadline) override;
  // "posix/memory staged by NVIDIA H100", "cuda_ipc/cuda".
  std::string Describe(int peer) const override;

 private:
  struct Message {
    enum class State {
      kQueued,  // the work before it, or what is in front of it, is not done
      kPosted,  // `inner` has it
      kOver,
    };
    bool send = false;
    int peer = 0;
    Tag tag = Tag::FromBits(0);
    Buffer buffer;
    State state = State::kQueued;
    bool staged = false;
    DeviceAllocation pinned;               // of a staged message, once it has some
    std::shared_ptr<DeviceEvent> ready;    // what must be done before it is posted; null: nothing
    std::shared_ptr<DeviceEvent> arrived;  // the copy of what was received to the device
    Handle inner;
    absl::Status outcome;
  };
  // A tensor's memory that a copy still uses after its message is forgotten.
  struct Leftover {
    std::shared_ptr<DeviceEvent> used;
    Buffer buffer;
  };

  DeviceTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Device> device, const Options& options);
  absl::Status CheckStart(bool send, int peer, Tag tag, const Buffer& buffer);
  absl::StatusOr<Handle> Start(Message message);
  // Does what can be done without waiting.
  void Advance();
  // Copies messages that are sent to pinned memory, as far as there is room for them.
  void StageSends();
  bool RoomFor(const Message& message) const;
  absl::Status Stage(Message& message);
  void PostFrom(std::deque<uint64_t>& queue);
  absl::Status Post(Message& message);
  // Takes in that `inner` is done with the message.
  void End(Message& message);
  absl::Status CopyToDevice(Message& message);
  // Takes in which staged messages have left: their pinned memory is room for others.
  void EndStagedSends();
  // Gives up the pinned memory of a message: to the pool, or where somebody may still use it to its keepalive alone.
  enum class Pinned { kGive, kLose };
  void Release(Message& message, Pinned how, std::shared_ptr<DeviceEvent> used = nullptr);
  bool Over(Message& message);
  void Forget(uint64_t id);
  // Why this rank's waits end, if they do.
  absl::Status AbortReason();
  // Waits a little: for `inner` to end one of its messages, or for the device.
  void Idle(absl::Span<const Handle> posted, int* idle_calls, Deadline deadline);

  const std::unique_ptr<Transport> owned_;
  const std::shared_ptr<Device> device_;
  const Options options_;
  std::shared_ptr<DeviceStream> copies_;
  PinnedPool pool_;
  bool closed_ = false;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Message> messages_;
  // Not posted, in the order of their starts, which is that in which equal tags match.
  std::deque<uint64_t> queued_sends_;
  std::deque<uint64_t> queued_receives_;
  int64_t sends_in_pinned_ = 0;  // bytes
  std::deque<Leftover> leftovers_;
  std::mutex mutex_;
  absl::Status abort_reason_;  // guarded by mutex_
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_DEVICE_TRANSPORT_H_
