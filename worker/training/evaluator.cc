#include "worker/training/evaluator.h"

#include <utility>

#include <map>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/find_program.h"
#include "planner/checks/name_check.h"
#include "planner/spec/whole_volumes.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"
#include "worker/training/metric_sums.h"

namespace adjoin {
namespace {

bool IsSum(const Loss& loss) { return loss.reduction() == "sum"; }

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const Plan& plan, const std::string& program,
                                                             Communicator* communicator, Parameters* parameters,
                                                             const DataFolder& data, const LayerRegistry& registry,
                                                             SessionActivity* activity,
                                                             const ExtentPlanning& planning) {
  const std::string tail = absl::StrCat(program, "_tail");
  const ProgramPlan* full = FindProgram(plan, program);
  if (full == nullptr) return absl::InvalidArgumentError(absl::StrCat("the plan has no program \"", program, "\""));
  ADJOIN_ASSIGN_OR_RETURN(EvaluationNumbers numbers, EvaluationNumbers::Create(plan.spec(), *full));
  std::unique_ptr<Evaluator> evaluator(new Evaluator(std::move(numbers)));
  evaluator->activity_ = activity;
  evaluator->totals_.assign(evaluator->numbers_.size(), 0);
  if (plan.spec().evaluate().range() > 0) evaluator->range_ = plan.spec().evaluate().range();
  {
    const SessionActivity::Files files(activity);
    ADJOIN_ASSIGN_OR_RETURN(evaluator->data_, ShardReader::Create(plan, full->dataset(), data, communicator->rank(),
                                                                  TensorDeviceOf(communicator->memory())));
  }
  evaluator->dataset_ = full->dataset();
  evaluator->batch_ = full->batch();
  evaluator->losses_ = full->loss_size();
  if (HasWholeVolumes(*FindDataset(plan.spec(), full->dataset()))) {
    ADJOIN_ASSIGN_OR_RETURN(evaluator->own_, ExtentNetworks::Create(plan, program, planning, communicator, parameters,
                                                                    registry, evaluator->data_.get(), activity));
    evaluator->total_steps_ = evaluator->data_->samples();
    return evaluator;
  }
  ADJOIN_ASSIGN_OR_RETURN(evaluator->full_, Network::Create(plan, program, communicator, parameters, registry));
  if (FindProgram(plan, tail) != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(evaluator->tail_, Network::Create(plan, tail, communicator, parameters, registry));
  }
  evaluator->total_steps_ = evaluator->data_->samples() / full->batch() + (evaluator->tail_ != nullptr ? 1 : 0);
  return evaluator;
}

void Evaluator::Restart() {
  step_ = 0;
  samples_ = 0;
  stop_asked_ = false;
  totals_.assign(numbers_.size(), 0);
}

absl::StatusOr<Evaluator::Batch> Evaluator::NextBatch() {
  if (own_ != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const ExtentNetworks::Step next, own_->At(step_));
    return Batch{next.network, next.sample};
  }
  const int64_t first = step_ * batch_;
  return Batch{first + batch_ <= data_->samples() ? full_.get() : tail_.get(), first};
}

absl::Status Evaluator::RunStep(bool stop_asked) {
  try {
    ADJOIN_ASSIGN_OR_RETURN(const Batch batch, NextBatch());
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, RunBatch(*batch.network, batch.first, stop_asked));
    AddBatch(batch.network->program(), sums);
  } catch (...) {
    return StatusFromCurrentException();
  }
  ++step_;
  if (done() && own_ != nullptr) own_->End();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> Evaluator::RunBatch(Network& network, int64_t first, bool stop_asked) {
  const ProgramPlan& program = network.program();
  at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> fields;
  {
    const SessionActivity::Files files(activity_);
    ADJOIN_ASSIGN_OR_RETURN(fields, data_->Read(program, /*epoch=*/0, first));
  }
  Tape tape(network.device());
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
  const at::Tensor mine = at::zeros({numbers_.size()}, at::TensorOptions(network.device()).dtype(at::kDouble));
  for (int i = 0; i < program.loss_size(); ++i) {
    const LossPlan& loss = program.loss(i);
    const at::Tensor& target = fields.at(program.value(loss.target()).name());
    mine[numbers_.share(i)].copy_(result.shares[i]);
    if (ComparesClasses(program, loss)) SetTargetWeight(loss.spec(), target, numbers_.weight(i), mine);
    if (i == numbers_.class_loss()) AddClassNumbers(numbers_, loss.spec(), result.predictions[i], target, mine);
    if (i == numbers_.number_loss()) AddErrorNumbers(numbers_, result.predictions[i], target, mine);
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<double> read, network.ReadNumbers({mine}));
  read[numbers_.stop_asked()] = stop_asked ? 1 : 0;
  return network.SumOverRanks(read);
}

void Evaluator::AddBatch(const ProgramPlan& program, const std::vector<double>& sums) {
  samples_ += program.batch();
  stop_asked_ = sums[numbers_.stop_asked()] > 0;
  for (size_t i = numbers_.share(program.loss_size()); i < sums.size(); ++i) totals_[i] += sums[i];
  for (int i = 0; i < program.loss_size(); ++i) {
    const Loss& loss = program.loss(i).spec();
    const double share = sums[numbers_.share(i)];
    if (IsSum(loss)) {
      totals_[numbers_.share(i)] += share;
      totals_[numbers_.weight(i)] = 1;
      continue;
    }
    const bool by_weight = ComparesClasses(program, program.loss(i));
    double weight = by_weight ? sums[numbers_.weight(i)] : static_cast<double>(program.batch());
    if (weight == 0) continue;        // without a target that counts, the batch has no mean
    if (own_ != nullptr) weight = 1;  // each volume is a batch, and counts as much as any other
    totals_[numbers_.share(i)] += share * weight;
    totals_[numbers_.weight(i)] += weight;
  }
}

EvaluationReport Evaluator::report() const {
  EvaluationReport report;
  report.dataset = dataset_;
  report.samples = samples_;
  for (int i = 0; i < losses_; ++i) {
    report.loss += totals_[numbers_.share(i)] / totals_[numbers_.weight(i)];
  }
  if (samples_ == 0) report.loss = 0;
  const auto first = numbers_.hits().find(1);
  if (first != numbers_.hits().end()) {
    report.hits = EvaluationReport::Hits{static_cast<int64_t>(totals_[first->second]),
                                         static_cast<int64_t>(totals_[numbers_.counted()])};
  }
  report.metrics = MetricValues(numbers_, totals_, range_);
  return report;
}

}  // namespace adjoin
