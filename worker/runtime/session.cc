#include "worker/runtime/session.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "layers/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "worker/runtime/attempt_output.h"
#include "worker/runtime/evaluator.h"
#include "worker/runtime/metrics_writer.h"
#include "worker/runtime/model_file.h"
#include "worker/runtime/path_rules.h"
#include "worker/runtime/session_activity.h"
#include "worker/runtime/trainer.h"

namespace adjoin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMetricsFile[] = "metrics.jsonl";
constexpr char kModelFile[] = "model.safetensors";
constexpr char kTraining[] = "training";
constexpr char kFinished[] = "finished";
constexpr auto kBetweenReports = std::chrono::milliseconds(100);
constexpr absl::Duration kOutputLockTimeout = absl::Seconds(60);

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
  bool writes() const { return communicator_.rank() == 0; }
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  absl::Status OpenOutput();
  absl::StatusOr<Parameters> StartParameters() const;
  bool stop_asked() const { return options_.drain != nullptr && options_.drain->load(); }
  absl::Status RunTraining(Parameters* parameters);
  absl::Status RecordStep(const StepReport& report);
  absl::Status RecordTraining(Trainer& trainer);
  absl::Status RunEvaluation(Parameters* parameters);
  absl::Status RecordEvaluation(const Evaluator& evaluator);
  absl::Status WriteModel(const Parameters& parameters);
  absl::Status RunPhases();
  absl::Status WriteSummary();
  absl::Status PublishOutput();
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

absl::Status SessionRun::OpenOutput() {
  if (!writes()) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  ADJOIN_ASSIGN_OR_RETURN(
      output_, AttemptOutput::Begin({options_.output_root, plan_.spec().output_dir(), options_.epoch, options_.job_id,
                                     options_.store_id},
                                    Deadline::After(kOutputLockTimeout)));
  absl::StatusOr<std::unique_ptr<MetricsWriter>> metrics =
      MetricsWriter::Create(absl::StrCat(output_->folder(), "/", kMetricsFile));
  if (!metrics.ok()) return output_->AsShown(metrics.status());
  metrics_ = *std::move(metrics);
  result_.artifacts.push_back(kMetricsFile);
  return absl::OkStatus();
}

absl::StatusOr<Parameters> SessionRun::StartParameters() const {
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan_, communicator_.rank()));
  parameters.Initialise(plan_.spec().seed());
  const Weights& weights = plan_.spec().weights();
  if (!weights.init_from().empty()) {
    const SessionActivity::Files files(&activity_);
    ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, HoldBelow(options_.data_root, weights.init_from()));
    const bool strict = !weights.has_strict() || weights.strict();
    const absl::StatusOr<ModelDifferences> differences = LoadModel(file.path(), strict, &parameters);
    if (!differences.ok()) return file.AsShown(differences.status());
    Log(absl::StrCat("weights from ", file.shown(), differences->empty() ? "" : "; ", differences->ToString()));
  }
  return parameters;
}

void SessionRun::StartPhase(const std::string& phase, int64_t total_steps) {
  activity_.StartPhase(phase);
  phase_begin_ = Clock::now();
  last_report_ = Clock::time_point();
  phase_steps_ = total_steps;
  result_.final.set_phase(phase);
  result_.final.set_total_steps(total_steps);
  Progress(0, /*last=*/false);
}

void SessionRun::Progress(int64_t step, bool last) {
  activity_.SetStep(step);
  const Clock::time_point now = Clock::now();
  if (!last && now - last_report_ < kBetweenReports) return;
  last_report_ = now;
  JobProgress& progress = result_.final;
  progress.set_step(step);
  progress.set_bytes_sent(communicator_.BytesSent());
  const double seconds = SecondsSince(phase_begin_);
  const double rate = seconds > 0 ? static_cast<double>(step) / seconds : 0;
  progress.set_steps_per_second(rate);
  progress.set_seconds_left(rate > 0 ? static_cast<double>(phase_steps_ - step) / rate : 0);
  if (options_.on_progress) options_.on_progress(progress);
}

