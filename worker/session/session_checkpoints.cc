#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "planner/checks/metric_rule.h"
#include "planner/plan/planner.h"
#include "worker/session/session_run.h"

namespace adjoin {
namespace {

constexpr char kLossNumber[] = "loss";  // of the last step
constexpr int64_t kCopiedAtOnce = 1 << 20;

uint64_t RandomTag() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::Duration MonotonicNow() { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

std::vector<CheckpointTensor> SessionRun::CheckpointTensors() const {
  std::vector<CheckpointTensor> tensors;
  for (int i = 0; i < parameters_->size(); ++i) {
    tensors.push_back({parameters_->name(i), parameters_->home(i), parameters_->tensor(i)});
  }
  for (const TrainOptimizer::State& state : trainer_->optimizer().States()) {
    tensors.push_back({state.name, parameters_->home(state.parameter), state.tensor});
  }
  return tensors;
}

CheckpointWriter::Moment SessionRun::CheckpointMoment() const {
  CheckpointWriter::Moment moment;
  moment.step = trainer_->steps_done();
  moment.data_epoch = moment.step / trainer_->steps_per_epoch();
  moment.step_in_epoch = moment.step % trainer_->steps_per_epoch();
  moment.numbers = training_numbers_;
  moment.numbers[kLossNumber] = result_.final.loss();
  moment.validation = validation_;
  moment.best = best_validation_;
  if (metrics_ == nullptr) return moment;
  const std::string& home = plan_.spec().output_dir();
  moment.metrics = PathOf(options_.epoch == 0 ? home : PathOf(home, AttemptFolder(options_.epoch)), kMetricsCopy);
  moment.metrics_bytes = metrics_->size();
  return moment;
}

absl::Status SessionRun::ResumeTraining() {
  const Checkpoint& spec = plan_.spec().checkpoint();
  if (spec.dir().empty() && spec.resume_from().empty()) return absl::OkStatus();
  StartPhase("resuming", 0);
  const SessionActivity::Files reading(&activity_);
  files_ = std::make_shared<DiskFiles>(options_.output_root);
  const RankSums sums = [this](const std::vector<double>& numbers) { return trainer_->SumOverRanks(numbers); };
  const JobIdentity job{options_.job_id, options_.store_id};
  std::vector<CheckpointName> damaged;
  const ResumeOptions options = {.files = files_.get(),
                                 .dir = spec.dir(),
                                 .resume_from = spec.resume_from(),
                                 .job = job,
                                 .rank = communicator_.rank(),
                                 .ranks = communicator_.size(),
                                 .log = options_.log,
                                 .damaged = &damaged};
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<Resumed> resumed, ResumeFromCheckpoint(options, CheckpointTensors(), sums));
  if (resumed.has_value()) {
    ADJOIN_RETURN_IF_ERROR(ResumeAt(*resumed, /*own=*/TagOf(job) != 0 && resumed->manifest.name.tag == TagOf(job)));
  }
  if (spec.dir().empty()) return absl::OkStatus();
  const uint64_t tag = TagOf(job) != 0 ? TagOf(job) : RandomTag();
  ADJOIN_ASSIGN_OR_RETURN(const std::string told, TellAll(sums, writes() ? absl::StrCat(absl::Hex(tag)) : ""));
  CheckpointWriter::Options writer;
  writer.files = files_;
  writer.spec = spec;
  writer.retention = {spec.keep_last(), spec.keep_best(), false};
  if (!spec.keep_best().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(spec.keep_best()));
    writer.retention.larger_is_better = metric.LargerIsBetter();
  }
  writer.rank = communicator_.rank();
  writer.ranks = communicator_.size();
  writer.job.job = job;
  writer.job.job_name = plan_.spec().name();
  writer.job.plan_hash = Planner::Hash(plan_);
  writer.job.seed = plan_.spec().seed();
  writer.job.name.epoch = options_.epoch;
  if (!absl::SimpleHexAtoi(told, &writer.job.name.tag)) return absl::InternalError("rank 0 tells no tag");
  writer.damaged = std::move(damaged);
  if (output_ != nullptr) writer.check_latest = [output = output_] { return output->CheckLatest(); };
  writer.patience = std::min(writer.patience, options_.timeout);
  writer.log = options_.log;
  writer.now = MonotonicNow;
  checkpoints_ = std::make_unique<CheckpointWriter>(std::move(writer));
  return absl::OkStatus();
}

// Where training goes on. Of another job the checkpoint has weights, optimizer and place, but not how its validations were
// judged: this job may ask for other metrics, and for more patience.
absl::Status SessionRun::ResumeAt(const Resumed& resumed, bool own) {
  const Manifest& manifest = resumed.manifest;
  const int64_t step = manifest.name.step;
  const int64_t per_epoch = trainer_->steps_per_epoch();
  if (step / per_epoch != manifest.data_epoch || step % per_epoch != manifest.step_in_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint.resume_from: step ", step, " of ", PathOf(resumed.dir, manifest.name.ToString()), " came after ",
        manifest.data_epoch, " epochs and ", manifest.step_in_epoch, " steps; in this job, with ", per_epoch,
        " steps an epoch, it would be another place. Right would be the same data set, batch and drop_last; to begin anew from"
        " its weights: weights { from_output: ... } with the model that its job wrote"));
  }
  if (manifest.seed != plan_.spec().seed() && writes()) {
    Log(absl::StrCat("WARNING: the checkpoint was written with seed ", manifest.seed, "; with this job's, ",
                     plan_.spec().seed(), ", the samples come in another order from here on"));
  }
  trainer_->Resume(step);
  if (own) training_numbers_ = manifest.numbers;
  if (const auto loss = manifest.numbers.find(kLossNumber); loss != manifest.numbers.end()) {
    result_.final.set_loss(loss->second);
    result_.final.set_epoch(static_cast<uint32_t>((step - 1) / per_epoch + 1));
  }
  result_.resumed_step = step;
  result_.final.set_resumed_step(static_cast<uint64_t>(step));
  if (step >= trainer_->total_steps() && writes()) {
    Log(absl::StrCat("the checkpoint is of step ", step, ", and the job ends after ", trainer_->total_steps(),
                     ": no step is left to do"));
  }
  return TakeOverMetrics(resumed);
}

