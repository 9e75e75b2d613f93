// One message of every execution of an operator, from one rank to another of its node, through memory that both map.
//
//   SharedChannel channel(memory, /*message_bytes=*/1024);  // of SharedChannel::BytesFor(1024) bytes, once all 0
//
//   if (channel.MayWrite(n)) {                              // the sender, for n = 0, 1, 2, ...
//     ... write 1024 bytes to channel.Payload(n) ...
//     channel.Publish(n);
//   }
//   if (channel.Arrived(n)) {                               // the receiver
//     ... read channel.Payload(n) ...
//     channel.Release(n);                                   // message n + 2 may be written
//   }
//
// There are two slots: messages n and n + 2 use the same one. A slot is a line with the number of its last message,
// plus one, and the payload, in that line where it fits. The numbers of what was read are in a line of their own, which
// the receiver writes. Both ranks know n from counting; nothing that is read from the memory is used as an index.
//
// Threads: one at a time at each end.
#ifndef ADJOIN_PRIMITIVES_COMM_SHARED_CHANNEL_H_
#define ADJOIN_PRIMITIVES_COMM_SHARED_CHANNEL_H_

#include <atomic>
#include <cstdint>

namespace adjoin {

class SharedChannel {
 public:
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kInLine = kLine - 8;  // bytes of payload beside the number

  // The memory that a channel for messages of this length takes, a multiple of kLine.
  static int64_t BytesFor(int64_t message_bytes) { return kLine + 2 * SlotBytes(message_bytes); }

  // `memory` is at a multiple of kLine.
  SharedChannel(char* memory, int64_t message_bytes) : memory_(memory), message_bytes_(message_bytes) {}

  int64_t message_bytes() const { return message_bytes_; }

  // The words that change when a message was published, and when it was released, and their values until then.
  const std::atomic<uint64_t>& published(int64_t n) const { return Word(Slot(n)); }
  const std::atomic<uint64_t>& released(int64_t n) const { return Word(memory_ + 8 * (n % 2)); }
  static uint64_t Before(int64_t n) { return n < 2 ? 0 : static_cast<uint64_t>(n - 1); }
  static uint64_t After(int64_t n) { return static_cast<uint64_t>(n + 1); }

  bool MayWrite(int64_t n) const { return n < 2 || released(n).load(std::memory_order_acquire) == Before(n); }
  char* Payload(int64_t n) const { return Slot(n) + (message_bytes_ <= kInLine ? 8 : kLine); }
  void Publish(int64_t n) const { Word(Slot(n)).store(After(n), std::memory_order_release); }

  bool Arrived(int64_t n) const { return published(n).load(std::memory_order_acquire) == After(n); }
  void Release(int64_t n) const { Word(memory_ + 8 * (n % 2)).store(After(n), std::memory_order_release); }

 private:
  static int64_t SlotBytes(int64_t message_bytes) {
    return message_bytes <= kInLine ? kLine : kLine + (message_bytes + kLine - 1) / kLine * kLine;
  }
  static std::atomic<uint64_t>& Word(char* at) { return *reinterpret_cast<std::atomic<uint64_t>*>(at); }
  char* Slot(int64_t n) const { return memory_ + kLine + n % 2 * SlotBytes(message_bytes_); }

  char* memory_;
  int64_t message_bytes_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_SHARED_CHANNEL_H_
