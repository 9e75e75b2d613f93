#include "worker/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/network/layer_clock.h"
#include "layers/network/running_layer.h"
#include "layers/rules/find_program.h"
#include "planner/plan/pass_order.h"
#include "planner/plan/pipeline_stages.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Plan& plan, Communicator* communicator,
                                                         Parameters* parameters, const DataFolder& data,
                                                         const LayerRegistry& registry, SessionActivity* activity,
                                                         const ExtentPlanning& planning) {
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->activity_ = activity;
  const Train& train = plan.spec().train();
  trainer->communicator_ = communicator;
  trainer->parameters_ = parameters;
  trainer->batch_ = train.batch();
  {
    const SessionActivity::Files files(activity);
    ADJOIN_ASSIGN_OR_RETURN(trainer->data_, ShardReader::Create(plan, train.dataset(), data, communicator->rank(),
                                                                TensorDeviceOf(communicator->memory())));
  }
  if (trainer->data_->samples() >= trainer->batch_ / std::max<int64_t>(1, train.microbatches())) {
    ADJOIN_ASSIGN_OR_RETURN(trainer->full_, Network::Create(plan, "train", communicator, parameters, registry));
  }
  if (FindProgram(plan, "train_tail") != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(trainer->tail_, Network::Create(plan, "train_tail", communicator, parameters, registry));
  }
  ADJOIN_ASSIGN_OR_RETURN(trainer->sync_, GradientSync::Create(plan, communicator, parameters));
  ADJOIN_ASSIGN_OR_RETURN(const PipelineStages stages, PipelineStages::Of(plan));
  trainer->in_flight_ = stages.in_flight(communicator->rank());
  ADJOIN_RETURN_IF_ERROR(trainer->CountSteps(train));
  ADJOIN_ASSIGN_OR_RETURN(trainer->optimizer_, TrainOptimizer::Create(train, *parameters));
  ADJOIN_ASSIGN_OR_RETURN(trainer->timing_, LayerTiming::Create(plan, communicator));
  ADJOIN_ASSIGN_OR_RETURN(trainer->slow_, SlowStep::Create(plan, communicator, &trainer->recorder_));
  trainer->clip_norm_ = train.clip_norm();
  trainer->loss_scale_ = plan.spec().precision().loss_scale();
  if (train.clip_norm() > 0 || trainer->loss_scale_ > 0) {
    ADJOIN_ASSIGN_OR_RETURN(GradientNorm gradients, GradientNorm::Create(*parameters));
    trainer->gradients_.emplace(std::move(gradients));
  }
  if (!train.validate_on().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(trainer->validation_,
                            Validation::Create(plan, communicator, parameters, data, registry, activity, planning));
  }
  return trainer;
}

absl::Status Trainer::CountSteps(const Train& train) {
  const int64_t left_over = data_->samples() % batch_;
  epoch_samples_ = data_->samples() - (train.drop_last() ? left_over : 0);
  steps_per_epoch_ = (epoch_samples_ + batch_ - 1) / batch_;
  if (steps_per_epoch_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat("data set \"", train.dataset(), "\" has ", data_->samples(),
                                                   " samples, not one batch of ", batch_,
                                                   "; right would be a smaller batch, or drop_last: false"));
  }
  total_steps_ = train.has_epochs() ? train.epochs() * steps_per_epoch_ : static_cast<int64_t>(train.steps());
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, at::Tensor>> Trainer::ReadBatch(const Network& network, int64_t epoch,
                                                                     int64_t first) {
  const SessionActivity::Files files(activity_);
  const SpanScope span(communicator_->recorder(), {.kind = SpanKind::kData});
  return data_->Read(network.program(), epoch, first);
}

std::vector<Trainer::Part> Trainer::PartsOf(int64_t first) const {
  std::vector<Part> parts;
  const int64_t end = std::min(first + batch_, epoch_samples_);
  while (first < end) {
    Network* network = full_ != nullptr && first + full_->program().batch() <= end ? full_.get() : tail_.get();
    parts.push_back({network, first});
    first += network->program().batch();
  }
  return parts;
}

