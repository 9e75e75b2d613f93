// How a session goes on its way: what its parts share. A part of RunSession (session.h), split by subject: session.cc has the
// phases and the progress, session_output.cc the files of results, session_weights.cc those of the model, session_training.cc
// the steps, session_checkpoints.cc what they go on from, session_evaluation.cc what is measured in the end, session_prediction.cc
// what is written of layers' outputs.
//
//   ADJOIN_ASSIGN_OR_RETURN(SessionResult result, SessionRun(options).Run());
//
// One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_RUN_H_
#define ADJOIN_WORKER_SESSION_SESSION_RUN_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "worker/checkpoint/checkpoint_resume.h"
#include "worker/checkpoint/checkpoint_tensor.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/checkpoint/file_system.h"
#include "worker/data/path_rules.h"
#include "worker/samples/field_source.h"
#include "worker/session/attempt_output.h"
#include "worker/session/session.h"
#include "worker/training/evaluator.h"
#include "worker/training/metrics_writer.h"
#include "worker/training/session_activity.h"
#include "worker/training/trainer.h"

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
  // What is worth saying of the data goes into the job's log, with the rank that found it.
  DataFolder Data() const {
    DataFolder data(options_.data_root);
    data.cache_dir = options_.cache_dir;
    data.cache_bytes = options_.cache_bytes;
    data.warn = [this](const std::string& line) { Log(absl::StrCat("rank ", communicator_.rank(), ": ", line)); };
    return data;
  }
  bool stop_asked() const { return options_.drain != nullptr && options_.drain->load(); }

  // session_output.cc
  absl::Status OpenOutput();
  absl::Status WriteSummary();
  absl::Status PublishOutput();

  // session_weights.cc
  absl::Status LoadWeights();
  absl::Status WriteModel(const Parameters& parameters);

  // session_training.cc
  absl::Status RunTraining();
  absl::Status RecordStep(const StepReport& report);
  absl::Status RecordTraining();

  // session_checkpoints.cc
  std::vector<CheckpointTensor> CheckpointTensors() const;
  CheckpointWriter::Moment CheckpointMoment() const;
  absl::Status ResumeTraining();
  absl::Status ResumeAt(const Resumed& resumed, bool own);
  absl::Status TakeOverMetrics(const Resumed& resumed);
  absl::StatusOr<StepReport> RunStep();
  void CheckpointAfter(const StepReport& report);
  absl::Status FinishCheckpoints();

  // session_validation.cc
  absl::Status ValidateAfter(const StepReport& step);

  // session_evaluation.cc
  absl::Status RunEvaluation(Parameters* parameters);
  absl::Status RecordEvaluation(const Evaluator& evaluator);

  // session_prediction.cc
  absl::Status RunPrediction(Parameters* parameters);
  absl::StatusOr<HeldPath> AttemptFolderOfRank0() const;

  // session.cc
  absl::Status RunPhases();
  void StartPhase(const std::string& phase, int64_t total_steps, int64_t steps_done = 0);
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
  std::shared_ptr<AttemptOutput> output_;   // on rank 0
  std::unique_ptr<MetricsWriter> metrics_;  // likewise
  std::optional<Parameters> parameters_;
  std::unique_ptr<Trainer> trainer_;
  std::shared_ptr<DiskFiles> files_;                // below output_root
  std::unique_ptr<CheckpointWriter> checkpoints_;   // null where the job writes none
  // What training knows besides its tensors and its step, the same on all ranks: kept in checkpoints, and given back by them
  // before the first step.
  std::map<std::string, double> training_numbers_;
  // Metrics of a validation after the last step, and whether its Checkpoint.keep_best was the best so far; the checkpoint
  // of that step takes them.
  std::map<std::string, double> validation_;
  bool best_validation_ = false;
  SessionResult result_;
  Clock::time_point phase_begin_ = begin_;
  Clock::time_point last_report_;
  int64_t phase_steps_ = 0;
  int64_t phase_first_step_ = 0;  // done before the phase
  JobProgress trained_;  // at the end of training
  Trainer::MeanTimes times_over_ranks_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_RUN_H_
