#include "planner/memory/step_simulation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "planner/memory/local_sizes.h"
#include "planner/memory/tensor_bytes.h"
#include "planner/plan/gradient_buckets.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

// Executions of each movement in each direction that may be sent ahead, as Communicator::kMostAhead.
constexpr int64_t kMostSentAhead = 2;

}  // namespace

absl::Status StepSimulation::PrepareLayer(int index) {
  const LayerPlan& layer = program_.layer(index);
  ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(plan_, program_, layer, rank_, &geometry_));
  Step step;
  step.name = layer.name();
  step.layer = index;
  for (int i = 0; i < layer.input_size(); ++i) {
    step.input.push_back(layer.input(i));
    step.read.push_back({.bytes = BytesOf(local.sizes.input[i], local.input_type[i]),
                         .moved = local.moved[i],
                         .needs_grad = program_.value(layer.input(i)).needs_grad()});
  }
  step.computed = BytesOf(local.sizes.output, local.sizes.type);
  step.output = value_bytes_[layer.output()];
  step.output_moved = OperatorOf(program_, layer, kRoleOutput) != nullptr;
  step.needs_grad = program_.value(layer.output()).needs_grad();
  for (const ParameterUse& use : layer.parameter()) {
    const OperatorPlan* op = OperatorOf(program_, layer, use.role());
    const bool starts = op != nullptr && !(stages_.has_value() && stages_->Between(*op));
    step.starts_parameters = step.starts_parameters || starts;
    if (plan_.parameter(use.index()).buffer()) continue;  // local.parameter has none
    const size_t i = step.parameter.size();
    step.parameter.push_back({.bytes = BytesOf(local.sizes.parameter[i], local.sizes.type),
                              .home = local.parameter[i].home_bytes,
                              .copied = local.parameter[i].copied,
                              .moves = op != nullptr,
                              .starts = starts,
                              .moved = local.parameter[i].moved_bytes,
                              .trained = !plan_.parameter(use.index()).frozen(),
                              .index = use.index()});
  }
  step.memory = MemoryOf(layer, local.sizes);
  layers_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status StepSimulation::PrepareLoss(int index) {
  const LossPlan& loss = program_.loss(index);
  ADJOIN_ASSIGN_OR_RETURN(LocalSizes local, LocalSizesOf(program_, loss, rank_));
  Step step;
  step.name = absl::StrCat(loss.spec().kind(), " of ", program_.value(loss.input()).name());
  step.needs_grad = program_.training();
  step.memory = MemoryOfLoss(loss.spec(), local.sizes);
  std::vector<uint32_t> inputs = {loss.input()};
  if (loss.has_variance()) {
    // It is as large as the prediction, and kept as well.
    inputs.push_back(loss.variance());
    step.memory.keeps_input.push_back(true);
    step.memory.gradient.push_back(GradientOf::kOwn);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    step.input.push_back(inputs[i]);
    step.read.push_back({.bytes = BytesOf(local.sizes.input[0], local.sizes.type),
                         .moved = local.moved[i],
                         .needs_grad = program_.value(inputs[i]).needs_grad()});
  }
  losses_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status StepSimulation::PrepareSums() {
  if (!program_.training()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan_));
  for (const GradientSum& planned : sums) {
    // Not by the geometry, which knows messages by their addresses: these are gone soon.
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(planned.movement.to()));
    const int64_t bytes = BytesOf(home.LocalShape(rank_), home.dtype());
    sums_.push_back({bytes, planned.parameters.size() > 1 ? bytes : 0});
  }
  complete_sums_ = SumsCompleteAt(sums, program_);
  return absl::OkStatus();
}

// What is sent from one stage to another stays until it has been sent, and the rank goes on meanwhile.
absl::Status StepSimulation::PrepareStages() {
  if (!program_.training() || plan_.spec().train().microbatches_in_flight() <= 1) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(stages_, PipelineStages::Of(plan_));
  microbatches_ = stages_->in_flight(rank_);
  const auto add = [this](const Distribution& side) {
    const int64_t bytes = BytesOf(side.View(rank_).shape, side.dtype());
    sent_ahead_ = std::min(kMostBytes, sent_ahead_ + BoundedProduct({bytes, kMostSentAhead}));
  };
  for (const OperatorPlan& op : program_.op()) {
    if (!stages_->Between(op)) continue;
    ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(op));
    add(ends.from);
    if (op.differentiable()) add(ends.to);
  }
  return absl::OkStatus();
}

