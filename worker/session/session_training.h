// Training in a session: from a checkpoint, from given weights or from the beginning, with validations, to the last
// step.
//
//   SessionTraining training(environment, &parameters, &output, &progress);
//   ADJOIN_ASSIGN_OR_RETURN(SessionTraining::Result result, training.Run());                        // on every rank
//
// One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_TRAINING_H_
#define ADJOIN_WORKER_SESSION_SESSION_TRAINING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "worker/session/session_checkpoints.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_layer_times.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"
#include "worker/session/session_trace.h"
#include "worker/training/trainer.h"

namespace adjoin {

class SessionTraining {
 public:
  struct Result {
    std::optional<int64_t> resumed_step;  // as SessionResult
    std::optional<int64_t> drained_step;  // likewise
    Trainer::MeanTimes times;             // over all ranks
    // As SessionResult.
    std::map<std::string, int64_t> peak_elements;
    std::map<std::string, int64_t> steps;
    std::map<std::string, int64_t> bytes_sent;
  };

  // All outlive it.
  SessionTraining(const SessionEnvironment& environment, Parameters* parameters, SessionOutput* output,
                  SessionProgress* progress)
      : environment_(environment),
        parameters_(parameters),
        output_(output),
        progress_(progress),
        layer_times_(environment, output, progress),
        traces_(environment, output, progress),
        checkpoints_(environment, *parameters, output, progress) {}

  // Once. Collective. Errors: as RunSession.
  absl::StatusOr<Result> Run();

 private:
  absl::Status Begin();
  absl::StatusOr<StepReport> RunStep();
  absl::Status RecordStep(const StepReport& report);
  void RecordSkipped(const StepReport& report);
  void WriteCheckpointAfter(const StepReport& report);
  absl::Status ValidateAfter(const StepReport& step);
  // What the plan tells of the rank that needs most memory, and of a step's time, in metrics.jsonl.
  absl::Status RecordPrediction();
  // What this rank has needed, likewise, after the last step of an epoch.
  absl::Status RecordPeaks(const StepReport& report);
  absl::Status RecordTraining();

  const SessionEnvironment& environment_;
  Parameters* const parameters_;
  SessionOutput* const output_;
  SessionProgress* const progress_;
  std::unique_ptr<Trainer> trainer_;  // until the end of Run
  SessionLayerTimes layer_times_;
  SessionTrace traces_;
  SessionCheckpoints checkpoints_;
  SessionCheckpoints::Validated validated_;
  Result result_;
  int64_t skipped_steps_ = 0;  // of this attempt
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_TRAINING_H_
