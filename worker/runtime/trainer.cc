#include "worker/runtime/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"

namespace adjoin {
namespace {

bool HasProgram(const Plan& plan, const std::string& name) {
  return std::any_of(plan.program().begin(), plan.program().end(),
                     [&](const ProgramPlan& program) { return program.name() == name; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Plan& plan, Communicator* communicator,
                                                         Parameters* parameters, const std::string& data_root,
                                                         const LayerRegistry& registry,
                                                         SessionActivity* activity) {
  std::unique_ptr<Trainer> trainer(new Trainer);
  trainer->activity_ = activity;
  const Train& train = plan.spec().train();
  trainer->communicator_ = communicator;
  trainer->parameters_ = parameters;
  trainer->batch_ = train.batch();
  {
    const SessionActivity::Files files(activity);
    ADJOIN_ASSIGN_OR_RETURN(trainer->data_,
                            ShardReader::Create(plan, train.dataset(), data_root, communicator->rank()));
  }
  if (trainer->data_->samples() >= trainer->batch_) {
    ADJOIN_ASSIGN_OR_RETURN(trainer->full_, Network::Create(plan, "train", communicator, parameters, registry));
  }
  if (HasProgram(plan, "train_tail")) {
    ADJOIN_ASSIGN_OR_RETURN(trainer->tail_, Network::Create(plan, "train_tail", communicator, parameters, registry));
  }
  ADJOIN_ASSIGN_OR_RETURN(trainer->sync_, GradientSync::Create(plan, communicator, parameters));
  ADJOIN_RETURN_IF_ERROR(trainer->CountSteps(train));
  ADJOIN_ASSIGN_OR_RETURN(trainer->optimizer_, TrainOptimizer::Create(train, *parameters));
  return trainer;
}

absl::Status Trainer::CountSteps(const Train& train) {
  steps_per_epoch_ = data_->samples() / batch_ + (tail_ != nullptr ? 1 : 0);
  if (steps_per_epoch_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat("data set \"", train.dataset(), "\" has ", data_->samples(),
                                                   " samples, not one batch of ", batch_,
                                                   "; right would be a smaller batch, or drop_last: false"));
  }
  total_steps_ = train.has_epochs() ? train.epochs() * steps_per_epoch_ : static_cast<int64_t>(train.steps());
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, torch::Tensor>> Trainer::ReadBatch(const Network& network, int64_t epoch,
                                                                        int64_t first) {
  const SessionActivity::Files files(activity_);
  return data_->Read(network.program(), epoch, first);
}

absl::StatusOr<Trainer::Sums> Trainer::ForwardAndBackward(Network& network, int64_t epoch, int64_t first,
                                                          bool stop_asked, const StepWords& words) {
  ADJOIN_ASSIGN_OR_RETURN(const auto fields, ReadBatch(network, epoch, first));
  for (int i = 0; i < parameters_->size(); ++i) torch::Tensor(parameters_->tensor(i)).mutable_grad().reset();
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
  tape.Backward(result.loss);
  ADJOIN_RETURN_IF_ERROR(sync_->Sync());
  const double share = result.loss.defined() ? result.loss.detach().item<double>() : 0;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network.SumOverRanks({share, stop_asked ? 1.0 : 0.0,
                                                                                    words[0], words[1]}));
  return Sums{sums[0], sums[1], {sums[2], sums[3]}};
}

// All ranks know the loss, so all of them look for where it comes from.
absl::Status Trainer::NotFinite(Network& network, int64_t epoch, int64_t first, double loss) {
  ADJOIN_ASSIGN_OR_RETURN(const auto fields, ReadBatch(network, epoch, first));
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<Network::NotFinite> found, network.FirstNotFinite(fields));
  const std::string where = found.has_value() ? absl::StrCat("the first value that is not finite is in ", found->where)
                                              : "a second run over the batch meets only finite values";
  // A rank that ends takes with it what it has not sent yet: none does before all have found what it found.
  network.SumOverRanks({}).status().IgnoreError();
  const bool data = found.has_value() && found->is_data;
  return absl::OutOfRangeError(absl::StrCat("step ", step_ + 1, ": the loss is ", loss, "; ", where,
                                            "; training cannot go on",
                                            data ? "" : " (a smaller learning rate may help)"));
}

absl::StatusOr<StepReport> Trainer::RunStep(bool stop_asked, const StepWords& words) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Duration moving_before = communicator_->time_moving();
  const int64_t bytes_before = communicator_->BytesSent();
  const int64_t epoch = step_ / steps_per_epoch_;
  const int64_t first = step_ % steps_per_epoch_ * batch_;
  Network& network = first + batch_ <= data_->samples() ? *full_ : *tail_;
  StepReport report;
  report.step = step_ + 1;
  report.epoch = epoch + 1;
  report.samples = network.program().batch();
  try {
    ADJOIN_ASSIGN_OR_RETURN(const Sums sums, ForwardAndBackward(network, epoch, first, stop_asked, words));
    report.loss = sums.loss;
    report.stop_asked = sums.stop_asked > 0;
    report.words = sums.words;
    if (!std::isfinite(report.loss)) return NotFinite(network, epoch, first, report.loss);
    optimizer_->Step(step_);
  } catch (...) {
    return StatusFromCurrentException();
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  report.sync_seconds = absl::ToDoubleSeconds(communicator_->time_moving() - moving_before);
  report.compute_seconds = std::max(0.0, taken.count() - report.sync_seconds);
  report.bytes_sent = communicator_->BytesSent() - bytes_before;
  ++step_;
  compute_seconds_ += report.compute_seconds;
  sync_seconds_ += report.sync_seconds;
  ProgramTraffic& traffic = traffic_[network.program().name()];
  ++traffic.steps;
  traffic.bytes += report.bytes_sent;
  return report;
}

absl::StatusOr<std::vector<double>> Trainer::SumOverRanks(const std::vector<double>& numbers) {
  return (full_ != nullptr ? *full_ : *tail_).SumOverRanks(numbers);
}

absl::StatusOr<Trainer::MeanTimes> Trainer::MeanTimesOverRanks() {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, SumOverRanks({compute_seconds_, sync_seconds_}));
  const double count = static_cast<double>(communicator_->size()) * static_cast<double>(std::max<int64_t>(1, step_));
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