absl::Status StepSimulation::Prepare() {
  ADJOIN_RETURN_IF_ERROR(PrepareStages());
  for (const ValuePlan& value : program_.value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry_.LayoutOf(value.layout()));
    int64_t bytes = BytesOf(layout->LocalShape(rank_), layout->dtype());
    if (value.has_read()) {
      ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(value.read()));
      bytes = BytesOf(ends.to.View(rank_).shape, ends.to.dtype());
    }
    value_bytes_.push_back(bytes);
  }
  for (int i = 0; i < program_.layer_size(); ++i) ADJOIN_RETURN_IF_ERROR(PrepareLayer(i));
  for (int i = 0; i < program_.loss_size(); ++i) ADJOIN_RETURN_IF_ERROR(PrepareLoss(i));
  ADJOIN_RETURN_IF_ERROR(PrepareSums());
  ADJOIN_ASSIGN_OR_RETURN(recomputed_, RecomputedRuns(program_));
  stretches_ = StretchesOf(program_, recomputed_);
  kept_inputs_.resize(recomputed_.size());
  has_gradient_.assign(plan_.parameter_size(), plan_.spec().train().microbatches() > 1);
  read_last_ = ReadLast(program_);
  return absl::OkStatus();
}

StepSimulation::Tensor StepSimulation::Forward(Step& step, const std::vector<Tensor>& values, bool graph) {
  ledger_.Enter(absl::StrCat("forward pass of \"", step.name, "\""));
  const bool keeps = graph && step.needs_grad;
  const auto made = [&](int64_t bytes) { return NewTensor(bytes, MemoryPart::kActivations, step.layer); };
  const auto wide = [&](int64_t bytes) { return step.memory.in_sum_type ? 2 * bytes : bytes; };
  std::vector<Tensor> held;
  for (size_t i = 0; i < step.input.size(); ++i) {
    Tensor x = values[step.input[i]];
    if (step.read[i].moved) {
      x = made(step.read[i].bytes);
    } else {
      ledger_.Hold(x);
    }
    if (i == 0 && step.memory.in_sum_type) {
      const Tensor copy = made(wide(step.read[i].bytes));
      ledger_.Drop(x);
      x = copy;
    }
    held.push_back(x);
  }
  std::vector<Tensor> parameters;
  for (Parameter& parameter : step.parameter) {
    Tensor came = std::exchange(parameter.ahead, kNone);
    if (came == kNone && parameter.cast()) came = made(parameter.moved);
    const bool as_it_came = came != kNone && !parameter.cast();
    if (parameter.copied) parameters.push_back(as_it_came ? came : made(parameter.bytes));
    if (parameter.cast()) ledger_.Drop(came);
  }
  std::vector<Tensor> more;
  if (step.memory.keeps > 0) more.push_back(made(step.memory.keeps));
  const Tensor work = NewTensor(step.memory.forward_work, MemoryPart::kWork, step.layer);
  Tensor output = kNone;
  if (step.memory.view) {
    ledger_.Hold(output = held[0]);
  } else {
    output = made(wide(step.computed));
  }
  ledger_.Drop(work);
  if (step.memory.in_sum_type && !step.memory.view && step.layer >= 0) {
    const Tensor copy = made(step.computed);
    if (keeps && step.memory.keeps_output) {
      step.kept.push_back(output);
    } else {
      ledger_.Drop(output);
    }
    output = copy;
  } else if (keeps && step.memory.keeps_output) {
    ledger_.Hold(output);
    step.kept.push_back(output);
  }
  if (step.output_moved) {
    const Tensor moved = made(step.output);
    ledger_.Drop(output);
    output = moved;
  }
  for (size_t i = 0; i < held.size(); ++i) {
    if (keeps && i == 0 && step.memory.keeps_value) {
      const Tensor value = values[step.input[0]];
      ledger_.Hold(value);
      step.kept.push_back(value);
      ledger_.Drop(held[0]);
    } else if (keeps && step.memory.keeps_input[i]) {
      step.kept.push_back(held[i]);
    } else {
      ledger_.Drop(held[i]);
    }
  }
  for (const Tensor tensor : more) keeps ? step.kept.push_back(tensor) : ledger_.Drop(tensor);
  const bool are_read = !step.memory.parameters_for_input || step.read[0].needs_grad;
  for (const Tensor tensor : parameters) {
    keeps&& step.memory.keeps_parameters&& are_read ? step.kept.push_back(tensor) : ledger_.Drop(tensor);
  }
  return output;
}