void Trainer::SetPlace(const Part& part) const {
  part.network->SetPlace(step_, part.first - step_ % steps_per_epoch_ * batch_);
}

absl::StatusOr<Trainer::InFlight> Trainer::Forward(const Part& part, int64_t epoch, int64_t samples) {
  SetRunning("the reading of the batch");
  ADJOIN_ASSIGN_OR_RETURN(auto fields, ReadBatch(*part.network, epoch, part.first));
  SetPlace(part);
  InFlight running{std::make_unique<Tape>(part.network->device()), at::Tensor()};
  std::vector<at::Tensor> shares;
  {
    // Fields and predictions live no longer than the backward pass needs them.
    ADJOIN_ASSIGN_OR_RETURN(Network::Result result, part.network->Forward(std::move(fields), *running.tape));
    shares = std::move(result.shares);
  }
  const ProgramPlan& program = part.network->program();
  at::Tensor& loss = running.loss;
  for (int i = 0; i < program.loss_size(); ++i) {
    // A part's share of a mean over the whole batch is that of its samples.
    const bool sum = program.loss(i).spec().reduction() == "sum";
    const double weight = sum ? 1.0 : static_cast<double>(program.batch()) / static_cast<double>(samples);
    const at::Tensor share = weight == 1 ? shares[i] : shares[i] * weight;
    loss = loss.defined() ? loss + share : share;
  }
  return running;
}

at::Tensor Trainer::Backward(const Part& part, InFlight running) {
  SetPlace(part);  // for layers that are computed again
  SetRunning("the backward pass of the losses");
  running.tape->Backward(running.loss, loss_scale_ > 0 ? loss_scale_ : 1);
  LayerClock::EndBackward();
  SetRunning("the step after the backward pass");
  return running.loss.defined() ? running.loss.detach() : running.loss;
}

absl::StatusOr<std::vector<at::Tensor>> Trainer::RunPasses(const std::vector<Part>& parts, int64_t epoch,
                                                           int64_t samples) {
  std::vector<InFlight> running(parts.size());
  std::vector<at::Tensor> shares(parts.size());
  for (const Pass& pass : PassOrder(in_flight_, static_cast<int64_t>(parts.size()))) {
    const size_t index = static_cast<size_t>(pass.microbatch);
    const Part& part = parts[index];
    const int64_t bytes_before = communicator_->BytesSent();
    if (pass.backward) {
      shares[index] = Backward(part, std::move(running[index]));
    } else {
      // The gradients are complete with the last part only.
      part.network->SumInBackward(&part == &parts.back() ? sync_.get() : nullptr);
      ADJOIN_ASSIGN_OR_RETURN(running[index], Forward(part, epoch, samples));
    }
    Account(part, pass.backward ? 1 : 0, bytes_before);
  }
  const int64_t bytes_before = communicator_->BytesSent();
  ADJOIN_RETURN_IF_ERROR(communicator_->SendAll());
  Account(parts.back(), 0, bytes_before);
  return shares;
}

absl::StatusOr<Trainer::Read> Trainer::ReadStep(const std::vector<Part>& parts,
                                                const std::vector<at::Tensor>& shares) const {
  Read read;
  std::vector<at::Tensor> numbers;
  if (gradients_.has_value()) numbers.push_back(gradients_->SquaresHere());
  bool first = gradients_.has_value();  // the next number is that
  for (size_t i = 0; i < parts.size(); ++i) {
    if (shares[i].defined()) numbers.push_back(shares[i]);
    // Parts of one network follow each other.
    if (i + 1 < parts.size() && parts[i + 1].network == parts[i].network) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> found, parts[i].network->ReadNumbers(numbers));
    numbers.clear();
    for (const double number : found) {
      (std::exchange(first, false) ? read.squared_norm : read.loss) += number;
    }
  }
  return read;
}

