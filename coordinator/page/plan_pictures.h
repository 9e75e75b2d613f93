// Pictures of jobs' plans, drawn by a planner process: a plan is made of what users wrote.
//
//   PlanPictures pictures(planner);
//   ADJOIN_ASSIGN_OR_RETURN(const std::string html, pictures.Of({.job_id = "job-17", ...}, [&] { return read(); }));
//
// The newest are kept, and a plan is read only where there is a picture to draw: those that are too large are known
// once they have been read. The caller checks who may see it. Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_
#define ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_

#include <cstddef>
#include <deque>
#include <functional>
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
  static constexpr size_t kMostKnown = 1000;                  // plans that are too large

  struct Wanted {
    std::string job_id;
    std::string plan_hash;                   // as the job's description has it; a plan of the same is the same
    std::string owner;                       // whose share of the planners it uses
    std::shared_ptr<const RateTable> rates;  // may be null
  };
  using ReadPlan = std::function<absl::StatusOr<std::string>()>;

  // `planner` outlives the object.
  explicit PlanPictures(SpecPlanner& planner) : planner_(planner) {}

  // Errors: those of `read`; kResourceExhausted (the plan or its picture is too large: `adjoin plan --html` draws it;
  // too many wait), kDeadlineExceeded (it takes longer than 20 s), those of PlanHtml.
  absl::StatusOr<std::string> Of(const Wanted& wanted, const ReadPlan& read);

 private:
  SpecPlanner& planner_;
  absl::Mutex mutex_;
  std::deque<std::pair<std::string, std::string>> kept_ ABSL_GUARDED_BY(mutex_);  // key and picture, newest last
  std::deque<std::pair<std::string, size_t>> too_large_ ABSL_GUARDED_BY(mutex_);  // key and bytes, newest last
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_PLAN_PICTURES_H_
