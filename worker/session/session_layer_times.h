// What the plan says of a step's time, and beside it what was measured of its layers (Train.measure_layers_every):
// lines of metrics.jsonl, and the progress that the job reports.
//
//   SessionLayerTimes times(environment, &output, &progress);
//   ADJOIN_RETURN_IF_ERROR(times.Record(report));                 // after each step
//
// Does nothing but on rank 0. One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_LAYER_TIMES_H_
#define ADJOIN_WORKER_SESSION_SESSION_LAYER_TIMES_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/plan_report.pb.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"
#include "worker/training/trainer.h"

namespace adjoin {

class SessionLayerTimes {
 public:
  // The most layers in a line: of more, it has those that took longest.
  static constexpr int kMostInLine = 100;
  // Nothing is predicted for more ranks than these: the others would wait for rank 0.
  static constexpr uint32_t kMostPredicted = 1024;

  // All outlive it.
  SessionLayerTimes(const SessionEnvironment& environment, SessionOutput* output, SessionProgress* progress)
      : environment_(environment), output_(output), progress_(progress) {}

  // By the rates of the node, where it has measured them, or else of the table that comes with Adjoin. Null where it is
  // not predicted: on other ranks than 0, with GPUs, for very many ranks.
  const TimeReport* Predicted();

  // A line of type "layers", and one of type "slow", where the step was measured, else nothing. Errors: as
  // SessionOutput::WriteMetrics.
  absl::Status Record(const StepReport& report);

 private:
  // What Show has shown.
  absl::Status WriteSlow(const StepReport& report);
  static void ShowSlow(const StepReport& report, LayerTimes& shown);
  void Show(const StepReport& report);

  const SessionEnvironment& environment_;
  SessionOutput* const output_;
  SessionProgress* const progress_;
  bool asked_ = false;
  std::optional<TimeReport> predicted_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_LAYER_TIMES_H_
