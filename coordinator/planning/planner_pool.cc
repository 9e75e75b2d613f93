#include "coordinator/planning/planner_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/caught.h"

namespace adjoin {
namespace {

constexpr absl::Duration kIdle = absl::Seconds(60);
constexpr int kTries = 2;

absl::Duration Now() { return absl::FromChrono(Deadline::Clock::now().time_since_epoch()); }

// How much work a text seems to be: its bytes, once for each rank that it names. It is not parsed: that is the
// planners' business.
double GuessWork(const SubmittedSpec& spec) {
  if (spec.source.empty()) return static_cast<double>(spec.spec.ByteSizeLong()) * std::max(1u, spec.spec.ranks());
  double ranks = 1;
  const std::string& text = spec.source;
  const size_t name = text.find("ranks");
  if (name != std::string::npos) {
    size_t digit = text.find_first_not_of("\": \t\r\n", name + 5);
    double number = 0;
    for (; digit < text.size() && text[digit] >= '0' && text[digit] <= '9' && number < 1e6; ++digit) {
      number = number * 10 + (text[digit] - '0');
    }
    ranks = std::max(1.0, number);
  }
  return static_cast<double>(text.size()) * ranks;
}

absl::Status Stopped() { return absl::CancelledError("the coordinator stops: submit again"); }

}  // namespace

PlannerPool::PlannerPool(const Options& options, std::function<std::unique_ptr<PlanMaker>()> make)
    : options_(options), make_(std::move(make)), queue_([&options] {
        PlanQueue::Options queue = options.queue;
        queue.planners = options.planners;
        return queue;
      }()) {
  for (int i = 0; i < options_.planners; ++i) {
    planners_.push_back(std::make_unique<Planner>());
    Planner& planner = *planners_.back();
    planner.thread = std::thread([this, &planner] { WorkUntilStopped(planner); });
  }
}

PlannerPool::~PlannerPool() { Stop(); }

absl::StatusOr<uint64_t> PlannerPool::Start(PlanTask task, PlanDone done) {
  PlanQueue::Entry entry;
  entry.owner = task.owner;
  const size_t drawn = task.picture_of == nullptr ? 0 : task.picture_of->size();
  entry.work = GuessWork(*task.spec) + static_cast<double>(drawn);
  entry.bytes = task.spec->source.size() + drawn;
  entry.exempt = task.accepted;
  absl::MutexLock lock(&mutex_);
  if (stopping_) return Stopped();
  const uint64_t ticket = entry.ticket = ++tickets_;
  if (absl::Status added = queue_.Add(entry); !added.ok()) return added;
  Work& work = works_[ticket];
  work.task = std::move(task);
  work.done = std::move(done);
  work.entry = std::move(entry);
  WakeOne();
  return ticket;
}

void PlannerPool::WakeOne() {
  if (idle_.empty()) return;
  Planner* planner = idle_.back();
  idle_.pop_back();
  planner->idle = false;
  planner->wake.NotifyAll();
}

void PlannerPool::GiveUp(uint64_t ticket) {
  Work dropped;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    auto it = works_.find(ticket);
    if (it == works_.end()) return;
    it->second.given_up = true;
    if (!queue_.Remove(ticket)) return;
    dropped = std::move(it->second);
    works_.erase(it);
  }
}

void PlannerPool::Stop() {
  std::map<uint64_t, Work> left;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    left.swap(works_);
    for (const std::unique_ptr<Planner>& planner : planners_) planner->wake.NotifyAll();
  }
  for (const std::unique_ptr<Planner>& planner : planners_) {
    if (planner->thread.joinable()) planner->thread.join();
  }
  for (auto& [ticket, work] : left) work.done(Stopped());
}

size_t PlannerPool::waiting() {
  absl::MutexLock lock(&mutex_);
  return queue_.waiting();
}

bool PlannerPool::MayGoOn(uint64_t ticket, Deadline::Clock::time_point since) {
  const absl::Duration taken = absl::FromChrono(Deadline::Clock::now() - since);
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  auto it = works_.find(ticket);
  if (it == works_.end() || (it->second.given_up && taken >= options_.grace)) return false;
  return taken < options_.short_plan || queue_.MayGoOn(ticket);
}

absl::StatusOr<PlanAnswer> PlannerPool::Make(PlanMaker* maker, const PlanTask& task, uint64_t ticket) {
  const Deadline::Clock::time_point since = Deadline::Clock::now();
  return Caught(absl::StrCat("the planner of ", task.name),
                [&] { return maker->Make(task, [&] { return MayGoOn(ticket, since); }); });
}

bool PlannerPool::EndsWith(uint64_t ticket, const absl::Status& status) {
  Work& work = works_.find(ticket)->second;
  if (work.given_up || !(absl::IsCancelled(status) || absl::IsAborted(status))) return true;
  if (absl::IsAborted(status)) {
    // Perhaps the operator or the kernel killed the planner, or the sizes of an earlier job's files were too much for
    // it, through no fault of this spec.
    if (++work.tries >= kTries) return true;
    work.task.as_if_unseen = true;
  }
  work.entry = queue_.AsLong(std::move(work.entry));
  return !queue_.Add(work.entry).ok();
}

void PlannerPool::WorkUntilStopped(Planner& self) {
  const std::unique_ptr<PlanMaker> maker = make_();
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const std::optional<uint64_t> ticket = queue_.Take(Now());
    if (!ticket.has_value()) {
      self.idle = true;
      idle_.push_back(&self);
      auto woken = [this, &self]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !self.idle; };
      while (!self.wake.Wait(mutex_, Deadline::After(kIdle), woken)) {
      }
      continue;
    }
    const PlanTask task = works_.find(*ticket)->second.task;  // Stop takes the works away
    mutex_.Unlock();
    absl::StatusOr<PlanAnswer> answer = Make(maker.get(), task, *ticket);
    mutex_.Lock();
    queue_.End(*ticket, Now());
    if (stopping_ || !EndsWith(*ticket, answer.status())) continue;
    auto it = works_.find(*ticket);
    const PlanDone done = std::move(it->second.done);
    works_.erase(it);
    mutex_.Unlock();
    if (absl::IsAborted(answer.status())) answer = absl::InternalError(answer.status().message());
    if (answer.ok() && answer->error() != 0) {
      answer = absl::Status(static_cast<absl::StatusCode>(answer->error()), answer->message());
    }
    done(std::move(answer));
    mutex_.Lock();
  }
}

}  // namespace adjoin
