#include "coordinator/services/hub.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "coordinator/planning/plan_answer.h"
#include "coordinator/services/metrics.h"
#include "coordinator/store/apply_by_job.h"

namespace adjoin {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kCommitRetry = absl::Milliseconds(500);
// How long the threads wait for work before they look again.
constexpr absl::Duration kIdle = absl::Seconds(60);
// Lines that wait for the log; more are lost.
constexpr size_t kMaxNotes = 100000;

absl::Status NotKept(const absl::Status& health) {
  return absl::UnavailableError(
      absl::StrCat(std::string(health.message()), "; what was asked for is done, but a crash could take it back"));
}

}  // namespace

Hub::Hub(CoordinationOptions options, Store* store, SpecPlanner* planner, StoredState state,
         const CoordinationService::PlaceFunctions& place_of,
         std::function<void(const std::string& job_id)> on_forgotten)
    : store_(store),
      planner_(planner),
      on_forgotten_(std::move(on_forgotten)),
      service_(std::move(options)),
      commit_seconds_(CommitSecondsBounds()) {
  absl::MutexLock lock(&mutex_);
  service_.Restore(std::move(state), place_of);
  Collect();
  clock_ = std::thread([this] { TickUntilStopped(); });
  committer_ = std::thread([this] { CommitUntilStopped(); });
  scribe_ = std::thread([this] { WriteNotesUntilStopped(); });
}

Hub::~Hub() {
  planner_->Stop();  // from now on it calls no more
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  work_.NotifyAll();
  tick_.NotifyAll();
  clock_.join();
  committer_.join();
  {
    absl::MutexLock lock(&notes_mutex_);
    notes_end_ = true;
  }
  noted_.NotifyAll();
  scribe_.join();
}

// ---------------------------------------------------------------------------------------------------------------------
// From decisions to the store, and from there to the daemons

void Hub::Tell(std::vector<Note> notes) {
  if (notes.empty()) return;
  {
    absl::MutexLock lock(&notes_mutex_);
    for (Note& note : notes) {
      if (notes_.size() < kMaxNotes) {
        notes_.push_back(std::move(note));
      } else {
        ++notes_lost_;
      }
    }
  }
  noted_.NotifyAll();
}

void Hub::Collect() {
  std::vector<Note> told;
  for (Note& note : service_.TakeNotes()) {
    (note.submission != 0 ? held_notes_ : told).push_back(std::move(note));
  }
  Tell(std::move(told));
  for (const std::string& job_id : service_.TakeForgotten()) on_forgotten_(job_id);
  for (PlanRequest& request : service_.TakePlanRequests()) StartPlan(std::move(request));
  for (const std::string& job_id : service_.TakeDroppedPlans()) {
    if (auto plan = plans_.extract(job_id); !plan.empty()) planner_->GiveUp(plan.mapped());
  }
  StoreChanges changes = service_.TakeChanges();
  std::vector<Action> actions = service_.TakeActions();
  auto first_held = std::stable_partition(actions.begin(), actions.end(), [](const Action& a) { return a.urgent; });
  std::move(first_held, actions.end(), std::back_inserter(held_actions_));
  actions.erase(first_held, actions.end());
  Dispatch(actions);
  if (!changes.empty()) {
    uncommitted_.Append(std::move(changes));
    ++collected_;
  }
  if (!uncommitted_.empty() || !held_actions_.empty()) work_.NotifyAll();
  // Last: who is woken looks at what is collected.
  for (const auto& [job_id, change] : service_.TakeTouched()) watches_.Note(job_id, change);
}

void Hub::Dispatch(std::vector<Action>& actions) {
  for (Action& action : actions) {
    auto link = links_.find(action.to);
    if (link == links_.end()) continue;
    action.close ? link->second->Break() : link->second->Send(std::move(action.message));
  }
}

void Hub::AttachPlans(std::vector<Action>& actions) {
  uint64_t read = 0;
  absl::StatusOr<std::string> plan;  // of `read`: the orders of an attempt follow each other
  for (Action& action : actions) {
    if (action.plan_of == 0) continue;
    if (read != action.plan_of) plan = store_->Plan(read = action.plan_of);
    if (plan.ok()) {
      action.message.mutable_start_ranks()->set_plan(*plan);
    } else {
      LogError(std::string(plan.status().message()));  // the daemon will report that it cannot read the plan
    }
  }
}

