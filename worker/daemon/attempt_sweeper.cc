#include "worker/daemon/attempt_sweeper.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace adjoin {

AttemptSweeper::AttemptSweeper(Options options)
    : options_(std::move(options)), sweeps_(options_.roots, options_.limits) {}

void AttemptSweeper::Begin() {
  const auto records = std::make_shared<std::map<std::string, Records>>();
  // Where no thread can be started, or one still reads the records, the next time will do.
  lists_
      .Call(
          [list = options_.list, records] {
            *records = list();
            return absl::OkStatus();
          },
          [this, records](const absl::Status&) { SweepEach(*records); })
      .IgnoreError();
}

void AttemptSweeper::SweepEach(const std::map<std::string, Records>& records) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> mount_points;
  for (const auto& of_mount : records) mount_points.push_back(of_mount.first);
  std::rotate(mount_points.begin(), std::lower_bound(mount_points.begin(), mount_points.end(), first_),
              mount_points.end());
  for (const std::string& mount_point : mount_points) {
    if (SweepOne(mount_point, records.at(mount_point))) continue;
    first_ = mount_point;
    if (!std::exchange(told_, true)) {
      LogWarning(absl::StrCat("folders of ended attempts at ", mount_point,
                              " stay for now: too many other file systems do not answer"));
    }
    return;
  }
  told_ = false;
}

bool AttemptSweeper::SweepOne(const std::string& mount_point, const Records& records) {
  {
    absl::MutexLock lock(&under_way_->mutex);
    if (!under_way_->mount_points.insert(mount_point).second) return true;
  }
  const auto end = [under_way = under_way_, mount_point] {
    absl::MutexLock lock(&under_way->mutex);
    under_way->mount_points.erase(mount_point);
  };
  // It is under way until it returns, also where its time is over before.
  const absl::StatusOr<uint64_t> begun = sweeps_.Call(
      [sweep = options_.sweep, records, end](const MountCalls::Enter& enter) {
        sweep(records, enter);
        end();
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
  if (!begun.ok()) end();
  return begun.ok();
}

}  // namespace adjoin
