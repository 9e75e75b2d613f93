// What a daemon knows of its own node now. The file systems that it looks at may be slow, or answer never, and nothing
// waits for them.
//
//   NodeWatch node([look](const NodeWatch::At& at) { return look->Look(at); });
//   NodeView seen = node.LookAgain(absl::Seconds(2));   // in a hello
//   NodeView seen = node.Get();                          // in each heartbeat, and before ranks are started
//
// The output_id is the last one that was read. A place that does not answer is a condition, too.
#ifndef ADJOIN_WORKER_DAEMON_NODE_WATCH_H_
#define ADJOIN_WORKER_DAEMON_NODE_WATCH_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "worker/daemon/detached_calls.h"
#include "worker/daemon/node_look.h"

namespace adjoin {

// Thread-safe.
class NodeWatch {
 public:
  using At = std::function<void(const std::string& place)>;
  struct Settings {
    absl::Duration interval = absl::Seconds(5);  // between the beginnings of two looks
    absl::Duration slow = absl::Seconds(10);     // a look that takes longer does not answer
  };

  // `look` may never return; it is called on threads that are not joined, one at a time, and must own all that it uses.
  explicit NodeWatch(std::function<NodeView(const At& at)> look) : NodeWatch(std::move(look), Settings()) {}
  NodeWatch(std::function<NodeView(const At& at)> look, Settings settings)
      : look_(std::move(look)), settings_(settings) {}

  // Looks once more, and waits at most `wait` for it.
  NodeView LookAgain(absl::Duration wait);
  // Does not wait; looks in the background where the last look is old.
  NodeView Get();

 private:
  struct Stage {
    absl::Mutex mutex;
    std::string place ABSL_GUARDED_BY(mutex);
  };
  void Begin();
  NodeView Current();

  const std::function<NodeView(const At& at)> look_;
  const Settings settings_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  NodeView view_ ABSL_GUARDED_BY(mutex_);
  std::string told_ ABSL_GUARDED_BY(mutex_);  // the condition that was logged last
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  Deadline next_ ABSL_GUARDED_BY(mutex_) = Deadline::After(absl::ZeroDuration());  // look
  Deadline late_ ABSL_GUARDED_BY(mutex_) = Deadline::After(absl::ZeroDuration());  // the one under way, from then on
  std::shared_ptr<Stage> stage_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Stage>();
  DetachedCalls calls_{1};  // its destructor comes first: nothing of the above is used after it
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_NODE_WATCH_H_
