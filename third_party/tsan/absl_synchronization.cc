// Debian's libabsl is compiled without the thread sanitizer, which then does not know what an absl::Mutex orders: it
// reports races between accesses that a mutex keeps apart, and overlooks others. So an executable that is built with
// --config=tsan has these members of its own. They take precedence over the library's, also for calls from libgrpc and
// from libabsl itself; each does what the library's does and tells the sanitizer (sanitizer/tsan_interface.h). They do
// what absl's annotations do where it is instrumented.
//
// Between __tsan_mutex_pre_lock and post_lock, and between pre_unlock and post_unlock, the sanitizer ignores what the
// thread reads: absl evaluates there the conditions of other threads' Await, with the mutex held.
//
// A destructor that is inline and empty (absl of Debian 13 in what is compiled with NDEBUG) is not seen: the sanitizer
// then knows a mutex at the same address as the one before it.
//
// absl::call_once needs nothing (its atomic variable is read and written by inline functions, which are instrumented),
// nor do function-local statics (the sanitizer knows __cxa_guard_acquire).
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

// A function of the library: the next one of this name after the executable's own.
template <typename Signature>
class Function;
template <typename Result, typename... Arguments>
class Function<Result(Arguments...)> {
 public:
  explicit constexpr Function(const char* symbol) : symbol_(symbol) {}
  // The first argument of a member function is the object.
  Result operator()(Arguments... arguments) {
    void* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = dlsym(RTLD_NEXT, symbol_);
      if (found == nullptr) {
        std::fprintf(stderr, "%s is not in libabsl_synchronization: third_party/tsan is for another release of absl\n",
                     symbol_);
        std::abort();
      }
      found_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
  }

 private:
  const char* const symbol_;
  std::atomic<void*> found_{nullptr};
};

// Debian 12's absl is 20220623, 13's 20240722. In the newer one, inline functions call what waits: one member with
// every kind of limit.
#define ADJOIN_ABSL_WAITS_INLINE (ABSL_LTS_RELEASE_VERSION >= 20240722)
#if ADJOIN_ABSL_WAITS_INLINE
using Limit = absl::synchronization_internal::KernelTimeout;
#endif

namespace library {
// All members' names begin so, and go on with the release's namespace, such as "debian3".
#define ADJOIN_TEXT_OF(name) #name
#define ADJOIN_TEXT(name) ADJOIN_TEXT_OF(name)
#define ADJOIN_ABSL(name) "_ZN4absl7" ADJOIN_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME) name
#define ADJOIN_ABSL_CONST(name) "_ZNK4absl7" ADJOIN_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME) name

ABSL_CONST_INIT Function<void(absl::Mutex*)> lock(ADJOIN_ABSL("5Mutex4LockEv"));
ABSL_CONST_INIT Function<void(absl::Mutex*)> unlock(ADJOIN_ABSL("5Mutex6UnlockEv"));
ABSL_CONST_INIT Function<bool(absl::Mutex*)> try_lock(ADJOIN_ABSL("5Mutex7TryLockEv"));
ABSL_CONST_INIT Function<void(absl::Mutex*)> reader_lock(ADJOIN_ABSL("5Mutex10ReaderLockEv"));
ABSL_CONST_INIT Function<void(absl::Mutex*)> reader_unlock(ADJOIN_ABSL("5Mutex12ReaderUnlockEv"));
#if ADJOIN_ABSL_WAITS_INLINE
ABSL_CONST_INIT Function<void(absl::Mutex*)> destroy(ADJOIN_ABSL("5Mutex4DtorEv"));
ABSL_CONST_INIT Function<bool(absl::Mutex*, const absl::Condition&, Limit, bool)> lock_when(
    ADJOIN_ABSL("5Mutex14LockWhenCommonERKNS0_9ConditionENS0_24synchronization_internal13KernelTimeoutEb"));
ABSL_CONST_INIT Function<bool(absl::Mutex*, const absl::Condition&, Limit)> await(
    ADJOIN_ABSL("5Mutex11AwaitCommonERKNS0_9ConditionENS0_24synchronization_internal13KernelTimeoutE"));
ABSL_CONST_INIT Function<bool(absl::CondVar*, absl::Mutex*, Limit)> wait(
    ADJOIN_ABSL("7CondVar10WaitCommonEPNS0_5MutexENS0_24synchronization_internal13KernelTimeoutE"));
#else
// Functions with a timeout call these, with a deadline.
ABSL_CONST_INIT Function<void(absl::Mutex*)> destroy(ADJOIN_ABSL("5MutexD1Ev"));
ABSL_CONST_INIT Function<void(absl::Mutex*, const absl::Condition&)> lock_when(
    ADJOIN_ABSL("5Mutex8LockWhenERKNS0_9ConditionE"));
ABSL_CONST_INIT Function<bool(absl::Mutex*, const absl::Condition&, absl::Time)> lock_when_with_deadline(
    ADJOIN_ABSL("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE"));
ABSL_CONST_INIT Function<void(absl::Mutex*, const absl::Condition&)> await(
    ADJOIN_ABSL("5Mutex5AwaitERKNS0_9ConditionE"));
ABSL_CONST_INIT Function<bool(absl::Mutex*, const absl::Condition&, absl::Time)> await_with_deadline(
    ADJOIN_ABSL("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE"));
ABSL_CONST_INIT Function<void(absl::CondVar*, absl::Mutex*)> wait(ADJOIN_ABSL("7CondVar4WaitEPNS0_5MutexE"));
ABSL_CONST_INIT Function<bool(absl::CondVar*, absl::Mutex*, absl::Time)> wait_with_deadline(
    ADJOIN_ABSL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"));
#endif
ABSL_CONST_INIT Function<void(absl::Notification*)> notify(ADJOIN_ABSL("12Notification6NotifyEv"));
ABSL_CONST_INIT Function<void(const absl::Notification*)> wait_for_notification(
    ADJOIN_ABSL_CONST("12Notification19WaitForNotificationEv"));
ABSL_CONST_INIT Function<bool(const absl::Notification*, absl::Duration)> wait_for_notification_with_timeout(
    ADJOIN_ABSL_CONST("12Notification30WaitForNotificationWithTimeoutENS0_8DurationE"));
ABSL_CONST_INIT Function<bool(const absl::Notification*, absl::Time)> wait_for_notification_with_deadline(
    ADJOIN_ABSL_CONST("12Notification31WaitForNotificationWithDeadlineENS0_4TimeE"));
}  // namespace library

// While it lives, the thread is locking the mutex.
class Locking {
 public:
  explicit Locking(absl::Mutex* mutex, unsigned flags = 0) : mutex_(mutex), flags_(flags) {
    __tsan_mutex_pre_lock(mutex_, flags_);
  }
  ~Locking() { __tsan_mutex_post_lock(mutex_, flags_, 0); }
  void Failed() { flags_ |= __tsan_mutex_try_lock_failed; }

