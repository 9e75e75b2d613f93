#include "tests/adjoint/counted_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace adjoin {
namespace {

// Where malloc may look at them: their memory is there before the thread's first allocation.
#define ADJOIN_EARLY_TLS thread_local __attribute__((tls_model("initial-exec")))
ADJOIN_EARLY_TLS MemoryCount* current = nullptr;
ADJOIN_EARLY_TLS bool in_ledger = false;  // the ledger's own allocations are not counted

std::atomic<int64_t> blocks_counted{0};  // that are live

class InLedger {
 public:
  InLedger() { in_ledger = true; }
  ~InLedger() { in_ledger = false; }
};

}  // namespace

// The blocks that belong to a count.
class Ledger {
 public:
  struct Block {
    MemoryCount* count;
    int64_t bytes;
  };

  void Add(void* data, std::size_t bytes) {
    if (data == nullptr || current == nullptr || in_ledger) return;
    const InLedger guard;
    const std::lock_guard<std::mutex> lock(mutex_);
    MemoryCount& count = *current;
    blocks_[data] = {&count, static_cast<int64_t>(bytes)};
    ++blocks_counted;
    count.live_ += static_cast<int64_t>(bytes);
    count.highest_ = std::max(count.highest_, count.live_);
    ++count.allocations_;
  }

  // Before the memory is given back, so that no other allocation gets the same address meanwhile. The bytes count until
  // Subtract.
  std::optional<Block> Remove(void* data) {
    if (in_ledger) return std::nullopt;
    const InLedger guard;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = blocks_.find(data);
    if (it == blocks_.end()) return std::nullopt;
    const Block block = it->second;
    blocks_.erase(it);
    --blocks_counted;
    return block;
  }

  void Subtract(const std::optional<Block>& block) {
    if (!block.has_value()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    block->count->live_ -= block->bytes;
  }

  void Forget(const MemoryCount* count) {
    const InLedger guard;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = blocks_.begin(); it != blocks_.end();)
      it = it->second.count == count ? blocks_.erase(it) : std::next(it);
    blocks_counted = static_cast<int64_t>(blocks_.size());
  }

  int64_t Read(const int64_t& number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return number;
  }

  // Never deleted: memory is given back until the process ends.
  static Ledger& Instance() {
    static Ledger* const instance = new Ledger;
    return *instance;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
};

MemoryCount::MemoryCount() {
  Ledger::Instance();
  current = this;
}

MemoryCount::~MemoryCount() {
  current = nullptr;
  Ledger::Instance().Forget(this);
}

int64_t MemoryCount::live() const { return Ledger::Instance().Read(live_); }
int64_t MemoryCount::highest() const { return Ledger::Instance().Read(highest_); }
int64_t MemoryCount::allocations() const { return Ledger::Instance().Read(allocations_); }

}  // namespace adjoin

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {

// The C library's own, by the names that it has for such programs.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t number, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* data);

void* malloc(std::size_t bytes) noexcept {
  void* const data = __libc_malloc(bytes);
  if (adjoin::current != nullptr) adjoin::Ledger::Instance().Add(data, bytes);
  return data;
}

void* calloc(std::size_t number, std::size_t bytes) noexcept {
  void* const data = __libc_calloc(number, bytes);
  if (adjoin::current != nullptr) adjoin::Ledger::Instance().Add(data, number * bytes);
  return data;
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  void* const data = __libc_memalign(alignment, bytes);
  if (adjoin::current != nullptr) adjoin::Ledger::Instance().Add(data, bytes);
  return data;
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }

int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* const taken = memalign(alignment, bytes);
  if (taken == nullptr) return ENOMEM;
  *data = taken;
  return 0;
}

void free(void* data) noexcept {
  if (data != nullptr && adjoin::blocks_counted > 0) {
    adjoin::Ledger& ledger = adjoin::Ledger::Instance();
    ledger.Subtract(ledger.Remove(data));
  }
  __libc_free(data);
}

// Both blocks count while one is copied to the other. (Where there is no memory left, the first is no longer counted.)
void* realloc(void* data, std::size_t bytes) noexcept {
  if (adjoin::current == nullptr && adjoin::blocks_counted == 0) return __libc_realloc(data, bytes);
  adjoin::Ledger& ledger = adjoin::Ledger::Instance();
  const auto before = ledger.Remove(data);
  void* const moved = __libc_realloc(data, bytes);
  ledger.Add(moved, bytes);
  ledger.Subtract(before);
  return moved;
}

}  // extern "C"

#endif
