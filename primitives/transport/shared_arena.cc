#include "primitives/transport/shared_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int64_t kHeaderBytes = 4096;
constexpr int64_t kAllocationStep = int64_t{256} << 10;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr char kMagic[8] = {'A', 'D', 'J', 'A', 'R', 'N', 'A', '1'};

static_assert(sizeof(ArenaHeader) <= kHeaderBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

// What a rank tells the others of its arena. Ranks of one job are of one build.
struct Described {
  char magic[8];
  uint64_t key;
  int64_t bytes;
  uint64_t memory_device, memory_inode;
  uint64_t bell_device, bell_inode;
  int32_t process;
  int32_t memory;
  int32_t bell;
  int32_t unused;
};

int64_t InLines(int64_t bytes) { return (bytes + kArenaLine - 1) / kArenaLine * kArenaLine; }

// Opens another process's file; makes sure that it is the one that was described.
absl::StatusOr<UniqueFd> OpenOf(int process, int fd, int flags, uint64_t device, uint64_t inode) {
  const std::string path = absl::StrCat("/proc/", process, "/fd/", fd);
  UniqueFd opened(open(path.c_str(), flags | O_CLOEXEC));
  if (opened.get() < 0) return absl::UnavailableError(ErrnoStatus(errno, path).message());
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0 || status.st_dev != device || status.st_ino != inode) {
    return absl::UnavailableError(absl::StrCat(path, " is another file by now: its process is gone"));
  }
  return opened;
}

}  // namespace

void FullFence() {
#if defined(__SANITIZE_THREAD__)
  static std::atomic<int> word{0};  // the sanitizer does not know fences
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

ArenaMapping::~ArenaMapping() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

absl::Status ArenaMapping::Map(int fd, int64_t bytes) {
  void* const data =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        ErrnoStatus(errno, absl::StrCat("mapping ", bytes, " bytes of shared memory")).message());
  }
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
  return absl::OkStatus();
}

char* ArenaMapping::At(int64_t offset, int64_t bytes) const {
  if (offset < kHeaderBytes || bytes < 0 || offset % kArenaLine != 0) return nullptr;
  if (offset > bytes_ || bytes > bytes_ - offset) return nullptr;
  return data_ + offset;
}

absl::StatusOr<std::unique_ptr<SharedArena>> SharedArena::Create(int64_t bytes) {
  rlimit files = {};
  // Beyond the limit the system would end this process with a signal.
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
      static_cast<uint64_t>(bytes) > files.rlim_cur) {
    return absl::ResourceExhaustedError(absl::StrCat("the limit of a file's size (ulimit -f) is ", files.rlim_cur,
                                                     " bytes, and ", bytes, " are needed"));
  }
  std::unique_ptr<SharedArena> arena(new SharedArena());
  arena->bytes_ = bytes;
  arena->memory_ = UniqueFd(memfd_create("adjoin-channels", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int memory = arena->memory_.get();
  if (memory < 0) return absl::UnavailableError(ErrnoStatus(errno, "memfd_create").message());
  if (fchmod(memory, 0600) != 0 || ftruncate(memory, bytes) != 0 || fcntl(memory, F_ADD_SEALS, kSeals) != 0 ||
      fallocate(memory, 0, 0, kHeaderBytes) != 0) {
    return absl::UnavailableError(ErrnoStatus(errno, "shared memory").message());
  }
  arena->allocated_ = kHeaderBytes;
  ADJOIN_RETURN_IF_ERROR(arena->mapping_.Map(memory, bytes));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return absl::UnavailableError(ErrnoStatus(errno, "pipe").message());
  arena->bell_read_ = UniqueFd(ends[0]);
  arena->bell_write_ = UniqueFd(ends[1]);
  if (getrandom(&arena->key_, sizeof(arena->key_), GRND_NONBLOCK) != sizeof(arena->key_)) {
    return absl::UnavailableError(ErrnoStatus(errno, "getrandom").message());
  }
  new (&arena->mapping_.header()) ArenaHeader();
  arena->mapping_.header().key = arena->key_;
  arena->free_[kHeaderBytes] = bytes - kHeaderBytes;
  return arena;
}

std::string SharedArena::Address() const {
  struct stat memory = {}, bell = {};
  fstat(memory_.get(), &memory);
  fstat(bell_write_.get(), &bell);
  Described described = {};
  std::memcpy(described.magic, kMagic, sizeof(kMagic));
  described.key = key_;
  described.bytes = bytes_;
  described.memory_device = memory.st_dev;
  described.memory_inode = memory.st_ino;
  described.bell_device = bell.st_dev;
  described.bell_inode = bell.st_ino;
  described.process = getpid();
  described.memory = memory_.get();
  described.bell = bell_write_.get();
  return std::string(reinterpret_cast<const char*>(&described), sizeof(described));
}

absl::StatusOr<int64_t> SharedArena::Take(int64_t bytes) {
  const int64_t needed = InLines(bytes);
  const auto fits = [&](const auto& range) { return range.second >= needed; };
  const auto found = bytes <= 0 ? free_.end() : std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", bytes, " bytes: ", taken_, " of ", bytes_, " bytes of shared memory are taken"));
  }
  const int64_t offset = found->first, end = offset + needed;
  if (end > allocated_) {
    const int64_t up_to = std::min(bytes_, std::max(end, allocated_ + kAllocationStep));
    if (fallocate(memory_.get(), 0, allocated_, up_to - allocated_) != 0) {
      return absl::ResourceExhaustedError(ErrnoStatus(errno, "shared memory").message());
    }
    allocated_ = up_to;
  }
  const int64_t rest = found->second - needed;
  free_.erase(found);
  if (rest > 0) free_[end] = rest;
  taken_ += needed;
  std::memset(mapping_.At(offset, needed), 0, static_cast<std::size_t>(needed));
  return offset;
}

