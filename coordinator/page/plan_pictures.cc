#include "coordinator/page/plan_pictures.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);

absl::Status TooLarge(const std::string& job_id, size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the plan of ", job_id, " has ", bytes, " bytes; a page shows plans of at most ",
                   PlanPictures::kMostPlanBytes, ": `adjoin plan --html FILE` draws it"));
}

}  // namespace

absl::StatusOr<std::string> PlanPictures::Of(const Wanted& wanted, const ReadPlan& read) {
  const std::string& job_id = wanted.job_id;
  const std::string plan_key = absl::StrCat(job_id, " ", wanted.plan_hash);
  const std::string key = absl::StrCat(plan_key, " ", wanted.rates == nullptr ? "" : wanted.rates->machine());
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [known, picture] : kept_) {
      if (known == key) return picture;
    }
    for (const auto& [known, bytes] : too_large_) {
      if (known == plan_key) return TooLarge(job_id, bytes);
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(std::string plan, read());
  if (plan.size() > kMostPlanBytes) {
    absl::MutexLock lock(&mutex_);
    too_large_.emplace_back(plan_key, plan.size());
    if (too_large_.size() > kMostKnown) too_large_.pop_front();
    return TooLarge(job_id, plan.size());
  }
  PlanTask task;
  task.owner = wanted.owner;
  task.name = job_id;
  task.spec = std::make_shared<const SubmittedSpec>();
  task.rates = wanted.rates;
  task.picture_of = std::make_shared<const std::string>(std::move(plan));
  const Deadline deadline = Deadline::After(kLimit);
  absl::StatusOr<PlanAnswer> answer = PlanAndWait(planner_, std::move(task), [&] { return deadline.Expired(); });
  if (absl::IsCancelled(answer.status()) && deadline.Expired()) {
    return absl::DeadlineExceededError(absl::StrCat("the picture of the plan of ", job_id, " takes longer than ",
                                                    absl::FormatDuration(kLimit),
                                                    ": `adjoin plan --html FILE` draws it without a limit"));
  }
  ADJOIN_RETURN_IF_ERROR(answer.status());
  std::string picture = std::move(*answer->mutable_picture());
  absl::MutexLock lock(&mutex_);
  kept_.emplace_back(key, picture);
  kept_bytes_ += picture.size();
  while (kept_bytes_ > kMostKeptBytes && !kept_.empty()) {
    kept_bytes_ -= kept_.front().second.size();
    kept_.pop_front();
  }
  return picture;
}

}  // namespace adjoin