void StepSimulation::StartParameters(int layer) {
  if (!layers_[layer].starts_parameters) return;
  ledger_.Enter(absl::StrCat("forward pass of \"", layers_[layer].name, "\""));
  for (Parameter& parameter : layers_[layer].parameter) {
    if (parameter.starts) parameter.ahead = NewTensor(parameter.moved, MemoryPart::kActivations, layer);
  }
}

// LibTorch adds in place to a sum that nothing else holds.
void StepSimulation::AddGradient(Tensor& sum, Tensor more, int64_t bytes, int layer) {
  if (sum == kNone) {
    sum = more;
    return;
  }
  if (ledger_.IsLast(sum) && ledger_.BytesOf(sum) == bytes) {
    ledger_.Drop(more);
    return;
  }
  const Tensor added = NewTensor(bytes, MemoryPart::kActivations, layer);
  ledger_.Drop(sum);
  ledger_.Drop(more);
  sum = added;
}

void StepSimulation::TakeGradient(Tensor gradient, uint32_t parameter) {
  if (has_gradient_[parameter]) ledger_.Drop(gradient);
  has_gradient_[parameter] = true;
}

void StepSimulation::Finish(const std::vector<GradientAhead>& travelled) {
  for (const GradientAhead& gradient : travelled) {
    ledger_.Drop(gradient.sent);
    TakeGradient(gradient.home, gradient.parameter);
  }
}

void StepSimulation::BackwardOfLayer(int layer, std::vector<Tensor>& gradients, bool ahead) {
  const std::vector<GradientAhead> travelled = std::exchange(gradients_ahead_, {});
  Backward(layers_[layer], gradients, ahead);
  Finish(travelled);
}

