// One piece of work at a time on a thread of its own, whose result its owner asks for now and then.
//
//   BackgroundTask task;
//   task.Start([files, name] { return WriteSomething(*files, name); });   // owns all that it uses
//   if (std::optional<absl::Status> result = task.TakeResult()) ...       // absent while it runs
//
// The owner's thread only. Work that a dead file server holds for ever holds nobody else: waits have a deadline, and what is
// still at work a few seconds after it was given up is left alone, with its thread. So the work may use nothing that goes with
// its owner: no pointer to it, only what is shared or copied.
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
  ~BackgroundTask();  // waits kFarewellSeconds for the work; who wants that to be enough tells it before to end
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  static constexpr int kFarewellSeconds = 3;

  // There is no other, or it is over or was given up. Where no thread can be made, the result says so; what the work throws
  // is its result: kResourceExhausted for memory, else kInternal.
  void Start(std::function<absl::Status()> work);

  // Waits for the end of the work, whose result stays to be taken; false: it still runs. True where there is none.
  bool Wait(Deadline deadline);

  // Absent while the work runs.
  std::optional<absl::Status> TakeResult();

  // Nobody asks for the result any more. The work goes on, or ends, alone.
  void GiveUp();

 private:
  struct State;

  std::shared_ptr<State> state_;  // the thread's as well
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_BACKGROUND_TASK_H_
