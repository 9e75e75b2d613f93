// The checkpoints of a session that trains: the one that it resumes from, and those that it writes.
//
//   SessionCheckpoints checkpoints(environment, parameters, &output, &progress);
//   ADJOIN_ASSIGN_OR_RETURN(SessionCheckpoints::Start start, checkpoints.Begin(*trainer));            // on every rank
//   while (!trainer->done()) {
//     ADJOIN_ASSIGN_OR_RETURN(StepReport report, trainer->RunStep(false, checkpoints.Words()));
//     checkpoints.AfterStep(*trainer, report, validated);
//   }
//   ADJOIN_RETURN_IF_ERROR(checkpoints.Finish(*trainer, /*write=*/true, validated));
//
// Does nothing where the job has no checkpoints. One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_CHECKPOINTS_H_
#define ADJOIN_WORKER_SESSION_SESSION_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "worker/checkpoint/checkpoint_resume.h"
#include "worker/checkpoint/checkpoint_tensor.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/rank_sums.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"
#include "worker/training/trainer.h"

namespace adjoin {

class SessionCheckpoints {
 public:
  // Where training begins.
  struct Start {
    std::optional<int64_t> resumed_step;    // absent: at the beginning
    std::map<std::string, double> numbers;  // of the validations so far (Validation::Restore)
  };
  // What the validations have found, the same on all ranks.
  struct Validated {
    std::map<std::string, double> numbers;  // of all validations so far (Validation::Numbers)
    std::map<std::string, double> metrics;  // of a validation after the last step; empty where there was none
    bool best = false;                      // that one's Checkpoint.keep_best was the best so far
  };

  // All outlive it. `parameters` and the trainer's optimizer are what a checkpoint stores.
  SessionCheckpoints(const SessionEnvironment& environment, const Parameters& parameters, SessionOutput* output,
                     SessionProgress* progress)
      : environment_(environment), parameters_(parameters), output_(output), progress_(progress) {}
  SessionCheckpoints(const SessionCheckpoints&) = delete;
  SessionCheckpoints& operator=(const SessionCheckpoints&) = delete;

  // Puts parameters, trainer, progress and metrics.jsonl where the job's checkpoint left them, if it has one.
  // Collective.
  // Errors: as ResumeFromCheckpoint; kInvalidArgument (a checkpoint of other data).
  absl::StatusOr<Start> Begin(Trainer& trainer);

  // This rank's words for the next step.
  StepWords Words();
  void AfterStep(Trainer& trainer, const StepReport& report, const Validated& validated);
  // After the last step. `write`: with a checkpoint of this step. Collective.
  absl::Status Finish(Trainer& trainer, bool write, const Validated& validated);

 private:
  std::vector<CheckpointTensor> Tensors(Trainer& trainer) const;
  CheckpointWriter::Moment MomentOf(const Trainer& trainer, const Validated& validated) const;
  absl::StatusOr<Start> ResumeAt(Trainer& trainer, const Resumed& resumed, bool own);
  absl::Status TakeOverMetrics(const Resumed& resumed);
  absl::Status OpenWriter(const RankSums& sums, const JobIdentity& job, std::vector<CheckpointName> damaged);
  void ShowDurable();

  const SessionEnvironment& environment_;
  const Parameters& parameters_;
  SessionOutput* const output_;
  SessionProgress* const progress_;
  std::shared_ptr<DiskFiles> files_;          // below the output root
  std::unique_ptr<CheckpointWriter> writer_;  // null where the job writes none
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_CHECKPOINTS_H_
