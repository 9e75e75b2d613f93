// Pictures of jobs' plans, drawn by a planner process: a plan is made of what users wrote.
//
//   PlanPictures pictures(planner);
//   ADJOIN_ASSIGN_OR_RETURN(const std::string html, pictures.Of("job-17", "alice", plan, rates));
//
// The newest are kept. Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_
#define ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/planning/spec_planner.h"
#include "proto/rates.pb.h"

namespace adjoin {

class PlanPictures {
 public:
  static constexpr size_t kMostPlanBytes = size_t{32} << 20;  // of a plan that is drawn
  static constexpr size_t kMostKeptBytes = size_t{32} << 20;  // of all pictures together

  // `planner` outlives the object.
  explicit PlanPictures(SpecPlanner& planner) : planner_(planner) {}

  // `owner`: whose share of the planners it uses. `rates` may be null. Errors: kResourceExhausted (the plan or its
  // picture is too large: `adjoin plan --html` draws it; too many wait), kDeadlineExceeded (it takes longer than 20 s),
  // those of PlanHtml.
  absl::StatusOr<std::string> Of(const std::string& job_id, const std::string& owner, std::string plan,
                                 std::shared_ptr<const RateTable> rates);

 private:
  SpecPlanner& planner_;
  absl::Mutex mutex_;
  std::deque<std::pair<std::string, std::string>> kept_ ABSL_GUARDED_BY(mutex_);  // key and picture, newest last
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_