absl::Status SessionRun::RecordStep(const StepReport& report) {
  result_.final.set_loss(report.loss);
  result_.final.set_epoch(static_cast<uint32_t>(report.epoch));
  // This rank's running means.
  const double weight = 1.0 / static_cast<double>(report.step);
  JobProgress& p = result_.final;
  p.set_compute_seconds(p.compute_seconds() + (report.compute_seconds - p.compute_seconds()) * weight);
  p.set_sync_seconds(p.sync_seconds() + (report.sync_seconds - p.sync_seconds()) * weight);
  if (metrics_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  return output_->AsShown(metrics_->Write({{"type", "step"},
                                           {"step", report.step},
                                           {"epoch", report.epoch},
                                           {"loss", report.loss},
                                           {"samples", report.samples},
                                           {"t_comp", report.compute_seconds},
                                           {"t_sync", report.sync_seconds},
                                           {"bytes_sent", report.bytes_sent}}));
}

absl::Status SessionRun::RunTraining(Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(plan_, &communicator_, parameters, options_.data_root, layers_, &activity_));
  const int64_t per_epoch = trainer->steps_per_epoch();
  result_.final.set_program("train");
  result_.final.set_total_epochs(static_cast<uint32_t>((trainer->total_steps() + per_epoch - 1) / per_epoch));
  StartPhase(kTraining, trainer->total_steps());
  while (!trainer->done() && !result_.drained_step.has_value()) {
    const Clock::time_point begin = Clock::now();
    ADJOIN_ASSIGN_OR_RETURN(const StepReport report, trainer->RunStep(stop_asked()));
    ADJOIN_RETURN_IF_ERROR(RecordStep(report));
    activity_.AddTrainingStep(absl::FromChrono(Clock::now() - begin));
    // After its last step training is over, whoever asked: all that it came to is still to be written.
    if (report.stop_asked && !trainer->done()) result_.drained_step = report.step;
    Progress(report.step, /*last=*/trainer->done() || result_.drained_step.has_value());
  }
  trained_ = result_.final;
  return RecordTraining(*trainer);
}

absl::Status SessionRun::RecordTraining(Trainer& trainer) {
  ADJOIN_ASSIGN_OR_RETURN(times_over_ranks_, trainer.MeanTimesOverRanks());
  result_.peak_elements = trainer.PeakElements();
  std::vector<std::string> sent;
  for (const auto& [program, traffic] : trainer.traffic()) {
    result_.steps[program] = traffic.steps;
    result_.bytes_sent[program] = traffic.bytes;
    sent.push_back(absl::StrCat(traffic.bytes, " bytes in ", traffic.steps, " steps of ", program));
  }
  Log(absl::StrFormat("trained %d steps in %.1f s; sent %s; largest local tensor of each layer, in elements: %s",
                      trainer.steps_done(), SecondsSince(phase_begin_), absl::StrJoin(sent, ", "),
                      absl::StrJoin(result_.peak_elements, ", ", absl::PairFormatter(" "))));
  return absl::OkStatus();
}

absl::Status SessionRun::RunEvaluation(Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                          Evaluator::Create(plan_, &communicator_, parameters, options_.data_root, layers_, &activity_));
  result_.final.set_program("evaluate");
  StartPhase("evaluating", evaluator->total_steps());
  while (!evaluator->done()) {
    ADJOIN_RETURN_IF_ERROR(evaluator->RunStep(stop_asked()));
    if (evaluator->done()) break;
    if (evaluator->stop_asked()) {
      result_.drained_step = plan_.spec().kind() == TRAIN ? trained_.step() : evaluator->steps_done();
      return absl::OkStatus();
    }
    Progress(evaluator->steps_done(), /*last=*/false);
  }
  return RecordEvaluation(*evaluator);
}

