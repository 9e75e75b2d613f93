// A planner in a process of its own, so that a spec can neither crash the coordinator, nor fill its memory, nor hold it
// up: the process is killed, and the next plan gets another one.
//
//   if (IsPlannerProcess(argc, argv)) return RunPlannerProcess(argv, rules);         // first thing in main
//   PlannerProcess planner({.limit = absl::Seconds(60), .memory_bytes = uint64_t{4} << 30});
//   absl::StatusOr<PlanAnswer> answer = planner.Make(task, [&] { return !stopping; });
//
// The process is this same program, so that it has the same layers. It is started with the first plan and kept for the
// next ones; it dies with the thread that started it, has one socket to it and no other descriptor of this process, and
// gives way to it: less processor time, and the first to be killed where memory runs out. Each question and each answer
// is a message of planning.proto after its length in 8 bytes; a number that is no length may go before an answer
// (planner_protocol.h).
#ifndef ADJOIN_COORDINATOR_PLANNING_PLANNER_PROCESS_H_
#define ADJOIN_COORDINATOR_PLANNING_PLANNER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/unique_fd.h"
#include "coordinator/planning/plan_maker.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

struct PlannerProcessOptions {
  absl::Duration limit = absl::Seconds(60);   // for one plan
  uint64_t memory_bytes = uint64_t{4} << 30;  // of one process
  std::string program = "/proc/self/exe";     // its main begins as above
};

// All methods are called by one thread, as PlanMaker says; it lives as long as the object.
class PlannerProcess final : public PlanMaker {
 public:
  explicit PlannerProcess(const PlannerProcessOptions& options) : options_(options) {}
  ~PlannerProcess() override { Kill(); }
  PlannerProcess(const PlannerProcess&) = delete;
  PlannerProcess& operator=(const PlannerProcess&) = delete;

  absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) override;

 private:
  absl::Status Start();
  // Ends the process, if there is one. Returns how it ended: waitpid's status.
  int Kill();
  // `guesses`: set where the process has begun a plan for sizes that it has seen.
  absl::Status Exchange(const PlanTask& task, const std::string& question, const std::function<bool()>& go_on,
                        std::string& answer, bool& guesses);
  // Returns when the socket is ready for `events`. Errors: kCancelled, kDeadlineExceeded.
  absl::Status Await(short events, Deadline deadline, const PlanTask& task, const std::function<bool()>& go_on);
  absl::Status Send(const std::string& bytes, Deadline deadline, const PlanTask& task,
                    const std::function<bool()>& go_on);
  absl::Status Receive(char* bytes, size_t count, Deadline deadline, const PlanTask& task,
                       const std::function<bool()>& go_on);
  absl::Status TooLong(const PlanTask& task) const;
  // What a process that ended while it made this plan died of.
  absl::Status Death(const PlanTask& task);

  const PlannerProcessOptions options_;
  pid_t pid_ = 0;  // 0: none
  UniqueFd socket_;
};

// Whether this process was started as a planner.
bool IsPlannerProcess(int argc, char** argv);
// Answers questions until the coordinator ends. Returns the exit code.
int RunPlannerProcess(char** argv, const LayerRules& rules);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLANNER_PROCESS_H_
