// Lets those who ask for much take turns: one call at a time, and callers one after the other, however many calls of
// each wait.
//
//   CallerTurns::Turn turn(turns, caller.name, gone);      // waits
//   if (turn.taken()) ...                                  // until the end of the scope
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_CALLER_TURNS_H_
#define ADJOIN_COORDINATOR_SERVICES_CALLER_TURNS_H_

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"

namespace adjoin {

class CallerTurns {
 public:
  class Turn {
   public:
    // Returns when it is the caller's turn, or when `gone` says that nobody waits for it any more: it is asked several
    // times a second, without a lock. `turns` outlives the turn.
    Turn(CallerTurns& turns, const std::string& caller, const std::function<bool()>& gone)
        : turns_(turns), taken_(turns.Take(caller, gone)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (taken_) turns_.End();
    }
    bool taken() const { return taken_; }

   private:
    CallerTurns& turns_;
    const bool taken_;
  };

  CallerTurns() = default;
  CallerTurns(const CallerTurns&) = delete;
  CallerTurns& operator=(const CallerTurns&) = delete;

  // How many calls wait.
  int waiting() const;

 private:
  struct Call {
    bool has_turn = false;
    MonotonicCondition changed;
  };

  bool Take(const std::string& caller, const std::function<bool()>& gone);
  void End();
  void StopWaiting(const std::string& caller, Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::deque<Call*>> waiting_ ABSL_GUARDED_BY(mutex_);  // by caller, the oldest first
  std::deque<std::string> next_ ABSL_GUARDED_BY(mutex_);                      // the callers in `waiting_`
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_CALLER_TURNS_H_
