#include "primitives/tensor_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <list>
#include <unordered_map>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/process_memory.h"

namespace adjoin {
namespace {

constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Memory for one tensor after another.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t used = 0;  // by the tensor that has it
  char* mapped = nullptr;
  std::size_t mapped_bytes = 0;
};

// Fresh memory for `bytes`, a multiple of kPage, on huge pages; without data if there is none. Tensors that began at
// equal places of their pages would compete for the same lines of a cache: copying one to another took nearly twice as
// long. So each begins at another of kColours places.
Block Map(std::size_t bytes, std::size_t number) {
  constexpr std::size_t kColours = 13;
  constexpr std::size_t kShift = kPage + 5 * 64;  // a page, and lines within it
  const std::size_t shift = number % kColours * kShift;
  Block block;
  block.bytes = bytes;
  block.mapped_bytes = RoundUp(shift + bytes, kPage);
  void* const mapped =
      mmap(nullptr, block.mapped_bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return {};
  char* const begin = static_cast<char*>(mapped);
  block.mapped = reinterpret_cast<char*>(RoundUp(reinterpret_cast<std::size_t>(begin), kHugePage));
  const std::size_t before = static_cast<std::size_t>(block.mapped - begin);
  if (before > 0) munmap(begin, before);
  munmap(block.mapped + block.mapped_bytes, kHugePage - before);
  madvise(block.mapped, block.mapped_bytes, MADV_HUGEPAGE);  // only makes the first touch cheaper
  block.data = block.mapped + shift;
  return block;
}

// Where tensors begin, for the instructions that take several numbers at once: as LibTorch's own allocator.
constexpr std::size_t kAlignment = 64;

// Stands before the memory of a small tensor.
struct SmallHeader {
  void* block;        // of malloc
  std::size_t bytes;  // of the tensor
};
constexpr std::size_t kAroundSmall = kAlignment + sizeof(SmallHeader);

// The heap gives a freed block to the next tensor of its size. posix_memalign, which LibTorch uses, does not: it looks
// for a block with room to align in, which one that was aligned before no longer has. A job's heap then grew to three
// times what its tensors took.
void* TakeSmall(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAroundSmall) return nullptr;
  void* const block = malloc(bytes + kAroundSmall);
  if (block == nullptr) return nullptr;
  const auto data = RoundUp(reinterpret_cast<std::uintptr_t>(block) + sizeof(SmallHeader), kAlignment);
  auto* const header = reinterpret_cast<SmallHeader*>(data) - 1;
  *header = {block, bytes};
  return reinterpret_cast<void*>(data);
}

// All tensors of the process.
struct TensorCount {
  std::atomic<int64_t> now{0}, highest{0};

  void Add(std::size_t bytes) {
    const int64_t sum =
        now.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    int64_t most = highest.load(std::memory_order_relaxed);
    while (sum > most && !highest.compare_exchange_weak(most, sum, std::memory_order_relaxed)) {
    }
  }
  void Remove(std::size_t bytes) { now.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
};
TensorCount counted;

class ReusingAllocator final : public c10::Allocator {
 public:
  ReusingAllocator() = default;

