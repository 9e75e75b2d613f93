#include "coordinator/services/hub.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "coordinator/services/metrics.h"

namespace adjoin {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kCommitRetry = absl::Milliseconds(500);
// How long the threads wait for work before they look again.
constexpr absl::Duration kIdle = absl::Seconds(60);

}  // namespace

Hub::Hub(CoordinationOptions options, Store* store, StoredState state,
         const std::function<CoordinationService::SpecFunctions(const StoredSubmission&)>& functions,
         std::function<void(const std::string& job_id)> on_forgotten)
    : store_(store),
      on_forgotten_(std::move(on_forgotten)),
      service_(std::move(options)),
      commit_seconds_(CommitSecondsBounds()) {
  absl::MutexLock lock(&mutex_);
  service_.Restore(std::move(state), functions);
  Collect();
  clock_ = std::thread([this] { TickUntilStopped(); });
  committer_ = std::thread([this] { CommitUntilStopped(); });
  planner_ = std::thread([this] { PlanUntilStopped(); });
}

Hub::~Hub() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  tick_.NotifyAll();
  clock_.join();
  planner_.join();
  committer_.join();
}

// ---------------------------------------------------------------------------------------------------------------------
// From decisions to the store, and from there to the daemons

void Hub::Collect(bool always_wake) {
  for (const Note& note : service_.TakeNotes()) LogInfo(note.text, {.job = note.job_id, .attempt = note.epoch});
  for (const std::string& job_id : service_.TakeForgotten()) on_forgotten_(job_id);
  for (PlanRequest& request : service_.TakePlanRequests()) plan_requests_.push_back(std::move(request));
  StoreChanges changes = service_.TakeChanges();
  std::vector<Action> actions = service_.TakeActions();
  auto first_held = std::stable_partition(actions.begin(), actions.end(), [](const Action& a) { return a.urgent; });
  std::move(first_held, actions.end(), std::back_inserter(held_actions_));
  actions.erase(first_held, actions.end());
  Dispatch(actions);
  if (always_wake || !changes.empty()) {
    ++changes_count_;
    changed_.NotifyAll();
  }
  if (!changes.empty()) {
    uncommitted_.Append(std::move(changes));
    ++collected_;
  }
  if (!uncommitted_.empty() || !held_actions_.empty() || !plan_requests_.empty()) work_.NotifyAll();
}

void Hub::Dispatch(std::vector<Action>& actions) {
  for (Action& action : actions) {
    auto link = links_.find(action.to);
    if (link == links_.end()) continue;
    action.close ? link->second->Break() : link->second->Send(std::move(action.message));
  }
}

void Hub::AttachPlans(std::vector<Action>& actions) {
  for (Action& action : actions) {
    if (action.plan_of == 0) continue;
    absl::StatusOr<std::string> plan = store_->Plan(action.plan_of);
    if (plan.ok()) {
      action.message.mutable_start_ranks()->set_plan(*std::move(plan));
    } else {
      LogError(std::string(plan.status().message()));  // the daemon will report that it cannot read the plan
    }
  }
}

void Hub::CommitOnce() {
  StoreChanges changes = std::exchange(uncommitted_, {});
  std::vector<Action> actions = std::exchange(held_actions_, {});
  const uint64_t upto = collected_;
  const bool healthy = store_health_.ok();
  mutex_.Unlock();
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  absl::Status status = !changes.empty() ? store_->Apply(changes) : healthy ? absl::OkStatus() : store_->TryToWrite();
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - begin).count();
  if (status.ok()) AttachPlans(actions);
  mutex_.Lock();
  if (status.ok()) {
    if (!store_health_.ok()) LogInfo("the store can be written again");
    store_health_ = absl::OkStatus();
    service_.SetStoreWritable(true);
    committed_ = upto;
    if (!changes.empty()) commit_seconds_.Observe(seconds);
    Dispatch(actions);
    service_.Durable(changes.submissions);
    Collect();  // also wakes those who wait for the commit
    return;
  }
  // The changes wait again, and those that came meanwhile come after them.
  changes.Append(std::exchange(uncommitted_, {}));
  // A store may stay full for days, in which running jobs report their progress again and again.
  changes.DropReplaced();
  uncommitted_ = std::move(changes);
  std::move(held_actions_.begin(), held_actions_.end(), std::back_inserter(actions));
  held_actions_ = std::move(actions);
  AfterFailedCommit(status, upto);
}