// The lines up to the step, so that what follows continues them.
absl::Status SessionRun::TakeOverMetrics(const Resumed& resumed) {
  if (!writes()) return absl::OkStatus();
  const Manifest& manifest = resumed.manifest;
  const std::string folder = PathOf(resumed.dir, manifest.name.ToString());
  Log(absl::StrCat("resumed from step ", manifest.name.step, ": checkpoint ", folder, " of ", manifest.ranks, " ranks"));
  for (const Manifest::File& file : manifest.files) {
    if (file.name != kMetricsCopy) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files_->Open(PathOf(folder, file.name)));
    for (int64_t done = 0; done < file.bytes; done += kCopiedAtOnce) {
      std::string lines(static_cast<size_t>(std::min(kCopiedAtOnce, file.bytes - done)), '\0');
      ADJOIN_RETURN_IF_ERROR(source->Read(done, lines.data(), static_cast<int64_t>(lines.size())));
      ADJOIN_RETURN_IF_ERROR(output_->AsShown(metrics_->Append(lines)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> SessionRun::RunStep() {
  validation_.clear();
  best_validation_ = false;
  return trainer_->RunStep(stop_asked(), checkpoints_ != nullptr ? checkpoints_->Words() : StepWords{});
}

void SessionRun::CheckpointAfter(const StepReport& report) {
  if (checkpoints_ == nullptr) return;
  checkpoints_->AfterStep(report.words, CheckpointMoment(), [this] { return CheckpointTensors(); });
}

// With one of the last step: what comes after training, or another attempt, needs no step again.
absl::Status SessionRun::FinishCheckpoints() {
  if (checkpoints_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files writing(&activity_);
  const bool stepped = trainer_->steps_done() > phase_first_step_;
  return checkpoints_->Finish(/*write=*/stepped, CheckpointMoment(),
                              [this] { return CheckpointTensors(); },
                              [this](const std::vector<double>& numbers) { return trainer_->SumOverRanks(numbers); });
}

}  // namespace adjoin