  // No function says `override`, since which of them do depends on LibTorch: its allocate() is const in LibTorch 1 and
  // no longer in 2, which also has copy_data().
  c10::DataPtr allocate(std::size_t bytes) const { return Allocate(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return Allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  // For raw_deallocate, which oneDNN's wrapper uses: knows by the address which of the two gave it.
  c10::DeleterFnPtr raw_deleter() const { return &GiveBackEither; }

  void SetSmallest(int64_t bytes) { smallest_.store(static_cast<std::size_t>(bytes), std::memory_order_relaxed); }

  TensorMemoryUse use() const {
    absl::MutexLock lock(&mutex_);
    TensorMemoryUse use = use_;
    use.tensors = counted.now.load(std::memory_order_relaxed);
    use.tensors_highest = counted.highest.load(std::memory_order_relaxed);
    return use;
  }

 private:
  static void GiveBack(void* data);
  static void GiveBackSmall(void* data);
  static void GiveBackEither(void* data);

  c10::DataPtr Allocate(std::size_t bytes) const {
    if (bytes < smallest_.load(std::memory_order_relaxed)) return AllocateSmall(bytes);
    void* const data = Take(RoundUp(bytes, kPage), bytes);
    return {data, data, &GiveBack, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DataPtr AllocateSmall(std::size_t bytes) const {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, cpu};
    void* const data = TakeSmall(bytes);
    TORCH_CHECK(data != nullptr, "no memory for a tensor of ", bytes, " bytes; the process uses ",
                ProcessMemoryInUse().data, " bytes");
    counted.Add(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &GiveBackSmall, cpu};
  }

  bool IsLarge(void* data) const {
    absl::MutexLock lock(&mutex_);
    return live_.count(data) > 0;
  }

  // `bytes`: of `used` ones, for a tensor, whole pages.
  void* Take(std::size_t bytes, std::size_t used) const {
    absl::MutexLock lock(&mutex_);
    Block block;
    // The smallest that fits without wasting more than an eighth.
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->bytes < bytes || it->bytes > bytes + bytes / 8) continue;
      if (best == idle_.end() || it->bytes < best->bytes) best = it;
    }
    if (best != idle_.end()) {
      block = *best;
      bytes = block.bytes;
      use_.idle -= static_cast<int64_t>(bytes);
      idle_.erase(best);
    }
    use_.live += static_cast<int64_t>(bytes);
    use_.highest = std::max(use_.highest, use_.live);
    Trim();
    if (block.data == nullptr) {
      block = Map(bytes, static_cast<std::size_t>(use_.mapped++));
      if (block.data == nullptr) use_.live -= static_cast<int64_t>(bytes);
      TORCH_CHECK(block.data != nullptr, "no memory for a tensor of ", bytes, " bytes; the process uses ",
                  ProcessMemoryInUse().data, " bytes");
    }
    block.used = used;
    live_[block.data] = block;
    counted.Add(used);
    return block.data;
  }

  void Keep(void* data) {
    absl::MutexLock lock(&mutex_);
    const auto it = live_.find(data);
    idle_.push_back(it->second);
    live_.erase(it);
    counted.Remove(idle_.back().used);
    use_.live -= static_cast<int64_t>(idle_.back().bytes);
    use_.idle += static_cast<int64_t>(idle_.back().bytes);
    Trim();
  }

  void Trim() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (use_.live + use_.idle > use_.highest && !idle_.empty()) {
      munmap(idle_.front().mapped, idle_.front().mapped_bytes);
      use_.idle -= static_cast<int64_t>(idle_.front().bytes);
      idle_.pop_front();
    }
  }

  std::atomic<std::size_t> smallest_{static_cast<std::size_t>(kLargeTensorBytes)};
  mutable absl::Mutex mutex_;
  mutable std::list<Block> idle_ ABSL_GUARDED_BY(mutex_);  // the longest unused first
  mutable std::unordered_map<void*, Block> live_ ABSL_GUARDED_BY(mutex_);
  mutable TensorMemoryUse use_ ABSL_GUARDED_BY(mutex_);
};

// Never deleted: tensors may outlive everything else in the process.
ReusingAllocator& Instance() {
  static auto* const instance = new ReusingAllocator();
  return *instance;
}

void ReusingAllocator::GiveBack(void* data) { Instance().Keep(data); }

void ReusingAllocator::GiveBackSmall(void* data) {
  if (data == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(data);
  const SmallHeader header = *(reinterpret_cast<SmallHeader*>(data) - 1);
  counted.Remove(header.bytes);
  free(header.block);
}

void ReusingAllocator::GiveBackEither(void* data) {
  ReusingAllocator& instance = Instance();
  if (instance.IsLarge(data)) {
    instance.Keep(data);
  } else {
    GiveBackSmall(data);
  }
}

}  // namespace

void ReuseTensorMemory(int64_t smallest) {
  if (c10::GetCPUAllocator() == &Instance()) return;
  Instance().SetSmallest(smallest);
  // Smaller tensors come from the heap, which keeps what they have used: by its own rule it would give the end of the
  // heap back to the system after most steps, and get it anew, page by page, in the next.
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(std::min(smallest, kLargeTensorBytes)));
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  c10::SetCPUAllocator(&Instance(), /*priority=*/1);
}

TensorMemoryUse TensorMemoryInUse() { return Instance().use(); }

}  // namespace adjoin