absl::Status SessionRun::RecordEvaluation(const Evaluator& evaluator) {
  const EvaluationReport& report = evaluator.report();
  auto& metric = *result_.final.mutable_metric();
  const auto& metrics = plan_.spec().evaluate().metric();
  const bool accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  if (accuracy) {
    metric["accuracy"] = report.accuracy();
    metric["correct"] = static_cast<double>(report.correct);
  }
  metric["samples"] = static_cast<double>(report.samples);
  metric["loss"] = report.loss;
  Progress(evaluator.steps_done(), /*last=*/true);
  if (metrics_ == nullptr) return absl::OkStatus();
  MetricsWriter::Line line = {
      {"type", "evaluation"}, {"dataset", report.dataset}, {"samples", report.samples}, {"loss", report.loss}};
  if (accuracy) {
    line.push_back({"correct", report.correct});
    line.push_back({"accuracy", report.accuracy()});
  }
  const std::string right = absl::StrFormat("%d of %d right, accuracy %.4f, ", report.correct, report.counted,
                                            report.accuracy());
  Log(absl::StrFormat("%s: %sloss %.6g", report.dataset, accuracy ? right : "", report.loss));
  const SessionActivity::Files files(&activity_);
  return output_->AsShown(metrics_->Write(line));
}

absl::Status SessionRun::WriteModel(const Parameters& parameters) {
  StartPhase("writing weights", 0);
  if (!writes()) return SaveModel("", plan_, &communicator_, parameters);
  const SessionActivity::Files files(&activity_);
  ADJOIN_RETURN_IF_ERROR(output_->CheckLatest());
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(
      SaveModel(absl::StrCat(output_->folder(), "/", kModelFile), plan_, &communicator_, parameters)));
  result_.artifacts.push_back(kModelFile);
  return absl::OkStatus();
}

absl::Status SessionRun::RunPhases() {
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, StartParameters());
  if (plan_.spec().kind() == TRAIN) {
    ADJOIN_RETURN_IF_ERROR(RunTraining(&parameters));
    if (result_.drained_step.has_value()) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(WriteModel(parameters));
  }
  return plan_.spec().has_evaluate() ? RunEvaluation(&parameters) : absl::OkStatus();
}

absl::Status SessionRun::WriteSummary() {
  return metrics_->Write({{"type", "summary"},
                          {"ranks", int64_t{communicator_.size()}},
                          {"seconds", SecondsSince(begin_)},
                          {"t_comp", times_over_ranks_.compute_seconds},
                          {"t_sync", times_over_ranks_.sync_seconds},
                          {"bytes_sent", communicator_.BytesSent()}});
}

absl::Status SessionRun::PublishOutput() {
  if (!writes()) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(WriteSummary()));
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(metrics_->Sync()));
  return output_->Publish(result_.artifacts, Deadline::After(kOutputLockTimeout));
}

// What is left to be seen of the job are its steps of training, not those of what came after it.
void SessionRun::ShowTraining() {
  activity_.StartPhase(kFinished);
  JobProgress& progress = result_.final;
  progress.set_phase(kFinished);
  progress.set_program(trained_.program());
  progress.set_step(trained_.step());
  progress.set_total_steps(trained_.total_steps());
  progress.set_steps_per_second(trained_.steps_per_second());
  progress.set_seconds_left(0);
  progress.set_bytes_sent(communicator_.BytesSent());
  if (options_.on_progress) options_.on_progress(progress);
}

absl::StatusOr<SessionResult> SessionRun::Run() {
  ADJOIN_RETURN_IF_ERROR(OpenOutput());
  ADJOIN_RETURN_IF_ERROR(RunPhases());
  if (result_.drained_step.has_value()) {
    result_.artifacts.clear();
    Log(absl::StrCat("asked to stop: all ranks did after step ", *result_.drained_step));
    return std::move(result_);
  }
  ADJOIN_RETURN_IF_ERROR(PublishOutput());
  if (plan_.spec().kind() == TRAIN) ShowTraining();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<SessionResult> RunSession(const SessionOptions& options) {
  if (options.transport == nullptr) return absl::InvalidArgumentError("a session needs a transport");
  try {
    torch::set_num_threads(options.threads);
    return SessionRun(options).Run();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace adjoin
