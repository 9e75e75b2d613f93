// Sweeps the folders of attempts in the background (attempt_retention.h), those on each mounted file system apart, so
// that one that does not answer keeps no other's.
//
//   AttemptSweeper sweeper({.list = [=] { return retention->List(); },
//                           .sweep = [=](const auto& records, const auto& enter) { retention->Sweep(records, enter); },
//                           .roots = {"/srv/output"}});
//   sweeper.Begin();                                                         // now and then
//
// Any thread. The destructor waits for no file system.
#ifndef ADJOIN_WORKER_DAEMON_ATTEMPT_SWEEPER_H_
#define ADJOIN_WORKER_DAEMON_ATTEMPT_SWEEPER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/daemon/attempt_retention.h"
#include "worker/daemon/detached_calls.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

class AttemptSweeper {
 public:
  using Records = std::vector<AttemptRetention::Record>;
  struct Options {
    // Both may take for ever, and own all that they use. By where the file systems are mounted; touches none of them.
    std::function<std::map<std::string, Records>()> list;
    std::function<void(const Records&, const MountCalls::Enter&)> sweep;
    std::vector<std::string> roots;  // of the folders; absolute
    // One sweep of each file system at a time.
    MountCalls::Limits limits = {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 16, .time = absl::Hours(1)};
  };
  explicit AttemptSweeper(Options options);

  // Begins a sweep of each file system where none is under way. Where there are too many, the next Begin begins with
  // the one that found no room, and the log tells it once. Does not wait.
  void Begin();

 private:
  struct UnderWay {
    absl::Mutex mutex;
    std::set<std::string> mount_points ABSL_GUARDED_BY(mutex);
  };
  void SweepEach(const std::map<std::string, Records>& records);
  // Returns false where there is no room for it.
  bool SweepOne(const std::string& mount_point, const Records& records);

  const Options options_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  absl::Mutex mutex_;
  std::string first_ ABSL_GUARDED_BY(mutex_);  // the mount point that comes first next time
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // that there was no room
  MountCalls sweeps_;
  DetachedCalls lists_{1};  // last: its threads use the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ATTEMPT_SWEEPER_H_
