#include "worker/runtime/evaluator.h"

#include <map>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "base/status_macros.h"
#include "layers/plan/loss_rule.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"

namespace adjoin {
namespace {

struct Count {
  double correct = 0;
  double counted = 0;
};

// How many of this rank's predictions [n, classes, ...] have their largest class where the targets [n, ...] say; those
// that the loss ignores do not count.
Count CountCorrect(const torch::Tensor& prediction, const torch::Tensor& target, const Loss& loss) {
  if (target.numel() == 0 || prediction.numel() == 0) return {};
  const torch::Tensor right = prediction.argmax(1).eq(target);
  if (!loss.has_ignore_index()) {
    return {static_cast<double>(right.sum().item<int64_t>()), static_cast<double>(target.numel())};
  }
  const torch::Tensor counts = target != loss.ignore_index();
  return {static_cast<double>(right.logical_and(counts).sum().item<int64_t>()),
          static_cast<double>(counts.sum().item<int64_t>())};
}

// The first loss that says what is predicted and what would be right; -1 if none does.
int ClassificationOf(const ProgramPlan& program) {
  for (int i = 0; i < program.loss_size(); ++i) {
    if (IsClassification(program.loss(i).spec())) return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const Plan& plan, Communicator* communicator,
                                                             Parameters* parameters, const std::string& data_root,
                                                             const LayerRegistry& registry,
                                                             SessionActivity* activity) {
  std::unique_ptr<Evaluator> evaluator(new Evaluator);
  evaluator->activity_ = activity;
  evaluator->report_.dataset = plan.spec().evaluate().dataset();
  {
    const SessionActivity::Files files(activity);
    ADJOIN_ASSIGN_OR_RETURN(evaluator->data_, ShardReader::Create(plan, evaluator->report_.dataset, data_root,
                                                                  communicator->rank()));
  }
  ADJOIN_ASSIGN_OR_RETURN(evaluator->full_, Network::Create(plan, "evaluate", communicator, parameters, registry));
  for (const ProgramPlan& program : plan.program()) {
    if (program.name() != "evaluate_tail") continue;
    ADJOIN_ASSIGN_OR_RETURN(evaluator->tail_,
                            Network::Create(plan, "evaluate_tail", communicator, parameters, registry));
  }
  evaluator->total_steps_ =
      evaluator->data_->samples() / evaluator->full_->program().batch() + (evaluator->tail_ != nullptr ? 1 : 0);
  return evaluator;
}

absl::Status Evaluator::RunStep(bool stop_asked) {
  const int64_t first = step_ * full_->program().batch();
  Network& network = first + full_->program().batch() <= data_->samples() ? *full_ : *tail_;
  const ProgramPlan& program = network.program();
  std::vector<double> sums;
  try {
    torch::NoGradGuard no_grad;
    std::map<std::string, torch::Tensor> fields;
    {
      const SessionActivity::Files files(activity_);
      ADJOIN_ASSIGN_OR_RETURN(fields, data_->Read(program, /*epoch=*/0, first));
    }
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
    Count count;
    if (const int index = ClassificationOf(program); index >= 0) {
      const LossPlan& loss = program.loss(index);
      count = CountCorrect(result.predictions[index], fields.at(program.value(loss.target()).name()), loss.spec());
    }
    const double share = result.loss.defined() ? result.loss.item<double>() : 0;
    ADJOIN_ASSIGN_OR_RETURN(
        sums, network.SumOverRanks({share, count.correct, count.counted, stop_asked ? 1.0 : 0.0}));
  } catch (...) {
    return StatusFromCurrentException();
  }
  const double before = static_cast<double>(report_.samples);
  report_.samples += program.batch();
  report_.loss += (sums[0] - report_.loss) * (static_cast<double>(program.batch()) / (before + program.batch()));
  report_.correct += static_cast<int64_t>(sums[1]);
  report_.counted += static_cast<int64_t>(sums[2]);
  stop_asked_ = sums[3] > 0;
  ++step_;
  return absl::OkStatus();
}

}  // namespace adjoin
