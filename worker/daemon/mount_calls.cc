#include "worker/daemon/mount_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/daemon/mount_points.h"

namespace adjoin {
namespace {

// How long the clock waits for a call before it looks again.
constexpr absl::Duration kIdle = absl::Hours(1);

absl::Status Late(const std::string& mount_point, absl::Duration time) {
  const std::string limit = absl::FormatDuration(time);
  return absl::DeadlineExceededError(
      mount_point.empty() ? absl::StrCat("it did not end within ", limit, ": do the file systems there answer?")
                          : absl::StrCat("the file system at ", mount_point, " did not answer within ", limit));
}

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
  }
  shared_->changed.NotifyAll();
  clock_.join();
}

absl::Status MountCalls::EnterMount(Shared& shared, uint64_t id, const std::string& mount_point) {
  absl::MutexLock lock(&shared.mutex);
  OneCall& call = shared.calls.at(id);
  call.mount_point.clear();
  if (call.done == nullptr) return absl::DeadlineExceededError("it took too long, and was ended");
  if (mount_point.empty()) return absl::OkStatus();
  const auto there = std::count_if(shared.calls.begin(), shared.calls.end(),
                                   [&](const auto& each) { return each.second.mount_point == mount_point; });
  if (static_cast<size_t>(there) >= shared.limits.of_one_mount) {
    return absl::ResourceExhaustedError(
        absl::StrCat(there, " others wait there for the file system at ", mount_point, " already: does it answer?"));
  }
  call.mount_point = mount_point;
  return absl::OkStatus();
}

MountCalls::Done MountCalls::Take(Shared& shared, uint64_t id) {
  absl::MutexLock lock(&shared.mutex);
  const auto call = shared.calls.find(id);
  Done done = std::move(call->second.done);
  shared.calls.erase(call);
  return done;
}

bool MountCalls::Call(std::function<absl::Status(const Enter&)> call, Done done) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&shared_->mutex);
    id = ++shared_->begun;
    shared_->calls.emplace(id, OneCall{Deadline::After(shared_->limits.time), std::move(done), ""});
  }
  const bool called = threads_.Call(
      [shared = shared_, id, call = std::move(call)] {
        const MountPoints mounts = MountPoints::Read();
        const absl::Status status =
            call([&](const std::string& path) { return EnterMount(*shared, id, mounts.OfBelow(shared->roots, path)); });
        absl::MutexLock lock(&shared->mutex);
        shared->calls.at(id).mount_point.clear();
        return status;
      },
      [shared = shared_, id](const absl::Status& status) {
        if (const Done done = Take(*shared, id); done != nullptr) done(status);
      });
  called ? shared_->changed.NotifyAll() : void(Take(*shared_, id));
  return called;
}

void MountCalls::EndLateCalls() {
  Shared& shared = *shared_;
  while (true) {
    Done done;
    absl::Status late;
    {
      absl::MutexLock lock(&shared.mutex);
      const auto next = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
        return std::find_if(shared.calls.begin(), shared.calls.end(),
                            [](const auto& each) { return each.second.done != nullptr; });
      };
      shared.changed.Wait(shared.mutex, Deadline::After(kIdle), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
        return shared.stopping || next() != shared.calls.end();
      });
      if (const auto first = next(); first != shared.calls.end()) {
        const Deadline deadline = first->second.late;  // the call may be over before
        shared.changed.Wait(shared.mutex, deadline,
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) { return shared.stopping; });
      }
      if (shared.stopping) return;
      const auto first = next();
      if (first == shared.calls.end() || !first->second.late.Expired()) continue;
      done = std::exchange(first->second.done, nullptr);
      late = Late(first->second.mount_point, shared.limits.time);
    }
    done(late);
  }
}

}  // namespace adjoin