void StepSimulation::Backward(Step& step, std::vector<Tensor>& gradients, bool ahead) {
  ledger_.Enter(absl::StrCat("backward pass of \"", step.name, "\""));
  const auto made = [&](int64_t bytes) { return NewTensor(bytes, MemoryPart::kActivations, step.layer); };
  const auto wide = [&](int64_t bytes) { return step.memory.in_sum_type ? 2 * bytes : bytes; };
  Tensor g = kNone;
  if (step.layer >= 0) {
    g = std::exchange(gradients[program_.layer(step.layer).output()], kNone);
    if (g == kNone) {
      for (const Tensor tensor : std::exchange(step.kept, {})) ledger_.Drop(tensor);
      return;
    }
    if (step.output_moved || (step.memory.in_sum_type && !step.memory.view)) {
      const Tensor moved = made(wide(step.computed));
      ledger_.Drop(g);
      g = moved;
    }
  }
  // A part of what a concatenation got, whose channels do not lie together.
  Tensor copy = kNone;
  if (g != kNone && step.memory.copies_gradient && ledger_.BytesOf(g) > step.output) copy = made(step.computed);
  std::vector<Tensor> found(step.input.size(), kNone);
  for (size_t i = 0; i < step.input.size(); ++i) {
    if (!step.read[i].needs_grad) continue;
    if (g != kNone && step.memory.gradient[i] == GradientOf::kView) {
      ledger_.Hold(found[i] = g);
    } else {
      found[i] = made(i == 0 ? wide(step.read[i].bytes) : step.read[i].bytes);
    }
  }
  std::vector<Tensor> of_parameters;
  for (const Parameter& parameter : step.parameter) {
    of_parameters.push_back(parameter.trained ? NewTensor(parameter.bytes, MemoryPart::kGradients, step.layer) : kNone);
  }
  int64_t work = step.memory.backward_work;
  // What was read is made again of the value, and gone before the gradient in its place is made.
  if (step.memory.keeps_value && !step.read[0].needs_grad) work += step.read[0].bytes;
  ledger_.Drop(NewTensor(work, MemoryPart::kWork, step.layer));
  if (copy != kNone) ledger_.Drop(copy);
  if (g != kNone) ledger_.Drop(g);
  for (const Tensor tensor : std::exchange(step.kept, {})) ledger_.Drop(tensor);
  for (size_t i = 0; i < step.parameter.size(); ++i) {
    const Parameter& parameter = step.parameter[i];
    if (!parameter.trained) continue;
    Tensor gradient = of_parameters[i];
    if (parameter.cast()) {
      // It is sent in the parameter's own type.
      const Tensor sent = NewTensor(parameter.moved, MemoryPart::kGradients, step.layer);
      ledger_.Drop(std::exchange(gradient, sent));
    }
    if (parameter.copied) {
      const Tensor home = NewTensor(parameter.home, MemoryPart::kGradients, step.layer);
      if (ahead && parameter.starts) {
        gradients_ahead_.push_back({gradient, home, parameter.index});
        continue;
      }
      ledger_.Drop(std::exchange(gradient, home));
    }
    TakeGradient(gradient, parameter.index);
  }
  for (size_t i = 0; i < step.input.size(); ++i) {
    if (found[i] == kNone) continue;
    const int64_t bytes = value_bytes_[step.input[i]];
    if (step.read[i].moved || (i == 0 && step.memory.in_sum_type)) {
      const Tensor moved = made(bytes);
      ledger_.Drop(found[i]);
      found[i] = moved;
    }
    AddGradient(gradients[step.input[i]], found[i], bytes, step.layer);
  }
}

void StepSimulation::ForgetAfter(int layer, std::vector<Tensor>& values) {
  for (const uint32_t value : read_last_[layer]) {
    if (values[value] != kNone) ledger_.Drop(std::exchange(values[value], kNone));
  }
}

void StepSimulation::ForwardRun(int first, int end, std::vector<Tensor>& values, bool graph) {
  for (int i = first; i < end; ++i) {
    if (i + 1 < end) StartParameters(i + 1);
    values[program_.layer(i).output()] = Forward(layers_[i], values, graph);
    ForgetAfter(i, values);
  }
}

void StepSimulation::RunAgain(const RecomputedRun& run, std::vector<Tensor>& gradients) {
  std::vector<Tensor> own(program_.value_size(), kNone);
  const size_t index = static_cast<size_t>(&run - recomputed_.data());
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    ledger_.Hold(own[run.inputs[i]] = kept_inputs_[index][i]);
  }
  ForwardRun(run.first, run.end, own, /*graph=*/true);
  for (int i = run.end - 1; i >= run.first; --i) BackwardOfLayer(i, gradients, /*ahead=*/i > run.first);
  for (const Tensor tensor : own) {
    if (tensor != kNone) ledger_.Drop(tensor);
  }
  for (const Tensor tensor : std::exchange(kept_inputs_[index], {})) ledger_.Drop(tensor);
}

// A sum that is over leaves its result in the place of the gradients.
void StepSimulation::StartSums(int first, int end) {
  std::vector<int> complete;
  for (int i = first; i < end; ++i) {
    complete.insert(complete.end(), complete_sums_[i].begin(), complete_sums_[i].end());
  }
  std::sort(complete.begin(), complete.end());
  for (const int index : complete) {
    const Sum& sum = sums_[index];
    while (!sums_in_flight_.empty() && bytes_in_flight_ + sum.result > kMostSumsInFlight) {
      ledger_.Drop(sums_in_flight_.front().first);
      bytes_in_flight_ -= sums_in_flight_.front().second;
      sums_in_flight_.pop_front();
    }
    sums_in_flight_.emplace_back(NewTensor(sum.result + sum.bucket, MemoryPart::kGradients, first), sum.result);
    bytes_in_flight_ += sum.result;
  }
}

