#include "worker/runtime/evaluator.h"

#include <map>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "base/status_macros.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"

namespace adjoin {
namespace {

// How many of this rank's predictions [n, classes, ...] have their largest class where the targets [n, ...] say.
double CountCorrect(const torch::Tensor& prediction, const torch::Tensor& target) {
  if (target.numel() == 0 || prediction.numel() == 0) return 0;
  return static_cast<double>(prediction.argmax(1).eq(target).sum().item<int64_t>());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const Plan& plan, Communicator* communicator,
                                                             Parameters* parameters, const std::string& data_root,
                                                             const LayerRegistry& registry) {
  std::unique_ptr<Evaluator> evaluator(new Evaluator);
  evaluator->report_.dataset = plan.spec().evaluate().dataset();
  ADJOIN_ASSIGN_OR_RETURN(evaluator->data_, ShardReader::Create(plan, evaluator->report_.dataset, data_root,
                                                                communicator->rank()));
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

absl::Status Evaluator::RunStep() {
  const int64_t first = step_ * full_->program().batch();
  Network& network = first + full_->program().batch() <= data_->samples() ? *full_ : *tail_;
  const ProgramPlan& program = network.program();
  std::vector<double> sums;
  try {
    torch::NoGradGuard no_grad;
    ADJOIN_ASSIGN_OR_RETURN(const auto fields, data_->Read(program, /*epoch=*/0, first));
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
    // The first loss says what is predicted and what would be right.
    double correct = 0;
    double counted = 0;
    if (program.loss_size() > 0) {
      const torch::Tensor& prediction = result.predictions.at(program.value(program.loss(0).input()).name());
      const torch::Tensor& target = fields.at(program.value(program.loss(0).target()).name());
      correct = CountCorrect(prediction, target);
      counted = prediction.numel() == 0 ? 0 : static_cast<double>(target.numel());
    }
    const double share = result.loss.defined() ? result.loss.item<double>() : 0;
    ADJOIN_ASSIGN_OR_RETURN(sums, network.SumOverRanks({share, correct, counted}));
  } catch (...) {
    return StatusFromCurrentException();
  }
  const double before = static_cast<double>(report_.samples);
  report_.samples += program.batch();
  report_.loss += (sums[0] - report_.loss) * (static_cast<double>(program.batch()) / (before + program.batch()));
  report_.correct += static_cast<int64_t>(sums[1]);
  report_.counted += static_cast<int64_t>(sums[2]);
  ++step_;
  return absl::OkStatus();
}

}  // namespace adjoin
