// Several planners, each on a thread of its own, and the queue in front of them.
//
//   PlannerPool pool({.planners = 4}, [&] { return std::make_unique<PlannerProcess>(options); });
//   ADJOIN_ASSIGN_OR_RETURN(PlanAnswer answer, PlanAndWait(pool, task, given_up));
//
// plan_queue.h says which plan is next. A plan that takes longer than a second although it seemed short may have to
// begin anew, and one whose planner ended is tried once more, then without a guess at what its files hold. All of this
// counts as its owner's time. A plan that was given up ends within a second. Any thread.
#ifndef ADJOIN_COORDINATOR_PLANNING_PLANNER_POOL_H_
#define ADJOIN_COORDINATOR_PLANNING_PLANNER_POOL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "coordinator/planning/plan_maker.h"
#include "coordinator/planning/plan_queue.h"
#include "coordinator/planning/spec_planner.h"

namespace adjoin {

class PlannerPool final : public SpecPlanner {
 public:
  struct Options {
    int planners = 2;  // at least 2
    PlanQueue::Options queue = {};
    absl::Duration short_plan = absl::Seconds(1);  // a plan that takes longer is a long one
    absl::Duration grace = absl::Seconds(1);       // a plan that is given up may take so long in all
  };
  // `make` is called by each planner's own thread, which lives as long as the pool, before its first plan.
  PlannerPool(const Options& options, std::function<std::unique_ptr<PlanMaker>()> make);
  ~PlannerPool() override;
  PlannerPool(const PlannerPool&) = delete;
  PlannerPool& operator=(const PlannerPool&) = delete;

  absl::StatusOr<uint64_t> Start(PlanTask task, PlanDone done) override;
  void GiveUp(uint64_t ticket) override;
  void Stop() override;

  size_t waiting();  // plans that wait for a planner

 private:
  struct Work {
    PlanTask task;
    PlanDone done;
    PlanQueue::Entry entry;
    int tries = 0;
    bool given_up = false;
  };
  struct Planner {
    MonotonicCondition wake;
    bool idle = false;
    std::thread thread;
  };

  void WorkUntilStopped(Planner& self);
  // Returns whether the plan may go on that was begun at `since`.
  bool MayGoOn(uint64_t ticket, Deadline::Clock::time_point since);
  absl::StatusOr<PlanAnswer> Make(PlanMaker* maker, const PlanTask& task, uint64_t ticket);
  // Returns what is to be told to whom; absent where the plan is to be made anew.
  bool EndsWith(uint64_t ticket, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::function<std::unique_ptr<PlanMaker>()> make_;
  absl::Mutex mutex_;
  PlanQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Work> works_ ABSL_GUARDED_BY(mutex_);  // by ticket
  std::vector<Planner*> idle_ ABSL_GUARDED_BY(mutex_);      // the last one was idle last
  uint64_t tickets_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Planner>> planners_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLANNER_POOL_H_