 private:
  absl::Mutex* const mutex_;
  unsigned flags_;
};

// While it lives, the thread is unlocking the mutex.
class Unlocking {
 public:
  explicit Unlocking(absl::Mutex* mutex, unsigned flags = 0) : mutex_(mutex), flags_(flags) {
    __tsan_mutex_pre_unlock(mutex_, flags_);
  }
  ~Unlocking() { __tsan_mutex_post_unlock(mutex_, flags_); }

 private:
  absl::Mutex* const mutex_;
  const unsigned flags_;
};

// A wait releases the mutex and takes it again. Also where it need not: the sanitizer then believes that others may
// have had it meanwhile, and reports no race. The mutex is held exclusively: no wait has a reader's lock.
class Waiting {
 public:
  explicit Waiting(absl::Mutex* mutex) : locking_(Unlocked(mutex)) {}

 private:
  static absl::Mutex* Unlocked(absl::Mutex* mutex) {
    Unlocking unlocking(mutex);
    return mutex;
  }
  Locking locking_;
};

// Where the inline HasBeenNotified() reads.
void* NotifiedYet(const absl::Notification* notification) {
  static_assert(sizeof(absl::Notification) == 2 * sizeof(absl::Mutex));
  return const_cast<absl::Mutex*>(reinterpret_cast<const absl::Mutex*>(notification) + 1);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  Locking locking(this);
  library::lock(this);
}
void Mutex::Unlock() {
  Unlocking unlocking(this);
  library::unlock(this);
}
bool Mutex::TryLock() {
  Locking locking(this, __tsan_mutex_try_lock);
  const bool locked = library::try_lock(this);
  if (!locked) locking.Failed();
  return locked;
}
void Mutex::ReaderLock() {
  Locking locking(this, __tsan_mutex_read_lock);
  library::reader_lock(this);
}
void Mutex::ReaderUnlock() {
  Unlocking unlocking(this, __tsan_mutex_read_lock);
  library::reader_unlock(this);
}
#if ADJOIN_ABSL_WAITS_INLINE
void Mutex::Dtor() {
  library::destroy(this);
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
}
bool Mutex::LockWhenCommon(const Condition& condition, Limit limit, bool write) {
  Locking locking(this, write ? 0 : __tsan_mutex_read_lock);
  return library::lock_when(this, condition, limit, write);
}
bool Mutex::AwaitCommon(const Condition& condition, Limit limit) {
  Waiting waiting(this);
  return library::await(this, condition, limit);
}

bool CondVar::WaitCommon(Mutex* mutex, Limit limit) {
  Waiting waiting(mutex);
  return library::wait(this, mutex, limit);
}
#else
Mutex::~Mutex() {
  library::destroy(this);
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
}
void Mutex::LockWhen(const Condition& condition) {
  Locking locking(this);
  library::lock_when(this, condition);
}
bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  Locking locking(this);
  return library::lock_when_with_deadline(this, condition, deadline);
}
void Mutex::Await(const Condition& condition) {
  Waiting waiting(this);
  library::await(this, condition);
}
bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  Waiting waiting(this);
  return library::await_with_deadline(this, condition, deadline);
}

void CondVar::Wait(Mutex* mutex) {
  Waiting waiting(mutex);
  library::wait(this, mutex);
}
bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  Waiting waiting(mutex);
  return library::wait_with_deadline(this, mutex, deadline);
}
#endif

// The sanitizer sees how these use their mutex; they need none where it is notified already.
void Notification::Notify() {
  __tsan_release(NotifiedYet(this));
  library::notify(this);
}
void Notification::WaitForNotification() const {
  library::wait_for_notification(this);
  __tsan_acquire(NotifiedYet(this));
}
bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified = library::wait_for_notification_with_timeout(this, timeout);
  if (notified) __tsan_acquire(NotifiedYet(this));
  return notified;
}
bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  const bool notified = library::wait_for_notification_with_deadline(this, deadline);
  if (notified) __tsan_acquire(NotifiedYet(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
