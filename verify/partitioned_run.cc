#include "verify/partitioned_run.h"

#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layout_proto.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/box.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/rank_threads.h"
#include "primitives/transport/transport.h"
#include "worker/training/optimizer.h"

namespace adjoin {
namespace {

// The deadline of all steps on all ranks; a user's model may be slow on the threads of one machine.
constexpr absl::Duration kRunTimeout = absl::Hours(2);

class Rank {
 public:
  Rank(const Plan& plan, const ProgramPlan& program, const PartitionedInput& input, Transport& transport)
      : plan_(plan),
        program_(program),
        input_(input),
        communicator_(&transport, &memory_, {.id = 0, .timeout = kRunTimeout}),
        rank_(transport.rank()) {}

  absl::Status Run(RankSteps& steps) {
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan_, rank_));
    ADJOIN_RETURN_IF_ERROR(SetParameters(parameters));
    ADJOIN_ASSIGN_OR_RETURN(auto network,
                            Network::Create(plan_, kVerifiedProgram, &communicator_, &parameters, *input_.layers));
    ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan_, &communicator_, &parameters));
    network->SumInBackward(sync.get());
    ADJOIN_ASSIGN_OR_RETURN(auto optimizer, TrainOptimizer::Create(plan_.spec().train(), parameters));
    for (const NamedTensors& fields : input_.fields) {
      RankStep step;
      ADJOIN_RETURN_IF_ERROR(
          RunStep(fields, *network, parameters, *sync, *optimizer, static_cast<int64_t>(steps.size()), step));
      steps.push_back(std::move(step));
    }
    return absl::OkStatus();
  }

  // Runs the batch of the first of the input's fields.
  absl::Status RunForward(NamedTensors& values) {
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan_, rank_));
    ADJOIN_RETURN_IF_ERROR(SetParameters(parameters));
    ADJOIN_ASSIGN_OR_RETURN(auto network,
                            Network::Create(plan_, program_.name(), &communicator_, &parameters, *input_.layers));
    ADJOIN_ASSIGN_OR_RETURN(const NamedTensors fields, LocalFields(input_.fields.front()));
    at::NoGradGuard no_grad;
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network->Forward(fields, tape, /*keep_values=*/true));
    for (const auto& [name, value] : result.values) values[name] = value.detach().clone();
    return absl::OkStatus();
  }

 private:
  absl::Status SetParameters(Parameters& parameters) const {
    for (int i = 0; i < parameters.size(); ++i) {
      auto found = input_.parameters.find(parameters.name(i));
      if (found == input_.parameters.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the serial model has no parameter \"", parameters.name(i), "\", which the plan has"));
      }
      ADJOIN_RETURN_IF_ERROR(parameters.SetFromGlobal(i, found->second));
    }
    for (const auto& entry : input_.parameters) {
      if (!parameters.IndexOf(entry.first).ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the plan has no parameter \"", entry.first, "\", which the serial model has"));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NamedTensors> LocalFields(const NamedTensors& whole) const {
    NamedTensors local;
    for (const ValuePlan& value : program_.value()) {
      if (value.field().empty()) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
      auto found = whole.find(value.field());
      if (found == whole.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the plan reads field \"", value.field(), "\", which the serial model does not"));
      }
      local[value.name()] = PartOnRank(found->second, layout, rank_).clone();
    }
    return local;
  }

  absl::Status RunStep(const NamedTensors& whole, Network& network, Parameters& parameters, GradientSync& sync,
                       TrainOptimizer& optimizer, int64_t number, RankStep& step) {
    ADJOIN_ASSIGN_OR_RETURN(const NamedTensors fields, LocalFields(whole));
    for (int i = 0; i < parameters.size(); ++i) at::Tensor(parameters.tensor(i)).mutable_grad().reset();
    network.SetPlace(number, /*first_sample=*/0);
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape, /*keep_values=*/true));
    KeepCotangents(result, step);
    try {
      tape.Backward(result.loss);
    } catch (...) {
      return StatusFromCurrentException();
    }
    for (const auto& [name, value] : result.values) {
      step.values[name] = value.detach().clone();
      if (value.is_leaf() && value.grad().defined()) step.cotangents[name] = value.grad().clone();
    }
    ADJOIN_RETURN_IF_ERROR(sync.Sync());
    const double share = result.loss.defined() ? result.loss.item<double>() : 0;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network.SumOverRanks({share}));
    step.loss = sums[0];
    for (int i = 0; i < parameters.size(); ++i) {
      const at::Tensor grad = parameters.tensor(i).grad();
      step.parameter_grads.push_back(grad.defined() ? grad.clone() : at::Tensor());
    }
    try {
      optimizer.Step(number);
    } catch (...) {
      return StatusFromCurrentException();
    }
    for (int i = 0; i < parameters.size(); ++i) step.parameters.push_back(parameters.tensor(i).detach().clone());
    return absl::OkStatus();
  }

  // Keeps the gradients of all values but leaves, which have theirs, and notes which are one tensor under several
  // names. LibTorch's retain_grad fails where a movement's backward runs without a gradient of what it returned, as
  // behind a layer that nothing reads.
  void KeepCotangents(const Network::Result& result, RankStep& step) const {
    std::map<const c10::TensorImpl*, std::string> first;
    for (const ValuePlan& value : program_.value()) {
      const at::Tensor tensor = result.values.at(value.name());
      const auto [earlier, is_new] = first.emplace(tensor.unsafeGetTensorImpl(), value.name());
      if (!is_new) step.same_as[value.name()] = earlier->second;
      if (!tensor.requires_grad() || tensor.is_leaf()) continue;
      static_cast<const at::TensorBase&>(tensor).register_hook(
          [&step, name = value.name()](const at::TensorBase& grad) {
            if (grad.defined()) step.cotangents[name] = at::Tensor(grad).clone();
          });
    }
  }

  const Plan& plan_;
  const ProgramPlan& program_;
  const PartitionedInput& input_;
  HostMemory memory_;
  Communicator communicator_;
  const int rank_;
};

}  // namespace

at::Tensor PartOnRank(const at::Tensor& whole, const Layout& layout, int rank) {
  const Box box = layout.BoxOf(rank);
  at::Tensor part = whole;
  for (int dim = 0; dim < box.dims(); ++dim) part = part.narrow(dim, box[dim].lo, box[dim].size());
  return part;
}

absl::StatusOr<const ProgramPlan*> VerifiedProgramOf(const Plan& plan) {
  if (const ProgramPlan* program = FindProgram(plan, kVerifiedProgram)) return program;
  return absl::InternalError(absl::StrCat("the plan has no program \"", kVerifiedProgram, "\""));
}

absl::StatusOr<std::vector<RankSteps>> RunPartitioned(const Plan& plan, const PartitionedInput& input) {
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, VerifiedProgramOf(plan));
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<RankSteps> steps(ranks);
  const auto run = [&](Transport& transport) {
    return Rank(plan, *program, input, transport).Run(steps[transport.rank()]);
  };
  ADJOIN_RETURN_IF_ERROR(RunRanksInMemory(ranks, run, kRunTimeout));
  return steps;
}

absl::StatusOr<std::vector<NamedTensors>> RunForward(const Plan& plan, const ProgramPlan& program,
                                                     const PartitionedInput& input) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<NamedTensors> values(ranks);
  const auto run = [&](Transport& transport) {
    return Rank(plan, program, input, transport).RunForward(values[transport.rank()]);
  };
  ADJOIN_RETURN_IF_ERROR(RunRanksInMemory(ranks, run, kRunTimeout));
  return values;
}

}  // namespace adjoin