void SharedArena::Give(int64_t offset, int64_t bytes) {
  const int64_t needed = InLines(bytes);
  taken_ -= needed;
  auto range = free_.emplace(offset, needed).first;
  const auto next = std::next(range);
  if (next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto before = std::prev(range);
  if (before->first + before->second != range->first) return;
  before->second += range->second;
  free_.erase(range);
}

void SharedArena::AnnounceSleep() {
  mapping_.header().asleep.store(1, std::memory_order_relaxed);
  FullFence();
}

void SharedArena::Awake() {
  mapping_.header().asleep.store(0, std::memory_order_relaxed);
  char rings[64];
  while (read(bell_read_.get(), rings, sizeof(rings)) == sizeof(rings)) {
  }
}

absl::StatusOr<std::unique_ptr<PeerArena>> PeerArena::Map(absl::string_view address) {
  Described described = {};
  if (address.size() != sizeof(described)) {
    return absl::InvalidArgumentError(absl::StrCat(address.size(), " bytes are no arena's address"));
  }
  std::memcpy(&described, address.data(), sizeof(described));
  if (std::memcmp(described.magic, kMagic, sizeof(kMagic)) != 0 || described.bytes < kHeaderBytes) {
    return absl::InvalidArgumentError("not an arena's address");
  }
  ADJOIN_ASSIGN_OR_RETURN(const UniqueFd memory, OpenOf(described.process, described.memory, O_RDWR,
                                                        described.memory_device, described.memory_inode));
  struct stat status = {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (fstat(memory.get(), &status) != 0 || status.st_size != described.bytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("an arena of another length than its address says, or one that may shrink");
  }
  std::unique_ptr<PeerArena> peer(new PeerArena());
  // Open for reading as well: writing to a pipe that nobody reads any more would end this process.
  ADJOIN_ASSIGN_OR_RETURN(peer->bell_, OpenOf(described.process, described.bell, O_RDWR | O_NONBLOCK,
                                              described.bell_device, described.bell_inode));
  ADJOIN_RETURN_IF_ERROR(peer->mapping_.Map(memory.get(), described.bytes));
  if (peer->mapping_.header().key != described.key) {
    return absl::InvalidArgumentError("an arena of another key than its address says");
  }
  return peer;
}

void PeerArena::WakeIfAsleep() {
  if (mapping_.header().asleep.load(std::memory_order_relaxed) == 0) return;
  mapping_.header().asleep.store(0, std::memory_order_relaxed);
  const char ring = 1;
  [[maybe_unused]] const ssize_t written = write(bell_.get(), &ring, 1);  // a full pipe rings already
}

}  // namespace adjoin
