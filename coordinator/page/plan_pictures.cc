#include "coordinator/page/plan_pictures.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/content_hash.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);

}  // namespace

absl::StatusOr<std::string> PlanPictures::Of(const std::string& job_id, const std::string& owner, std::string plan,
                                             std::shared_ptr<const RateTable> rates) {
  if (plan.size() > kMostPlanBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the plan of ", job_id, " has ", plan.size(),
                                                     " bytes; a page shows plans of at most ", kMostPlanBytes,
                                                     ": `adjoin plan --html FILE` draws it"));
  }
  const std::string key =
      absl::StrCat(job_id, " ", ContentHash::Of(plan), " ", rates == nullptr ? "" : rates->machine());
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [known, picture] : kept_) {
      if (known == key) return picture;
    }
  }
  PlanTask task;
  task.owner = owner;
  task.name = job_id;
  task.spec = std::make_shared<const SubmittedSpec>();
  task.rates = std::move(rates);
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