void Hub::CommitOnce() {
  StoreChanges changes = std::exchange(uncommitted_, {});
  std::vector<Action> actions = std::exchange(held_actions_, {});
  std::vector<Note> notes = std::exchange(held_notes_, {});
  const uint64_t upto = collected_;
  const bool healthy = store_health_.ok();
  mutex_.Unlock();
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  std::vector<RefusedJob> refused;
  std::optional<StoreChanges> left;
  const bool any = !changes.empty();
  absl::Status status = any       ? ApplyByJob(*store_, changes, &refused, &left)
                        : healthy ? absl::OkStatus()
                                  : store_->TryToWrite();
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - begin).count();
  if (status.ok()) AttachPlans(actions);
  mutex_.Lock();
  if (status.ok()) {
    if (!store_health_.ok()) LogInfo("the store can be written again");
    store_health_ = absl::OkStatus();
    service_.SetStoreHealth(absl::OkStatus());
    committed_ = upto;
    if (any) commit_seconds_.Observe(seconds);
    TakeOutRefused(refused, changes.submissions, actions, notes);
    Tell(std::move(notes));
    Dispatch(actions);
    service_.Durable(changes.submissions);
    commit_waiters_.Tell(upto, absl::OkStatus());
    Collect();
    return;
  }
  TakeOutRefused(refused, changes.submissions, actions, notes);
  if (left.has_value()) {  // the rest is written
    const auto is_left = [&](const StoredSubmission& row) {
      return std::any_of(left->submissions.begin(), left->submissions.end(),
                         [&](const StoredSubmission& other) { return other.job() == row.job(); });
    };
    std::vector<StoredSubmission>& written = changes.submissions;
    written.erase(std::remove_if(written.begin(), written.end(), is_left), written.end());
    service_.Durable(written);
    changes = *std::move(left);
  }
  // The changes wait again, and those that came meanwhile come after them.
  changes.Append(std::exchange(uncommitted_, {}));
  // A store may stay full for days, in which running jobs report their progress again and again.
  changes.DropReplaced();
  uncommitted_ = std::move(changes);
  std::move(held_actions_.begin(), held_actions_.end(), std::back_inserter(actions));
  held_actions_ = std::move(actions);
  std::move(held_notes_.begin(), held_notes_.end(), std::back_inserter(notes));
  held_notes_ = std::move(notes);
  AfterFailedCommit(status, upto);
}

void Hub::TakeOutRefused(const std::vector<RefusedJob>& refused, const std::vector<StoredSubmission>& submissions,
                         std::vector<Action>& actions, std::vector<Note>& notes) {
  for (const RefusedJob& job : refused) {
    LogError(absl::StrCat("job-", job.number,
                          ": its rows cannot be written, all others are: ", std::string(job.why.message())));
    const auto is_its_start = [&](const Action& action) { return action.plan_of == job.number; };
    actions.erase(std::remove_if(actions.begin(), actions.end(), is_its_start), actions.end());
    const auto is_its_note = [&](const Note& note) { return note.submission == job.number; };
    notes.erase(std::remove_if(notes.begin(), notes.end(), is_its_note), notes.end());
    const auto submitted = std::find_if(submissions.begin(), submissions.end(),
                                        [&](const StoredSubmission& row) { return row.job() == job.number; });
    if (submitted == submissions.end()) {
      service_.FailUnwritable(job.number, job.why);
    } else {
      uncommitted_.Withdraw({job.number});
      service_.Withdraw({*submitted}, absl::InvalidArgumentError(
                                          absl::StrCat("the job cannot be stored: ", std::string(job.why.message()))));
    }
  }
}