absl::Status Trainer::AddUp(const std::vector<Part>& parts, int64_t epoch, StepSums mine, StepReport& report) {
  for (int i = 0; i < parameters_->size(); ++i) at::Tensor(parameters_->tensor(i)).mutable_grad().reset();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> shares, RunPasses(parts, epoch, report.samples));
  const int64_t bytes_before = communicator_->BytesSent();
  const SpanScope span(communicator_->recorder(), {.kind = SpanKind::kGradients});
  ADJOIN_RETURN_IF_ERROR(sync_->Sync());
  // What the last part's backward pass has sent of the sums counts where the rest of them does.
  const int64_t sent_before = sync_->bytes_per_step() - (communicator_->BytesSent() - bytes_before);
  traffic_[parts.back().network->program().name()].bytes -= sent_before;
  traffic_[parts[0].network->program().name()].bytes += sent_before;
  if (loss_scale_ > 0) gradients_->Multiply(1 / loss_scale_);
  ADJOIN_ASSIGN_OR_RETURN(const Read read, ReadStep(parts, shares));
  mine.loss = read.loss;
  mine.squared_gradient_norm = read.squared_norm;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> numbers, parts[0].network->SumOverRanks(mine.ToVector()));
  const StepSums sums = StepSums::FromVector(numbers);
  traffic_[parts[0].network->program().name()].bytes += communicator_->BytesSent() - bytes_before;
  report.loss = sums.loss;
  report.stop_asked = sums.stops_asked > 0;
  if (gradients_.has_value()) report.gradient_norm = std::sqrt(sums.squared_gradient_norm);
  report.words = sums.words;
  report.traces_asked = static_cast<int64_t>(sums.traces_asked);
  return absl::OkStatus();
}

// What is sent ahead may count where the next part's program is; the sum is right.
void Trainer::Account(const Part& part, int64_t passes, int64_t bytes_before) {
  ProgramTraffic& traffic = traffic_[part.network->program().name()];
  traffic.steps += passes;
  traffic.bytes += communicator_->BytesSent() - bytes_before;
}

// All ranks know the loss, so all of them look for its source.
absl::Status Trainer::NotFinite(const std::vector<Part>& parts, int64_t epoch, double loss) {
  std::optional<Network::NotFinite> found;
  for (const Part& part : parts) {
    ADJOIN_ASSIGN_OR_RETURN(const auto fields, ReadBatch(*part.network, epoch, part.first));
    SetPlace(part);
    ADJOIN_ASSIGN_OR_RETURN(found, part.network->FirstNotFinite(fields));
    if (found.has_value()) break;
  }
  const std::string where = found.has_value() ? absl::StrCat("the first value that is not finite is in ", found->where)
                                              : "a second run over the batch meets only finite values";
  // A rank that ends drops the data that it has not sent yet, so none ends before all have found the value.
  parts[0].network->SumOverRanks({}).status().IgnoreError();
  const bool data = found.has_value() && found->is_data;
  return absl::OutOfRangeError(absl::StrCat("step ", step_ + 1, ": the loss is ", loss, "; ", where,
                                            "; training cannot go on",
                                            data ? "" : " (a smaller learning rate may help)"));
}

// All ranks know the norm, so all of them judge alike.
absl::Status Trainer::JudgeGradients(const std::vector<Part>& parts, StepReport& report) {
  const double norm = *report.gradient_norm;
  if (std::isfinite(norm)) {
    skipped_ = 0;
    if (clip_norm_ > 0) gradients_->Clip(norm, clip_norm_);
    return absl::OkStatus();
  }
  report.skipped = loss_scale_ > 0;
  if (report.skipped && ++skipped_ < kMostSkipped) return absl::OkStatus();
  // As in NotFinite: none ends before all know the norm.
  parts[0].network->SumOverRanks({}).status().IgnoreError();
  return absl::OutOfRangeError(
      absl::StrCat("step ", report.step, ": the norm of the gradients is ", norm,
                   report.skipped ? absl::StrCat(", as in the ", kMostSkipped - 1, " steps before it") : "",
                   ", though the loss is ", report.loss, "; training cannot go on (",
                   report.skipped ? absl::StrCat("a precision.loss_scale below ", loss_scale_, " or ") : "",
                   "a smaller learning rate may help)"));
}

