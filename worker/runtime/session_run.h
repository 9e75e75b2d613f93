// How a session goes on its way: what its parts share. A part of RunSession (session.h), split by subject: session.cc has the
// phases and the progress, session_output.cc the files of results, session_weights.cc those of the model, session_training.cc
// the steps, session_evaluation.cc what is measured in the end.
//
//   ADJOIN_ASSIGN_OR_RETURN(SessionResult result, SessionRun(options).Run());
//
// One thread.
#ifndef ADJOIN_WORKER_RUNTIME_SESSION_RUN_H_
#define ADJOIN_WORKER_RUNTIME_SESSION_RUN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "layers/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "worker/runtime/attempt_output.h"
#include "worker/runtime/evaluator.h"
#include "worker/runtime/metrics_writer.h"
#include "worker/runtime/session.h"
#include "worker/runtime/session_activity.h"
#include "worker/runtime/trainer.h"

namespace adjoin {

class SessionRun {
 public:
  explicit SessionRun(const SessionOptions& options)
      : options_(options),
        plan_(options.plan),
        communicator_(options.transport, &memory_,
                      {.id = 0,
                      .timeout = options.timeout,
                      .compare_executions = options.plan.spec().compare_executions()}),
        builtin_(BuiltinLayers()),
        layers_(options.layers != nullptr ? *options.layers : builtin_),
        activity_(options.activity != nullptr ? *options.activity : own_activity_) {
    activity_.Watch(&communicator_);
  }
  ~SessionRun() { activity_.Watch(nullptr); }

  absl::StatusOr<SessionResult> Run();

 private:
  using Clock = std::chrono::steady_clock;

  static double SecondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  bool writes() const { return communicator_.rank() == 0; }
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  bool stop_asked() const { return options_.drain != nullptr && options_.drain->load(); }

  // session_output.cc
  absl::Status OpenOutput();
  absl::Status WriteSummary();
  absl::Status PublishOutput();

  // session_weights.cc
  absl::StatusOr<Parameters> StartParameters() const;
  absl::Status WriteModel(const Parameters& parameters);

  // session_training.cc
  absl::Status RunTraining(Parameters* parameters);
  absl::Status RecordStep(const StepReport& report);
  absl::Status RecordTraining(Trainer& trainer);

  // session_evaluation.cc
  absl::Status RunEvaluation(Parameters* parameters);
  absl::Status RecordEvaluation(const Evaluator& evaluator);

  // session.cc
  absl::Status RunPhases();
  void StartPhase(const std::string& phase, int64_t total_steps);
  void Progress(int64_t step, bool last);
  void ShowTraining();

  const SessionOptions& options_;
  const Plan& plan_;
  HostMemory memory_;
  Communicator communicator_;
  const LayerRegistry builtin_;
  const LayerRegistry& layers_;
  SessionActivity own_activity_;
  SessionActivity& activity_;
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<AttemptOutput> output_;   // on rank 0
  std::unique_ptr<MetricsWriter> metrics_;  // likewise
  SessionResult result_;
  Clock::time_point phase_begin_ = begin_;
  Clock::time_point last_report_;
  int64_t phase_steps_ = 0;
  JobProgress trained_;  // at the end of training
  Trainer::MeanTimes times_over_ranks_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_SESSION_RUN_H_
