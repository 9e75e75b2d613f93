#include "coordinator/hub.h"

#include <utility>

#include "base/logging.h"

namespace adjoin {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);

}  // namespace

void Outbox::Push(CoordinatorMessage message) {
  absl::MutexLock lock(&mutex_);
  if (!closed_) messages_.push_back(std::move(message));
}

std::optional<CoordinatorMessage> Outbox::Pop() {
  absl::MutexLock lock(&mutex_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !messages_.empty(); };
  mutex_.Await(absl::Condition(&ready));
  if (closed_) return std::nullopt;
  CoordinatorMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void Outbox::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

Hub::Hub(CoordinationOptions options, std::function<void(const std::string& job_id)> on_forgotten)
    : on_forgotten_(std::move(on_forgotten)),
      service_(std::move(options)),
      clock_([this] { TickUntilStopped(); }) {}

Hub::~Hub() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  clock_.join();
}

void Hub::TickUntilStopped() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) {
    if (service_.Tick()) Dispatch();
  }
}

void Hub::Dispatch() {
  for (const std::string& note : service_.TakeNotes()) LogInfo(note);
  for (const std::string& job_id : service_.TakeForgotten()) on_forgotten_(job_id);
  for (Action& action : service_.TakeActions()) {
    auto link = links_.find(action.to);
    if (link == links_.end()) continue;
    if (action.close) {
      link->second.outbox->Close();
      link->second.cancel();
    } else {
      link->second.outbox->Push(std::move(action.message));
    }
  }
  ++changes_;
}

Hub::Connection Hub::Attach(std::function<void()> cancel) {
  absl::MutexLock lock(&mutex_);
  Connection connection{++last_connection_, std::make_shared<Outbox>()};
  links_[connection.id] = Link{connection.outbox, std::move(cancel)};
  return connection;
}

void Hub::Detach(ConnectionId id) {
  absl::MutexLock lock(&mutex_);
  auto link = links_.find(id);
  if (link == links_.end()) return;
  link->second.outbox->Close();
  links_.erase(link);
}

bool Hub::SendTo(ConnectionId id, CoordinatorMessage message) {
  absl::MutexLock lock(&mutex_);
  auto link = links_.find(id);
  if (link == links_.end()) return false;
  link->second.outbox->Push(std::move(message));
  return true;
}

uint64_t Hub::changes() {
  absl::MutexLock lock(&mutex_);
  return changes_;
}

void Hub::WaitForChange(uint64_t seen, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changes_ != seen; };
  mutex_.AwaitWithTimeout(absl::Condition(&changed), deadline.Remaining());
}

void Hub::NoteChange() {
  absl::MutexLock lock(&mutex_);
  ++changes_;
}

}  // namespace adjoin