std::vector<std::string> Trainer::layer_names() const {
  std::vector<std::string> names;
  for (const LayerPlan& layer : (full_ != nullptr ? *full_ : *tail_).program().layer()) names.push_back(layer.name());
  return names;
}

absl::StatusOr<StepReport> Trainer::RunStep(bool stop_asked, const StepWords& words, int64_t traces_asked) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Duration moving_before = communicator_->time_moving();
  const int64_t bytes_before = communicator_->BytesSent();
  const int64_t epoch = step_ / steps_per_epoch_;
  const int64_t first = step_ % steps_per_epoch_ * batch_;
  const std::vector<Part> parts = PartsOf(first);
  StepReport report;
  report.step = step_ + 1;
  report.epoch = epoch + 1;
  report.samples = std::min(batch_, epoch_samples_ - first);
  report.learning_rate = optimizer_->LearningRate(step_);
  const bool measured = timing_ != nullptr && timing_->IsDue(report.step);
  if (measured && slow_ != nullptr) slow_->BeforeStep();
  std::optional<SpanScope> span;
  span.emplace(communicator_->recorder(), Span{.kind = SpanKind::kStep, .index = static_cast<int32_t>(report.step)});
  std::optional<LayerClock> clock;
  if (measured || recorder_.recording()) clock.emplace(communicator_, parts[0].network->program().layer_size());
  try {
    SetRunning("the step");
    ADJOIN_RETURN_IF_ERROR(AddUp(
        parts, epoch,
        {.stops_asked = stop_asked ? 1.0 : 0.0, .words = words, .traces_asked = static_cast<double>(traces_asked)},
        report));
    if (!std::isfinite(report.loss)) return NotFinite(parts, epoch, report.loss);
    if (report.gradient_norm.has_value()) ADJOIN_RETURN_IF_ERROR(JudgeGradients(parts, report));
    SetRunning("the optimizer");
    const SpanScope optimizer(communicator_->recorder(), {.kind = SpanKind::kOptimizer});
    if (!report.skipped) optimizer_->Step(step_);
  } catch (const StatusException& error) {
    return error.status();
  } catch (...) {
    const absl::Status status = StatusFromCurrentException();
    return absl::Status(status.code(),
                        absl::StrCat(Running(), " on rank ", communicator_->rank(), ": ", status.message()));
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  report.sync_seconds = absl::ToDoubleSeconds(communicator_->time_moving() - moving_before);
  report.compute_seconds = std::max(0.0, taken.count() - report.sync_seconds);
  report.bytes_sent = communicator_->BytesSent() - bytes_before;
  span.reset();
  if (measured) {
    SetRunning("the times of layers");
    ADJOIN_ASSIGN_OR_RETURN(report.layers, timing_->Collect(clock->Finish(), taken.count()));
    if (slow_ != nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(report.slow, slow_->AfterStep());
    }
  }
  ++step_;
  compute_seconds_ += report.compute_seconds;
  sync_seconds_ += report.sync_seconds;
  return report;
}

absl::StatusOr<std::vector<double>> Trainer::SumOverRanks(const std::vector<double>& numbers) {
  return (full_ != nullptr ? *full_ : *tail_).SumOverRanks(numbers);
}

absl::StatusOr<Trainer::MeanTimes> Trainer::MeanTimesOverRanks() {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, SumOverRanks({compute_seconds_, sync_seconds_}));
  const double count =
      static_cast<double>(communicator_->size()) * static_cast<double>(std::max<int64_t>(1, step_ - resumed_at_));
  return MeanTimes{sums[0] / count, sums[1] / count};
}

std::map<std::string, int64_t> Trainer::PeakElements() const {
  std::map<std::string, int64_t> peaks;
  for (const Network* network : {full_.get(), tail_.get()}) {
    if (network == nullptr) continue;
    for (const auto& [layer, elements] : network->peak_elements()) peaks[layer] = std::max(peaks[layer], elements);
  }
  return peaks;
}

}  // namespace adjoin
