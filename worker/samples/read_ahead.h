// Reads the next value in a thread while the last one is in use.
//
//   ReadAhead<Key, Batch> batches([&](const Key& key, const std::atomic<bool>& stop) { return ReadBatch(key, stop); });
//   ADJOIN_ASSIGN_OR_RETURN(Batch batch, batches.Get({0, 0}, /*next=*/Key{0, 64}));     // Key{0, 64} is being read now
//
// At most one result is kept, and one is being made. The one thread reads everything, also a key that was not announced
// as `next`; an error is the result of the `Get` that asks for its key. Get is for one thread.
#ifndef ADJOIN_WORKER_SAMPLES_READ_AHEAD_H_
#define ADJOIN_WORKER_SAMPLES_READ_AHEAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace adjoin {

template <typename Key, typename Value>
class ReadAhead {
 public:
  // `reader` does not throw; it looks at `stop` now and then, and returns any error when it is set.
  using Reader = std::function<absl::StatusOr<Value>(const Key&, const std::atomic<bool>& stop)>;

  explicit ReadAhead(Reader reader) : reader_(std::move(reader)), thread_([this] { Loop(); }) {}
  // Tells the reader to stop, and waits until it does.
  ~ReadAhead() {
    {
      absl::MutexLock lock(&mutex_);
      quit_ = true;
      stop_ = true;
    }
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits as long as the reader takes, which is this process's own work. Then begins to read `next`, if there is one.
  absl::StatusOr<Value> Get(const Key& key, const std::optional<Key>& next) {
    absl::MutexLock lock(&mutex_);
    if (!wanted_.has_value() || !(*wanted_ == key)) Want(key);
    const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return result_.has_value(); };
    mutex_.Await(absl::Condition(&there));
    absl::StatusOr<Value> value = std::move(*result_);
    Want(next);
    return value;
  }

 private:
  void Want(const std::optional<Key>& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    wanted_ = key;
    result_.reset();
    ++wish_;
    stop_ = true;  // a value that is being read belongs to an earlier wish
  }

  void Loop() {
    while (true) {
      Key key;
      uint64_t wish = 0;
      {
        absl::MutexLock lock(&mutex_);
        const auto to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return quit_ || (wanted_.has_value() && !result_.has_value());
        };
        mutex_.Await(absl::Condition(&to_do));
        if (quit_) return;
        key = *wanted_;
        wish = wish_;
        stop_ = false;
      }
      absl::StatusOr<Value> value = reader_(key, stop_);
      absl::MutexLock lock(&mutex_);
      if (wish == wish_) result_ = std::move(value);
    }
  }

  const Reader reader_;
  std::atomic<bool> stop_{false};
  absl::Mutex mutex_;
  std::optional<Key> wanted_ ABSL_GUARDED_BY(mutex_);
  uint64_t wish_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::StatusOr<Value>> result_ ABSL_GUARDED_BY(mutex_);  // wanted_'s
  bool quit_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_READ_AHEAD_H_
