// One piece of work at a time on a thread of its own, whose result its owner asks for now and then.
//
//   BackgroundTask task;
//   task.Start([] { return WriteSomething(); });
//   if (std::optional<absl::Status> result = task.TakeResult()) ...       // absent while it runs
//
// The owner's thread only. Destruction waits for the work: who wants that to be soon tells the work so before.
#ifndef ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_
#define ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_

#include <atomic>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask() { Wait(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // There is no other, or its result was taken. Where no thread can be made, the result says so.
  void Start(std::function<absl::Status()> work) {
    done_ = false;
    try {
      thread_ = std::thread([this, work = std::move(work)]() mutable {
        result_ = work();
        work = nullptr;  // with what it holds
        done_ = true;
      });
    } catch (const std::system_error& error) {
      result_ = absl::ResourceExhaustedError(absl::StrCat("no thread: ", error.what()));
      done_ = true;
    }
  }

  // Waits for the end of the work, whose result stays to be taken.
  void Wait() {
    if (thread_.joinable()) thread_.join();
  }

  // Absent while the work runs.
  std::optional<absl::Status> TakeResult() {
    if (!done_) return std::nullopt;
    Wait();
    return result_;
  }

 private:
  std::thread thread_;
  std::atomic<bool> done_{false};
  absl::Status result_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_
