// CoordinationService under a lock, with a thread for the clock, the daemons' outboxes and a way to wait for changes.
//
//   Hub hub(options, [&](const std::string& job_id) { logs.Remove(job_id).IgnoreError(); });
//   std::string id = hub.Do([&](CoordinationService& service) { return service.Submit(spec, plan); });
//   uint64_t seen = hub.changes();
//   ... look ...;  hub.WaitForChange(seen, Deadline::After(absl::Milliseconds(200)));
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_HUB_H_
#define ADJOIN_COORDINATOR_HUB_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "coordinator/coordination_service.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Messages on their way to one daemon.
class Outbox {
 public:
  void Push(CoordinatorMessage message);
  // Waits; nothing once it is closed.
  std::optional<CoordinatorMessage> Pop();
  void Close();

 private:
  absl::Mutex mutex_;
  std::deque<CoordinatorMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

class Hub {
 public:
  // `on_forgotten` is called with each job that the service has forgotten.
  Hub(CoordinationOptions options, std::function<void(const std::string& job_id)> on_forgotten);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Runs `f` on the service, alone, then sends what it decided and wakes who waits for changes.
  template <typename F>
  auto Do(F f) {
    absl::MutexLock lock(&mutex_);
    // The dispatch runs after the return value is made and before the lock is released.
    struct AtExit {
      Hub* hub;
      ~AtExit() { hub->Dispatch(); }
    } dispatch{this};
    return f(service_);
  }

  // The same for an `f` that changes nothing: nobody is woken.
  template <typename F>
  auto Look(F f) {
    absl::MutexLock lock(&mutex_);
    return f(service_);
  }

  struct Connection {
    ConnectionId id = 0;
    std::shared_ptr<Outbox> outbox;
  };
  // `cancel` breaks the daemon's stream; it may be called until Detach returns.
  Connection Attach(std::function<void()> cancel);
  void Detach(ConnectionId id);
  // False when the daemon is not connected any more.
  bool SendTo(ConnectionId id, CoordinatorMessage message);

  uint64_t changes();
  // Returns when there was a change after `seen`, or at the deadline.
  void WaitForChange(uint64_t seen, Deadline deadline);
  // For what changes outside of the service: log lines.
  void NoteChange();

 private:
  struct Link {
    std::shared_ptr<Outbox> outbox;
    std::function<void()> cancel;
  };
  void Dispatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TickUntilStopped();

  const std::function<void(const std::string&)> on_forgotten_;
  absl::Mutex mutex_;
  CoordinationService service_ ABSL_GUARDED_BY(mutex_);
  std::map<ConnectionId, Link> links_ ABSL_GUARDED_BY(mutex_);
  ConnectionId last_connection_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread clock_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_HUB_H_
