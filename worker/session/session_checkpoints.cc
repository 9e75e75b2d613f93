#include "worker/session/session_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "planner/checks/metric_rule.h"
#include "planner/plan/planner.h"
#include "primitives/comm/communicator.h"
#include "worker/checkpoint/manifest.h"
#include "worker/tensorboard/event_log.h"

namespace adjoin {
namespace {

constexpr char kLossNumber[] = "loss";  // the last step's loss, in Manifest::numbers
constexpr int64_t kCopiedAtOnce = 1 << 20;

uint64_t RandomTag() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::Duration MonotonicNow() { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

RankSums SumsOf(Trainer& trainer) {
  return [&trainer](const std::vector<double>& numbers) { return trainer.SumOverRanks(numbers); };
}

absl::Status ReadParts(FileSystem::Source& source, int64_t bytes,
                       const std::function<absl::Status(const std::string&)>& on_part) {
  for (int64_t done = 0; done < bytes; done += kCopiedAtOnce) {
    std::string part(static_cast<size_t>(std::min(kCopiedAtOnce, bytes - done)), '\0');
    ADJOIN_RETURN_IF_ERROR(source.Read(done, part.data(), static_cast<int64_t>(part.size())));
    ADJOIN_RETURN_IF_ERROR(on_part(part));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<CheckpointTensor> SessionCheckpoints::Tensors(Trainer& trainer) const {
  std::vector<CheckpointTensor> tensors;
  for (int i = 0; i < parameters_.size(); ++i) {
    tensors.push_back({parameters_.name(i), parameters_.home(i), parameters_.tensor(i)});
  }
  for (const TrainOptimizer::State& state : trainer.optimizer().States()) {
    tensors.push_back({state.name, parameters_.home(state.parameter), state.tensor});
  }
  return tensors;
}

CheckpointWriter::Moment SessionCheckpoints::MomentOf(const Trainer& trainer, const Validated& validated) const {
  CheckpointWriter::Moment moment;
  moment.step = trainer.steps_done();
  moment.data_epoch = moment.step / trainer.steps_per_epoch();
  moment.step_in_epoch = moment.step % trainer.steps_per_epoch();
  moment.numbers = validated.numbers;
  moment.numbers[kLossNumber] = progress_->shown().loss();
  moment.validation = validated.metrics;
  moment.best = validated.best;
  if (!environment_.writes()) return moment;
  moment.metrics = output_->metrics_path();
  moment.metrics_bytes = output_->metrics_bytes();
  return moment;
}

absl::StatusOr<SessionCheckpoints::Start> SessionCheckpoints::Begin(Trainer& trainer) {
  const Checkpoint& spec = environment_.spec().checkpoint();
  Start start;
  if (spec.dir().empty() && spec.resume_from().empty()) return start;
  progress_->StartPhase("resuming", 0);
  const SessionActivity::Files reading(environment_.activity);
  files_ = std::make_shared<DiskFiles>(environment_.options.output_root);
  const RankSums sums = SumsOf(trainer);
  const JobIdentity job{environment_.options.job_id, environment_.options.store_id, environment_.options.job_tag};
  std::vector<CheckpointName> damaged;
  const ResumeOptions options = {.files = files_.get(),
                                 .dir = spec.dir(),
                                 .resume_from = spec.resume_from(),
                                 .job = job,
                                 .rank = environment_.communicator->rank(),
                                 .ranks = environment_.communicator->size(),
                                 .log = environment_.options.log,
                                 .damaged = &damaged};
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<Resumed> resumed, ResumeFromCheckpoint(options, Tensors(trainer), sums));
  if (resumed.has_value()) {
    const bool own = TagOf(job) != 0 && resumed->manifest.name.tag == TagOf(job);
    ADJOIN_ASSIGN_OR_RETURN(start, ResumeAt(trainer, *resumed, own));
  }
  if (!spec.dir().empty()) ADJOIN_RETURN_IF_ERROR(OpenWriter(sums, job, std::move(damaged)));
  return start;
}

absl::Status SessionCheckpoints::OpenWriter(const RankSums& sums, const JobIdentity& job,
                                            std::vector<CheckpointName> damaged) {
  const Checkpoint& spec = environment_.spec().checkpoint();
  const uint64_t tag = TagOf(job) != 0 ? TagOf(job) : RandomTag();
  ADJOIN_ASSIGN_OR_RETURN(const std::string told,
                          TellAll(sums, environment_.writes() ? absl::StrCat(absl::Hex(tag)) : ""));
  CheckpointWriter::Options writer;
  writer.files = files_;
  writer.spec = spec;
  writer.retention = {spec.keep_last(), spec.keep_best(), false};
  if (!spec.keep_best().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(spec.keep_best()));
    writer.retention.larger_is_better = metric.LargerIsBetter();
  }
  writer.rank = environment_.communicator->rank();
  writer.ranks = environment_.communicator->size();
  writer.job.job = job;
  writer.job.job_name = environment_.spec().name();
  writer.job.plan_hash = Planner::Hash(environment_.plan());
  writer.job.seed = environment_.spec().seed();
  writer.job.name.epoch = environment_.options.epoch;
  if (!absl::SimpleHexAtoi(told, &writer.job.name.tag)) return absl::InternalError("rank 0 tells no tag");
  writer.damaged = std::move(damaged);
  writer.check_latest = output_->LatestCheck();
  writer.patience = std::min(writer.patience, environment_.options.timeout);
  writer.log = environment_.options.log;
  writer.now = MonotonicNow;
  writer_ = std::make_unique<CheckpointWriter>(std::move(writer));
  ShowDurable();
  return absl::OkStatus();
}

// A checkpoint of another job has weights, optimizer and the position in the data, but not how its validations were
// judged: this job may ask for other metrics, and for more patience.
absl::StatusOr<SessionCheckpoints::Start> SessionCheckpoints::ResumeAt(Trainer& trainer, const Resumed& resumed,
                                                                       bool own) {
  const Manifest& manifest = resumed.manifest;
  const int64_t step = manifest.name.step;
  const int64_t per_epoch = trainer.steps_per_epoch();
  if (step / per_epoch != manifest.data_epoch || step % per_epoch != manifest.step_in_epoch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint.resume_from: step ", step, " of ", PathOf(resumed.dir, manifest.name.ToString()), " came after ",
        manifest.data_epoch, " epochs and ", manifest.step_in_epoch, " steps; in this job, with ", per_epoch,
        " steps an epoch, it would be another position in the data. Right would be the same data set, batch and"
        " drop_last; to begin anew from its weights: weights { from_output: ... } with the model that its job wrote"));
  }
  if (manifest.seed != environment_.spec().seed() && environment_.writes()) {
    environment_.Log(absl::StrCat("WARNING: the checkpoint was written with seed ", manifest.seed,
                                  "; with this job's, ", environment_.spec().seed(),
                                  ", the samples come in another order from here on"));
  }
  trainer.Resume(step);
  if (const auto loss = manifest.numbers.find(kLossNumber); loss != manifest.numbers.end()) {
    progress_->shown().set_loss(loss->second);
    progress_->shown().set_epoch(static_cast<uint32_t>((step - 1) / per_epoch + 1));
  }
  progress_->shown().set_resumed_step(static_cast<uint64_t>(step));
  if (step >= trainer.total_steps() && environment_.writes()) {
    environment_.Log(absl::StrCat("the checkpoint is of step ", step, ", and the job ends after ",
                                  trainer.total_steps(), ": no step is left to do"));
  }
  ADJOIN_RETURN_IF_ERROR(TakeOverMetrics(resumed));
  Start start;
  start.resumed_step = step;
  if (own) start.numbers = manifest.numbers;
  return start;
}

// Takes over the lines up to the step, so that the next ones continue them.
absl::Status SessionCheckpoints::TakeOverMetrics(const Resumed& resumed) {
  if (!environment_.writes()) return absl::OkStatus();
  const Manifest& manifest = resumed.manifest;
  const std::string folder = PathOf(resumed.dir, manifest.name.ToString());
  environment_.Log(absl::StrCat("resumed from step ", manifest.name.step, ": checkpoint ", folder, " of ",
                                manifest.ranks, " ranks"));
  for (const Manifest::File& file : manifest.files) {
    if (file.name != kMetricsCopy) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem::Source> source, files_->Open(PathOf(folder, file.name)));
    StepSeconds seconds;
    ADJOIN_RETURN_IF_ERROR(ReadParts(*source, file.bytes, [&](const std::string& lines) {
      seconds.Add(lines);
      return absl::OkStatus();
    }));
    output_->BeginPast(seconds.seconds());
    ADJOIN_RETURN_IF_ERROR(
        ReadParts(*source, file.bytes, [&](const std::string& lines) { return output_->AppendMetrics(lines); }));
    output_->EndPast();
  }
  return absl::OkStatus();
}

void SessionCheckpoints::ShowDurable() { progress_->set_checkpoint_step(writer_->last_durable().value_or(0)); }

StepWords SessionCheckpoints::Words() { return writer_ != nullptr ? writer_->Words() : StepWords{}; }

void SessionCheckpoints::AfterStep(Trainer& trainer, const StepReport& report, const Validated& validated) {
  if (writer_ == nullptr) return;
  writer_->AfterStep(report.words, MomentOf(trainer, validated), [&] { return Tensors(trainer); });
  ShowDurable();
}

absl::Status SessionCheckpoints::Finish(Trainer& trainer, bool write, const Validated& validated) {
  if (writer_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files writing(environment_.activity);
  ADJOIN_RETURN_IF_ERROR(writer_->Finish(
      write, MomentOf(trainer, validated), [&] { return Tensors(trainer); }, SumsOf(trainer)));
  ShowDurable();
  return absl::OkStatus();
}

}  // namespace adjoin
