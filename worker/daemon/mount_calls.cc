#include "worker/daemon/mount_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/daemon/mount_points.h"

namespace adjoin {
namespace {

// How long the clock waits for a call before it looks again.
constexpr absl::Duration kIdle = absl::Hours(1);

}  // namespace

MountCalls::MountCalls(std::vector<std::string> roots, Limits limits)
    : shared_(std::make_shared<Shared>()), threads_(limits.in_all) {
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
  const absl::Status over = absl::DeadlineExceededError("it took too long, and was ended");
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
  absl::MutexLock lock(&shared_->mutex);
  const auto call = shared_->calls.find(id);
  Done done = std::move(call->second.done);
  shared_->calls.erase(call);
  if (!shared_->stopping) BeginWaiting();
  return done;
}

void MountCalls::BeginWaiting() {
  for (auto& each : shared_->calls) {
    const uint64_t id = each.first;
    OneCall& waiting = each.second;
    if (waiting.call == nullptr) continue;
    const bool begun = threads_.Call(
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
    if (!begun) return;
    waiting.call = nullptr;
  }
}

bool MountCalls::Call(std::function<absl::Status(const Enter&)> call, Done done, std::optional<absl::Duration> time) {
  {
    absl::MutexLock lock(&shared_->mutex);
    const uint64_t id = ++shared_->begun;
    const absl::Duration limit = time.value_or(shared_->limits.time);
    auto waiting = std::make_shared<const std::function<absl::Status(const Enter&)>>(std::move(call));
    shared_->calls.emplace(
        id,
        OneCall{.late = Deadline::After(limit), .time = limit, .done = std::move(done), .call = std::move(waiting)});
    BeginWaiting();
    const bool waits = shared_->calls.at(id).call != nullptr;
    if (waits && CountWaiting(*shared_) > shared_->limits.waiting_for_thread) {
      shared_->calls.erase(id);
      return false;
    }
  }
  shared_->changed.NotifyAll();
  return true;
}

MountCalls::OneCall* MountCalls::FirstToBeLate(Shared& shared) {
  OneCall* first = nullptr;
  for (auto& [id, call] : shared.calls) {
    if (call.done != nullptr && (first == nullptr || call.late.when() < first->late.when())) first = &call;
  }
  return first;
}

void MountCalls::EndLateCalls() {
  Shared& shared = *shared_;
  while (true) {
    Done done;
    absl::Status late;
    {
      absl::MutexLock lock(&shared.mutex);
      const OneCall* next = FirstToBeLate(shared);
      const Deadline until = next == nullptr ? Deadline::After(kIdle) : next->late;  // the call may be over before
      shared.changed.Wait(shared.mutex, until, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
        const OneCall* first = FirstToBeLate(shared);
        return shared.stopping || (first != nullptr && first->late.when() < until.when());
      });
      if (shared.stopping) return;
      OneCall* first = FirstToBeLate(shared);
      if (first == nullptr || !first->late.Expired()) continue;
      done = std::exchange(first->done, nullptr);
      late = Late(shared, *first);
      if (first->call != nullptr) {  // no thread will end it
        const auto is_first = [first](const auto& each) { return &each.second == first; };
        shared.calls.erase(std::find_if(shared.calls.begin(), shared.calls.end(), is_first));
      }
    }
    done(late);
  }
}

}  // namespace adjoin