void Hub::AfterFailedCommit(const absl::Status& error, uint64_t upto) {
  failed_ = upto;
  if (store_health_.ok()) LogError(std::string(error.message()));
  store_health_ = error;
  service_.SetStoreWritable(false);
  // No user was told that these were accepted.
  const std::vector<StoredSubmission> refused = std::exchange(uncommitted_.submissions, {});
  std::vector<uint64_t> numbers;
  for (const StoredSubmission& submission : refused) numbers.push_back(submission.job());
  uncommitted_.Withdraw(numbers);
  service_.Withdraw(refused,
                    absl::UnavailableError(absl::StrCat("no job can be accepted now: ", std::string(error.message()))));
  // A stop cannot wait for the store. It is sent again in its turn, after the start that it may undo.
  std::vector<Action> stops;
  for (Action& action : held_actions_) {
    if (!action.message.has_stop_attempt() || std::exchange(action.sent_early, true)) continue;
    stops.push_back(action);
  }
  Dispatch(stops);
  ++changes_count_;
  changed_.NotifyAll();
}

void Hub::CommitUntilStopped() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    if (store_health_.ok()) {
      auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !uncommitted_.empty() || !held_actions_.empty();
      };
      if (!Wait(work_, kIdle, work)) continue;
    } else {
      Wait(work_, kCommitRetry, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
    if (stopping_ && uncommitted_.empty() && held_actions_.empty()) return;  // all is kept
    CommitOnce();
    if (stopping_ && !store_health_.ok()) return;  // that was the last try
  }
}

absl::Status Hub::WaitUntilCommitted(uint64_t upto, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return committed_ >= upto || failed_ >= upto; };
  const bool in_time = Wait(changed_, deadline.Remaining(), done);
  if (committed_ >= upto) return absl::OkStatus();
  if (!in_time) return absl::UnavailableError("the store does not answer: what was asked for may or may not be done");
  return absl::UnavailableError(absl::StrCat(std::string(store_health_.message()),
                                             "; what was asked for is done, but a crash could take it back"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Plans and time

void Hub::PlanUntilStopped() {
  absl::MutexLock lock(&mutex_);
  auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !plan_requests_.empty(); };
  while (true) {
    if (!Wait(work_, kIdle, work)) continue;
    if (stopping_) return;
    PlanRequest request = std::move(plan_requests_.front());
    plan_requests_.pop_front();
    mutex_.Unlock();
    absl::StatusOr<PlannedJob> planned = request.plan_function(request.sizes);
    mutex_.Lock();
    service_.Planned(request.job_id, std::move(planned));
    Collect();
  }
}

void Hub::TickUntilStopped() {
  absl::MutexLock lock(&mutex_);
  while (!Wait(tick_, kTick, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    if (service_.Tick()) Collect();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Daemons and changes

ConnectionId Hub::Attach(DaemonConnection* connection) {
  absl::MutexLock lock(&mutex_);
  links_[++last_connection_] = connection;
  return last_connection_;
}

void Hub::Detach(ConnectionId id) {
  absl::MutexLock lock(&mutex_);
  links_.erase(id);
}

bool Hub::SendTo(ConnectionId id, CoordinatorMessage message) {
  absl::MutexLock lock(&mutex_);
  auto link = links_.find(id);
  if (link == links_.end()) return false;
  link->second->Send(std::move(message));
  return true;
}

uint64_t Hub::changes() {
  absl::MutexLock lock(&mutex_);
  return changes_count_;
}

void Hub::WaitForChange(uint64_t seen, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changes_count_ != seen; };
  Wait(changed_, deadline.Remaining(), changed);
}

void Hub::NoteChange() {
  absl::MutexLock lock(&mutex_);
  ++changes_count_;
  changed_.NotifyAll();
}

}  // namespace adjoin