// The rank has most when it is through the forward pass of the last one that it keeps.
void StepSimulation::Run() {
  if (sent_ahead_ > 0) NewTensor(sent_ahead_, MemoryPart::kWork, -1);
  if (microbatches_ > 1) {
    RunForward();
    KeepForLater();
  }
  RunForward();
  if (program_.training()) RunBackward();
}

// The other passes before the last one keep as much, so they are not run.
void StepSimulation::KeepForLater() {
  std::set<Tensor> seen;
  const auto keep = [&](std::vector<Tensor>& tensors, int layer) {
    int64_t bytes = 0;
    for (const Tensor tensor : std::exchange(tensors, {}))
      bytes += seen.insert(tensor).second ? ledger_.BytesOf(tensor) : 0;
    if (bytes > 0 && microbatches_ > 2)
      NewTensor(BoundedProduct({bytes, microbatches_ - 2}), MemoryPart::kActivations, layer);
  };
  for (size_t i = 0; i < layers_.size(); ++i) keep(layers_[i].kept, static_cast<int>(i));
  for (Step& loss : losses_) keep(loss.kept, -1);
  for (size_t i = 0; i < kept_inputs_.size(); ++i) keep(kept_inputs_[i], recomputed_[i].first);
}

void StepSimulation::RunForward() {
  std::vector<Tensor> values(program_.value_size(), kNone);
  for (int i = 0; i < program_.value_size(); ++i) {
    if (!program_.value(i).field().empty()) values[i] = NewTensor(value_bytes_[i], MemoryPart::kFields, -1);
  }
  for (size_t n = 0; n < stretches_.size(); ++n) {
    const LayerStretch& stretch = stretches_[n];
    if (n + 1 < stretches_.size()) StartParameters(stretches_[n + 1].first);
    if (stretch.again == nullptr) {
      ForwardRun(stretch.first, stretch.end, values, program_.training());
      continue;
    }
    std::vector<Tensor>& inputs = kept_inputs_[stretch.again - recomputed_.data()];
    std::vector<Tensor> own(program_.value_size(), kNone);
    for (const uint32_t input : stretch.again->inputs) {
      inputs.push_back(values[input]);
      ledger_.Hold(values[input]);
      ledger_.Hold(own[input] = values[input]);
    }
    ForwardRun(stretch.first, stretch.end, own, /*graph=*/false);
    for (const uint32_t output : stretch.again->outputs) values[output] = std::exchange(own[output], kNone);
    for (const Tensor tensor : own) {
      if (tensor != kNone) ledger_.Drop(tensor);
    }
    for (int i = stretch.first; i < stretch.end; ++i) ForgetAfter(i, values);
  }
  std::vector<Tensor> shares;
  for (Step& loss : losses_) shares.push_back(Forward(loss, values, program_.training()));
  for (Tensor& value : values) {
    if (value != kNone) ledger_.Drop(std::exchange(value, kNone));
  }
}

void StepSimulation::RunBackward() {
  std::vector<Tensor> gradients(program_.value_size(), kNone);
  for (auto loss = losses_.rbegin(); loss != losses_.rend(); ++loss) Backward(*loss, gradients, /*ahead=*/false);
  bool late = false;  // the sums of the stretch after wait for gradients that travel
  for (size_t n = stretches_.size(); n-- > 0;) {
    const LayerStretch& stretch = stretches_[n];
    const bool ahead = n > 0 && stretch.again == nullptr && layers_[stretch.first].starts_parameters;
    if (stretch.again != nullptr) {
      const std::vector<GradientAhead> travelled = std::exchange(gradients_ahead_, {});
      RunAgain(*stretch.again, gradients);
      Finish(travelled);
    } else {
      BackwardOfLayer(stretch.first, gradients, ahead);
    }
    if (late) StartSums(stretches_[n + 1].first, stretches_[n + 1].end);
    late = ahead;
    if (!late) StartSums(stretch.first, stretch.end);
  }
}

}  // namespace adjoin
