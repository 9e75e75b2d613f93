#include "worker/daemon/mount_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/daemon/mount_points.h"

namespace adjoin {
namespace {

// How long the clock waits for a call before it looks again.
constexpr absl::Duration kIdle = absl::Hours(1);
// Between tries to start a thread where none could be.
constexpr absl::Duration kBetweenTries = absl::Seconds(1);

}  // namespace

MountCalls::MountCalls(std::vector<std::string> roots, Limits limits, DetachedCalls::StartThread start_thread)
    : shared_(std::make_shared<Shared>()), threads_(limits.in_all, std::move(start_thread)) {
  shared_->roots = std::move(roots);
  shared_->limits = limits;
  clock_ = std::thread([this] { EndLateCalls(); });
}

MountCalls::~MountCalls() {
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->stopping = true;
    for (auto& [id, call] : shared_->calls) {
      call.done = nullptr;  // those that wait for room end
      call.call = nullptr;
    }
  }
  shared_->changed.NotifyAll();
  clock_.join();
}

size_t MountCalls::CountWaiting(const Shared& shared) {
  return std::count_if(shared.calls.begin(), shared.calls.end(),
                       [](const auto& each) { return each.second.call != nullptr; });
}

size_t MountCalls::CountAt(const Shared& shared, const std::string& mount_point) {
  return std::count_if(shared.calls.begin(), shared.calls.end(),
                       [&](const auto& each) { return each.second.mount_point == mount_point; });
}

absl::Status MountCalls::Late(const Shared& shared, const OneCall& call) {
  const std::string limit = absl::FormatDuration(call.time);
  if (call.call != nullptr && shared.again.has_value()) {
    return absl::AbortedError(absl::StrCat("no thread could be started for it within ", limit,
                                           ": has the machine memory and processes left?"));
  }
  if (call.call != nullptr) {
    return absl::DeadlineExceededError(absl::StrCat(shared.calls.size() - CountWaiting(shared),
                                                    " others, for which it waited, are still at their files after ",
                                                    limit, ": do the file systems there answer?"));
  }
  if (!call.waits_for.empty()) {
    return absl::DeadlineExceededError(absl::StrCat(CountAt(shared, call.waits_for),
                                                    " others are still at the file system at ", call.waits_for,
                                                    " after ", limit, ": does it answer?"));
  }
  return absl::DeadlineExceededError(
      call.mount_point.empty()
          ? absl::StrCat("it did not end within ", limit, ": do the file systems there answer?")
          : absl::StrCat("the file system at ", call.mount_point, " did not answer within ", limit));
}

absl::Status MountCalls::EnterMount(Shared& shared, uint64_t id, const std::string& mount_point) {
  absl::MutexLock lock(&shared.mutex);
  OneCall& call = shared.calls.at(id);
  const bool stays = call.mount_point == mount_point && call.done != nullptr;
  if (stays) return absl::OkStatus();
  if (!call.mount_point.empty()) {
    call.mount_point.clear();
    shared.changed.NotifyAll();
  }
  const auto is_over = [&call] { return call.done == nullptr; };
  const absl::Status over = absl::DeadlineExceededError("nothing waits for it any more");
  if (is_over()) return over;
  if (mount_point.empty()) return absl::OkStatus();
  const auto has_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return CountAt(shared, mount_point) < shared.limits.of_one_mount;
  };
  if (!has_room()) {
    const size_t waiting = std::count_if(shared.calls.begin(), shared.calls.end(),
                                         [&](const auto& each) { return each.second.waits_for == mount_point; });
    if (waiting >= shared.limits.waiting_for_one) {
      return absl::DeadlineExceededError(absl::StrCat(CountAt(shared, mount_point) + waiting,
                                                      " others wait for the file system at ", mount_point,
                                                      " already: does it answer?"));
    }
    call.waits_for = mount_point;
    const bool in_time = shared.changed.Wait(
        shared.mutex, call.late, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) { return is_over() || has_room(); });
    const absl::Status late = in_time ? over : Late(shared, call);
    call.waits_for.clear();
    if (!in_time || is_over()) return late;
  }
  call.mount_point = mount_point;
  return absl::OkStatus();
}

MountCalls::Done MountCalls::Take(uint64_t id) {
  Done done;
  {
    absl::MutexLock lock(&shared_->mutex);
    const auto call = shared_->calls.find(id);
    done = std::move(call->second.done);
    shared_->calls.erase(call);
    if (!shared_->stopping) BeginWaiting();
  }
  shared_->changed.NotifyAll();
  return done;
}

