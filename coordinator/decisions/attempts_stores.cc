// Attempts: what daemons know better than the store. The rest is in attempts.cc.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/decisions/attempts.h"

namespace adjoin {
namespace {

// Where the store is found to be older than it was: other daemons may have seen even later numbers.
constexpr uint64_t kSkip = 1000;
constexpr uint64_t kMostSkipped = 1'000'000'000;  // beyond that a daemon reports nonsense

}  // namespace

// The time while no coordinator ran is known by the daemons only; wall clocks are set.
void Attempts::HasRun(JobRecord& job, double seconds) {
  Attempt& attempt = job.attempt;
  if (!attempt.restored || !attempt.connected || attempt.over || !(seconds > 0)) return;
  attempt.running_since = std::min(attempt.running_since, options_.Now() - absl::Seconds(seconds));
}

// True where the attempt is another store's. Its daemon ends it when it is welcomed, and connects again without it.
bool Attempts::IsForeign(const AttemptReport& report) const {
  return report.store_id() != 0 && report.store_id() != store_id_;
}

// A daemon that ran later attempts than this store has given shows that the store is older than it was: the whole state
// folder was put back, its journal included. No number that was given may be given again.
void Attempts::GoBeyond(const WorkerHello& hello) {
  uint64_t epoch = 0, number = 0;
  for (const AttemptReport& report : hello.attempt()) {
    if (report.store_id() != store_id_ || report.epoch() <= epoch) continue;
    epoch = report.epoch();
    number = JobNumberOf(report.job_id());
  }
  if (store_id_ == 0 || epoch <= last_epoch_ || epoch - last_epoch_ > kMostSkipped) return;
  outbox_.Log(absl::StrCat("the store is older than it was: worker ", hello.name(), " had attempt ", epoch, " of job-",
                           number, ", and the last one in the store is ", last_epoch_,
                           ". What came between is lost; numbers go on well beyond it"));
  last_epoch_ = epoch + kSkip;
  outbox_.EpochGiven(last_epoch_);
  if (number > kMostSkipped) return;
  jobs_.SkipTo(std::max(number, jobs_.next_number()) + kSkip);
  outbox_.NumberGiven(jobs_.next_number() - 1);
}

}  // namespace adjoin
