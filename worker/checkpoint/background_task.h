// Runs one piece of work at a time on a thread; the owner asks for its result now and then.
//
//   BackgroundTask task;
//   task.Start([files, name] { return WriteSomething(*files, name); });   // owns all that it uses
//   if (std::optional<absl::Status> result = task.TakeResult()) ...       // absent while it runs
//
// Used by the owner's thread only. Work that hangs on a dead file server does not hang the owner: waits have a
// deadline, and work that was given up goes on alone, with its thread. So the work must not point to its owner or
// anything that ends with it; it uses what is shared or copied.
#ifndef ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_
#define ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deadline.h"

namespace adjoin {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask();  // waits kFarewellSeconds for the work, then leaves it alone
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  static constexpr int kFarewellSeconds = 3;

  // Gives up the work before, if there is any. Where no thread can be made, the result is kResourceExhausted; an
  // exception of the work is its result: kResourceExhausted for memory, else kInternal.
  void Start(std::function<absl::Status()> work);

  // Waits for the end of the work. False: it still runs. True also where there is no work.
  bool Wait(Deadline deadline);

  // Absent while the work runs.
  std::optional<absl::Status> TakeResult();

  // Drops the result. The work goes on, or ends, alone.
  void GiveUp();

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_