void MountCalls::BeginWaiting() {
  shared_->again.reset();
  for (auto& each : shared_->calls) {
    const uint64_t id = each.first;
    OneCall& waiting = each.second;
    if (waiting.call == nullptr) continue;
    const absl::Status begun = threads_.Call(
        [shared = shared_, id, call = waiting.call] {
          const MountPoints mounts = MountPoints::Read();
          const absl::Status status = (*call)(
              [&](const std::string& path) { return EnterMount(*shared, id, mounts.OfBelow(shared->roots, path)); });
          absl::MutexLock lock(&shared->mutex);
          shared->calls.at(id).mount_point.clear();
          shared->changed.NotifyAll();
          return status;
        },
        [this, id](const absl::Status& status) {
          if (const Done done = Take(id); done != nullptr) done(status);
        });
    if (absl::IsUnavailable(begun)) shared_->again = Deadline::After(kBetweenTries);
    if (!begun.ok()) return;
    waiting.call = nullptr;
  }
}

absl::StatusOr<uint64_t> MountCalls::Call(std::function<absl::Status(const Enter&)> call, Done done,
                                          std::optional<absl::Duration> time) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&shared_->mutex);
    id = ++shared_->begun;
    const absl::Duration limit = time.value_or(shared_->limits.time);
    auto waiting = std::make_shared<const std::function<absl::Status(const Enter&)>>(std::move(call));
    shared_->calls.emplace(
        id,
        OneCall{.late = Deadline::After(limit), .time = limit, .done = std::move(done), .call = std::move(waiting)});
    BeginWaiting();
    const bool waits = shared_->calls.at(id).call != nullptr;
    if (waits && shared_->again.has_value()) {
      shared_->calls.erase(id);
      return absl::UnavailableError("no thread can be started for it: has the machine memory and processes left?");
    }
    if (waits && CountWaiting(*shared_) > shared_->limits.waiting_for_thread) {
      shared_->calls.erase(id);
      return absl::ResourceExhaustedError("too many others are at their files, or wait for them");
    }
  }
  shared_->changed.NotifyAll();
  return id;
}

void MountCalls::Drop(uint64_t id) {
  Done done;  // destroyed without the lock, as is what waits
  std::shared_ptr<const std::function<absl::Status(const Enter&)>> waiting;
  {
    absl::MutexLock lock(&shared_->mutex);
    const auto call = shared_->calls.find(id);
    if (call == shared_->calls.end()) return;
    done = std::exchange(call->second.done, nullptr);
    waiting = std::exchange(call->second.call, nullptr);
    if (waiting != nullptr) shared_->calls.erase(call);  // no thread will end it
  }
  shared_->changed.NotifyAll();
}

MountCalls::OneCall* MountCalls::FirstToBeLate(Shared& shared) {
  OneCall* first = nullptr;
  for (auto& [id, call] : shared.calls) {
    if (call.done != nullptr && (first == nullptr || call.late.when() < first->late.when())) first = &call;
  }
  return first;
}

Deadline MountCalls::Next(Shared& shared) {
  const OneCall* first = FirstToBeLate(shared);
  Deadline next = first == nullptr ? Deadline::After(kIdle) : first->late;
  if (shared.again.has_value() && shared.again->when() < next.when()) next = *shared.again;
  return next;
}

void MountCalls::EndLateCalls() {
  while (true) {
    Done done;
    absl::Status late;
    {
      absl::MutexLock lock(&shared_->mutex);
      const Deadline until = Next(*shared_);  // the call may be over before
      shared_->changed.Wait(shared_->mutex, until, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
        return shared_->stopping || Next(*shared_).when() < until.when();
      });
      if (shared_->stopping) return;
      if (shared_->again.has_value() && shared_->again->Expired()) BeginWaiting();
      OneCall* first = FirstToBeLate(*shared_);
      if (first == nullptr || !first->late.Expired()) continue;
      done = std::exchange(first->done, nullptr);
      late = Late(*shared_, *first);
      if (first->call != nullptr) {  // no thread will end it
        const auto is_first = [first](const auto& each) { return &each.second == first; };
        shared_->calls.erase(std::find_if(shared_->calls.begin(), shared_->calls.end(), is_first));
      }
    }
    done(late);
  }
}

}  // namespace adjoin
