#include "coordinator/planning/spec_planner.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "base/wait_unless_gone.h"

namespace adjoin {
namespace {

struct Waiting {
  absl::Mutex mutex;
  MonotonicCondition changed;
  std::optional<absl::StatusOr<PlanAnswer>> answer ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::StatusOr<PlanAnswer> PlanAndWait(SpecPlanner& planner, PlanTask task, const std::function<bool()>& given_up) {
  // The planner may call after this function has given up.
  const auto waiting = std::make_shared<Waiting>();
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t ticket,
                          planner.Start(std::move(task), [waiting](absl::StatusOr<PlanAnswer> answer) {
                            {
                              absl::MutexLock lock(&waiting->mutex);
                              waiting->answer = std::move(answer);
                            }
                            waiting->changed.NotifyAll();
                          }));
  {
    absl::MutexLock lock(&waiting->mutex);
    auto answered = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(waiting->mutex) { return waiting->answer.has_value(); };
    if (WaitUntilGone(waiting->changed, waiting->mutex, given_up, answered)) return *std::move(waiting->answer);
  }
  planner.GiveUp(ticket);
  return absl::CancelledError("the plan was given up");
}

}  // namespace adjoin