void Hub::AfterFailedCommit(const absl::Status& error, uint64_t upto) {
  failed_ = upto;
  if (store_health_.ok()) LogError(std::string(error.message()));
  store_health_ = error;
  service_.SetStoreHealth(error);
  // No user was told that these were accepted.
  const std::vector<StoredSubmission> refused = std::exchange(uncommitted_.submissions, {});
  std::vector<uint64_t> numbers;
  for (const StoredSubmission& submission : refused) numbers.push_back(submission.job());
  uncommitted_.Withdraw(numbers);
  const auto is_refused = [&](const Note& note) {
    return std::find(numbers.begin(), numbers.end(), note.submission) != numbers.end();
  };
  held_notes_.erase(std::remove_if(held_notes_.begin(), held_notes_.end(), is_refused), held_notes_.end());
  service_.Withdraw(refused,
                    absl::UnavailableError(absl::StrCat("no job can be accepted now: ", std::string(error.message()))));
  // A stop cannot wait for the store. It is sent again in its turn, after the start that it may undo.
  std::vector<Action> stops;
  for (Action& action : held_actions_) {
    if (!action.message.has_stop_attempt() || std::exchange(action.sent_early, true)) continue;
    stops.push_back(action);
  }
  Dispatch(stops);
  commit_waiters_.Tell(upto, NotKept(error));
  for (const auto& [job_id, change] : service_.TakeTouched()) watches_.Note(job_id, change);
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

std::shared_ptr<CommitWaiter> Hub::AwaitCollected() {
  if (committed_ >= collected_) return nullptr;
  std::shared_ptr<CommitWaiter> waiter = commit_waiters_.Add(collected_);
  if (failed_ >= collected_) commit_waiters_.Tell(collected_, NotKept(store_health_));
  return waiter;
}

absl::Status Hub::Committed(CommitWaiter* waiter, Deadline deadline) {
  if (waiter == nullptr) return absl::OkStatus();
  absl::Status status = waiter->Wait(deadline);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::UnavailableError("the store does not answer: what was asked for may or may not be done");
}

// ---------------------------------------------------------------------------------------------------------------------
// Plans and time

void Hub::StartPlan(PlanRequest request) {
  PlanTask task;
  task.owner = std::move(request.owner);
  task.name = request.job_id;
  task.spec = std::move(request.written);
  task.sizes = std::move(request.sizes);
  task.output_dir = std::move(request.output_dir);
  task.weights = std::move(request.weights);
  task.weights_file = std::move(request.weights_file);
  task.rates = service_.RatesOfMost();
  task.accepted = true;
  // Set before the answer, which waits for the lock.
  const auto own = std::make_shared<uint64_t>(0);
  absl::StatusOr<uint64_t> ticket =
      planner_->Start(std::move(task), [this, own, job_id = request.job_id](absl::StatusOr<PlanAnswer> answer) {
        OnPlanned(job_id, *own, std::move(answer));
      });
  if (!ticket.ok()) return;  // the planners are stopped: the next start plans it
  *own = plans_[request.job_id] = *ticket;
}

void Hub::OnPlanned(const std::string& job_id, const uint64_t& ticket, absl::StatusOr<PlanAnswer> answer) {
  absl::MutexLock lock(&mutex_);
  const auto plan = plans_.find(job_id);
  if (plan == plans_.end() || plan->second != ticket) return;  // it was given up
  plans_.erase(plan);
  if (absl::IsCancelled(answer.status())) return;  // the coordinator stops, or the job is gone
  if (!answer.ok()) {
    service_.Planned(job_id, answer.status());
  } else {
    service_.Planned(job_id, PlannedJobOf(*answer));
  }
  Collect();
}

void Hub::TickUntilStopped() {
  absl::MutexLock lock(&mutex_);
  while (!Wait(tick_, kTick, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    if (service_.Tick()) Collect();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The log and the daemons

void Hub::WriteNotesUntilStopped() {
  absl::MutexLock lock(&notes_mutex_);
  const auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(notes_mutex_) { return notes_end_ || !notes_.empty(); };
  while (true) {
    if (!noted_.Wait(notes_mutex_, Deadline::After(kIdle), work)) continue;
    if (notes_.empty()) return;  // the end, and all is written
    const std::deque<Note> notes = std::exchange(notes_, {});
    const uint64_t lost = std::exchange(notes_lost_, 0);
    notes_mutex_.Unlock();
    for (const Note& note : notes) LogInfo(note.text, {.job = note.job_id, .attempt = note.epoch});
    if (lost > 0) LogWarning(absl::StrCat(lost, " lines are missing here: the log is written too slowly"));
    notes_mutex_.Lock();
  }
}

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

}  // namespace adjoin
