// Memory of one rank that other ranks of its node map, and a bell by which they wake it.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<SharedArena> own, SharedArena::Create());          // at rank 0
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<PeerArena> zero, PeerArena::Map(own->Address()));  // at rank 1
//   ADJOIN_ASSIGN_OR_RETURN(const int64_t offset, own->Take(256));                             // at rank 0
//   char* const memory = zero->At(offset, 256);                                                // the same, at rank 1
//
// The memory is a memfd, so it needs no /dev/shm and has no name: it goes with the last process that maps it, however
// that ends. Peers find it under /proc, as UCX's posix transport does; so they share a namespace of process ids, and a
// user. Its length is sealed, or a peer could make this rank fault. What is taken is allocated by then: a full memory
// is an error of Take and not a fault of the rank that writes.
//
// A peer may write anything into it at any time: whatever is read there is data, never an offset or a length.
//
// Threads: one at a time.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_SHARED_ARENA_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_SHARED_ARENA_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace adjoin {

// The unit of what is taken: a line of the caches, so that what two ranks write is never in one.
inline constexpr int64_t kArenaLine = 64;

// The first page of an arena.
struct ArenaHeader {
  uint64_t key = 0;  // as in the address
  // 1 while its rank sleeps until the bell rings.
  alignas(kArenaLine) std::atomic<uint32_t> asleep{0};
};

// An arena in this process's address space.
class ArenaMapping {
 public:
  ArenaMapping() = default;
  ~ArenaMapping();
  ArenaMapping(const ArenaMapping&) = delete;
  ArenaMapping& operator=(const ArenaMapping&) = delete;

  // Errors: kResourceExhausted.
  absl::Status Map(int fd, int64_t bytes);
  // Null where [offset, offset + bytes) is not within the arena behind its header, or begins in the middle of a line.
  char* At(int64_t offset, int64_t bytes) const;
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(data_); }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

class SharedArena {
 public:
  // An arena can have so much memory; it has what was taken from it.
  static constexpr int64_t kBytes = int64_t{64} << 20;

  // Errors: kResourceExhausted, kUnavailable: what this process or this system has not; the message names it.
  static absl::StatusOr<std::unique_ptr<SharedArena>> Create(int64_t bytes = kBytes);

  // Bytes for PeerArena::Map.
  std::string Address() const;

  // The offset of `bytes` of memory, all 0. Errors: kResourceExhausted.
  absl::StatusOr<int64_t> Take(int64_t bytes);
  // Returns what Take gave.
  void Give(int64_t offset, int64_t bytes);
  char* At(int64_t offset, int64_t bytes) const { return mapping_.At(offset, bytes); }
  int64_t taken() const { return taken_; }

  // To sleep: announce it, look once more whether there is a reason not to, and poll bell() for POLLIN. Awake takes the
  // announcement back and quiets the bell.
  void AnnounceSleep();
  int bell() const { return bell_read_.get(); }
  void Awake();

 private:
  SharedArena() = default;

  UniqueFd memory_;
  UniqueFd bell_read_;
  UniqueFd bell_write_;
  ArenaMapping mapping_;
  int64_t bytes_ = 0;
  uint64_t key_ = 0;
  int64_t allocated_ = 0;  // bytes from the beginning that have memory
  int64_t taken_ = 0;
  std::map<int64_t, int64_t> free_;  // lengths by offset; no two of them touch
};

class PeerArena {
 public:
  // Errors: kInvalidArgument (not what SharedArena::Address gave), kUnavailable (its process is gone, or it cannot be
  // opened), kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<PeerArena>> Map(absl::string_view address);

  char* At(int64_t offset, int64_t bytes) const { return mapping_.At(offset, bytes); }
  // After everything that was written for the peer, and a FullFence: rings if it sleeps.
  void WakeIfAsleep();

 private:
  PeerArena() = default;

  ArenaMapping mapping_;
  UniqueFd bell_;
};

// Everything before it is seen by everybody before anything after it is done.
void FullFence();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_SHARED_ARENA_H_
