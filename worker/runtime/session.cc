#include "worker/runtime/session.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "worker/runtime/evaluator.h"
#include "worker/runtime/metrics_writer.h"
#include "worker/runtime/model_file.h"
#include "worker/runtime/path_rules.h"
#include "worker/runtime/trainer.h"

namespace adjoin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMetricsFile[] = "metrics.jsonl";
constexpr char kModelFile[] = "model.safetensors";
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

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
        layers_(options.layers != nullptr ? *options.layers : builtin_) {}

  absl::StatusOr<SessionResult> Run();

 private:
  bool writes() const { return communicator_.rank() == 0; }
  void Log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  absl::Status OpenOutput();
  absl::StatusOr<Parameters> StartParameters() const;
  absl::Status RunTraining(Parameters* parameters);
  absl::Status RecordStep(const StepReport& report);
  absl::Status RecordTraining(Trainer& trainer);
  absl::Status RunEvaluation(Parameters* parameters);
  absl::Status WriteModel(const Parameters& parameters);
  void StartPhase(const std::string& phase, int64_t total_steps);
  void Progress(int64_t step, bool last);

  const SessionOptions& options_;
  const Plan& plan_;
  HostMemory memory_;
  Communicator communicator_;
  const LayerRegistry builtin_;
  const LayerRegistry& layers_;
  const Clock::time_point begin_ = Clock::now();
  std::filesystem::path folder_;
  std::unique_ptr<MetricsWriter> metrics_;  // on rank 0
  SessionResult result_;
  Clock::time_point phase_begin_ = begin_;
  Clock::time_point last_report_;
  int64_t phase_steps_ = 0;
  Trainer::MeanTimes times_over_ranks_;
};

absl::Status SessionRun::OpenOutput() {
  if (!writes()) return absl::OkStatus();
  folder_ = std::filesystem::path(options_.output_root) / plan_.spec().output_dir();
  std::error_code error;
  std::filesystem::create_directories(options_.output_root, error);
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(options_.output_root, plan_.spec().output_dir()));
  std::filesystem::create_directories(folder_, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder_.string(), ": ", error.message()));
  ADJOIN_ASSIGN_OR_RETURN(metrics_, MetricsWriter::Create((folder_ / kMetricsFile).string()));
  result_.artifacts.push_back(kMetricsFile);
  return absl::OkStatus();
}

absl::StatusOr<Parameters> SessionRun::StartParameters() const {
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan_, communicator_.rank()));
  parameters.Initialise(plan_.spec().seed());
  const Weights& weights = plan_.spec().weights();
  if (!weights.init_from().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string path, ResolveBelow(options_.data_root, weights.init_from()));
    const bool strict = !weights.has_strict() || weights.strict();
    ADJOIN_ASSIGN_OR_RETURN(const ModelDifferences differences, LoadModel(path, strict, &parameters));
    Log(absl::StrCat("weights from ", path, differences.empty() ? "" : "; ", differences.ToString()));
  }
  return parameters;
}

void SessionRun::StartPhase(const std::string& phase, int64_t total_steps) {
  phase_begin_ = Clock::now();
  last_report_ = Clock::time_point();
  phase_steps_ = total_steps;
  result_.final.set_phase(phase);
  result_.final.set_total_steps(total_steps);
  Progress(0, /*last=*/false);
}

void SessionRun::Progress(int64_t step, bool last) {
  const Clock::time_point now = Clock::now();
  if (!last && now - last_report_ < kBetweenReports) return;
  last_report_ = now;
  JobProgress& progress = result_.final;
  progress.set_step(step);
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
  return metrics_->Write({{"type", "step"},
                          {"step", report.step},
                          {"epoch", report.epoch},
                          {"loss", report.loss},
                          {"samples", report.samples},
                          {"t_comp", report.compute_seconds},
                          {"t_sync", report.sync_seconds},
                          {"bytes_sent", report.bytes_sent}});
}

absl::Status SessionRun::RunTraining(Parameters* parameters) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(plan_, &communicator_, parameters, options_.data_root, layers_));
  const int64_t per_epoch = trainer->steps_per_epoch();
  result_.final.set_program("train");
  result_.final.set_total_epochs(static_cast<uint32_t>((trainer->total_steps() + per_epoch - 1) / per_epoch));
  StartPhase("training", trainer->total_steps());
  while (!trainer->done()) {
    ADJOIN_ASSIGN_OR_RETURN(const StepReport report, trainer->RunStep());
    ADJOIN_RETURN_IF_ERROR(RecordStep(report));
    Progress(report.step, /*last=*/trainer->done());
  }
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
                          Evaluator::Create(plan_, &communicator_, parameters, options_.data_root, layers_));
  result_.final.set_program("evaluate");
  StartPhase("evaluating", evaluator->total_steps());
  while (!evaluator->done()) {
    ADJOIN_RETURN_IF_ERROR(evaluator->RunStep());
    if (!evaluator->done()) Progress(evaluator->steps_done(), /*last=*/false);
  }
  const EvaluationReport& report = evaluator->report();
  auto& metric = *result_.final.mutable_metric();
  const auto& metrics = plan_.spec().evaluate().metric();
  const bool accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  if (accuracy) {
    metric["accuracy"] = report.accuracy();
    metric["correct"] = static_cast<double>(report.correct);
  }
  metric["samples"] = static_cast<double>(report.samples);
  metric["loss"] = report.loss;
  Progress(evaluator->steps_done(), /*last=*/true);
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
  return metrics_->Write(line);
}

absl::Status SessionRun::WriteModel(const Parameters& parameters) {
  StartPhase("writing weights", 0);
  ADJOIN_RETURN_IF_ERROR(SaveModel((folder_ / kModelFile).string(), plan_, &communicator_, parameters));
  if (writes()) result_.artifacts.push_back(kModelFile);
  return absl::OkStatus();
}

absl::StatusOr<SessionResult> SessionRun::Run() {
  ADJOIN_RETURN_IF_ERROR(OpenOutput());
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, StartParameters());
  if (plan_.spec().kind() == TRAIN) {
    ADJOIN_RETURN_IF_ERROR(RunTraining(&parameters));
    ADJOIN_RETURN_IF_ERROR(WriteModel(parameters));
  }
  if (plan_.spec().has_evaluate()) ADJOIN_RETURN_IF_ERROR(RunEvaluation(&parameters));
  if (metrics_ != nullptr) {
    ADJOIN_RETURN_IF_ERROR(metrics_->Write({{"type", "summary"},
                                            {"ranks", int64_t{communicator_.size()}},
                                            {"seconds", SecondsSince(begin_)},
                                            {"t_comp", times_over_ranks_.compute_seconds},
                                            {"t_sync", times_over_ranks_.sync_seconds},
                                            {"bytes_sent", communicator_.BytesSent()}}));
    ADJOIN_RETURN_IF_ERROR(metrics_->Sync());
  }
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
