#include "tests/vs_serial/partitioned_run.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameter_collect.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/device/device.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/rank_memory.h"
#include "primitives/to_device.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

const ProgramPlan& ProgramOf(const Plan& plan, const std::string& name) {
  const ProgramPlan* program = FindProgram(plan, name);
  TORCH_CHECK(program != nullptr, "no program ", name);
  return *program;
}

// Whether `rank` is the one whose copy of a broadcast value counts.
bool Counts(const Layout& layout, int rank) {
  const auto coords = layout.mesh().CoordsOf(rank);
  if (!coords.has_value()) return false;
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis].kind == Placement::Kind::kBroadcast && (*coords)[axis] > 0) return false;
  }
  return true;
}

// One rank's step.
class RankStep {
 public:
  RankStep(const Plan& plan, const StepInput& input, Transport& transport, LocalMemory& memory,
           std::shared_ptr<Device> accelerator)
      : plan_(plan),
        program_(ProgramOf(plan, input.program)),
        input_(input),
        transport_(transport),
        communicator_(&transport, &memory, {}),
        rank_(transport.rank()),
        device_(TensorDeviceOf(memory)),
        accelerator_(std::move(accelerator)) {}

  absl::Status Run(RankResult& result) {
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan_, rank_, device_));
    parameters.Initialise(plan_.spec().seed());
    for (const auto& [name, whole] : input_.parameters) {
      ADJOIN_ASSIGN_OR_RETURN(const int index, parameters.IndexOf(name));
      ADJOIN_RETURN_IF_ERROR(parameters.SetFromGlobal(index, whole));
    }
    ADJOIN_ASSIGN_OR_RETURN(auto network,
                            Network::Create(plan_, input_.program, &communicator_, &parameters, BuiltinLayers()));
    ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan_, &communicator_, &parameters));
    network->SumInBackward(sync.get());
    ADJOIN_ASSIGN_OR_RETURN(auto collect, ParameterCollect::Create(plan_, &communicator_));
    ADJOIN_ASSIGN_OR_RETURN(Tensors fields, LocalFields(program_, input_.fields, rank_));
    for (auto& [name, field] : fields) {
      field = ToDevice(field.detach(), device_).set_requires_grad(field.requires_grad());
    }

    const int64_t sent_before = transport_.BytesSent();
    const int64_t waits_before = Waits();
    double loss = 0;
    GraphNodes nodes;
    {
      Tape tape(device_);
      ADJOIN_ASSIGN_OR_RETURN(const Network::Result forward, network->Forward(fields, tape, /*keep_values=*/true));
      ADJOIN_ASSIGN_OR_RETURN(const at::Tensor root, AddCotangents(forward));
      try {
        tape.Backward(root);
      } catch (...) {
        return StatusFromCurrentException();
      }
      result.synchronizations = Waits() - waits_before;
      ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> numbers, network->ReadNumbers({forward.loss}));
      loss = numbers[0];
      for (const auto& [name, value] : forward.values) {
        result.values[name] = value.detach().to(at::kCPU);
        if (value.grad_fn() != nullptr) nodes.emplace_back(name, value.grad_fn());
      }
    }
    for (const auto& [name, node] : nodes) {
      if (!Expires(node)) return absl::InternalError(absl::StrCat("the graph of \"", name, "\" outlives its step"));
    }
    ADJOIN_RETURN_IF_ERROR(sync->Sync());
    ADJOIN_ASSIGN_OR_RETURN(const auto sums, network->SumOverRanks({loss}));
    result.bytes_sent = transport_.BytesSent() - sent_before;

    result.loss = sums[0];
    result.peak_elements = network->peak_elements();
    for (const auto& [name, field] : fields) {
      if (field.requires_grad()) {
        const at::Tensor grad = field.grad().defined() ? field.grad() : at::zeros_like(field);
        result.field_grads[name] = grad.detach().to(at::kCPU);
      }
    }
    return TakeParameters(parameters, *collect, result);
  }

 private:
  // What made the values, by their names.
  using GraphNodes = std::vector<std::pair<std::string, std::weak_ptr<torch::autograd::Node>>>;

  // With LibTorch 1 a thread of a device's drops a node a moment after the pass has ended.
  bool Expires(const std::weak_ptr<torch::autograd::Node>& node) const {
    const absl::Time end = absl::Now() + (device_.is_cpu() ? absl::ZeroDuration() : absl::Seconds(5));
    while (!node.expired()) {
      if (absl::Now() >= end) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  int64_t Waits() const { return accelerator_ != nullptr ? accelerator_->synchronizations() : 0; }

  absl::StatusOr<at::Tensor> AddCotangents(const Network::Result& forward) const {
    at::Tensor root = forward.loss;
    for (const ValuePlan& value : program_.value()) {
      auto cotangent = input_.cotangents.find(value.name());
      if (cotangent == input_.cotangents.end()) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
      if (!Counts(layout, rank_)) continue;
      const at::Tensor part = PartOf(cotangent->second, layout, rank_).to(device_);
      root = root + (forward.values.at(value.name()) * part).sum();
    }
    return root;
  }

  absl::Status TakeParameters(const Parameters& parameters, ParameterCollect& collect, RankResult& result) const {
    at::NoGradGuard no_grad;
    for (int i = 0; i < parameters.size(); ++i) {
      at::Tensor parameter = parameters.tensor(i);
      const bool frozen = parameters.frozen(i);
      if (!frozen) parameter.sub_(parameter.grad(), input_.sgd_lr);
      result.parameter.push_back(parameter.detach().to(at::kCPU));
      result.parameter_grad.push_back(frozen ? at::Tensor() : parameter.grad().to(at::kCPU));
      ADJOIN_ASSIGN_OR_RETURN(at::Tensor whole, collect.Collect(i, frozen ? parameter : parameter.grad()));
      result.collected.push_back(whole.to(at::kCPU));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const ProgramPlan& program_;
  const StepInput& input_;
  Transport& transport_;
  Communicator communicator_;
  const int rank_;
  const at::Device device_;
  const std::shared_ptr<Device> accelerator_;  // null for the host
};

// Gathers the differences, up to a handful.
class Comparison {
 public:
  Comparison(int ranks, double tolerance) : ranks_(ranks), tolerance_(tolerance) {}

  void Part(const std::string& what, int rank, const at::Tensor& actual, const at::Tensor& expected, double scale) {
    if (!actual.defined() || actual.sizes() != expected.sizes()) {
      Add(absl::StrCat(what, " on rank ", rank, " has another shape"));
    } else if (actual.numel() > 0) {
      const double error = (actual - expected).abs().max().item<double>();
      // Written so that NaN is a difference.
      if (!(error <= tolerance_ * scale)) Add(absl::StrCat(what, " on rank ", rank, " differs by ", error));
    }
  }

  template <typename PartOnRank>
  void Whole(const std::string& what, const at::Tensor& expected, const LayoutPlan& message, PartOnRank part) {
    auto layout = LayoutFromProto(message);
    if (!layout.ok()) return Add(absl::StrCat(what, ": ", layout.status().message()));
    const double scale = expected.numel() == 0 ? 1.0 : std::max(1.0, expected.abs().max().item<double>());
    for (int rank = 0; rank < ranks_; ++rank) Part(what, rank, part(rank), PartOf(expected, *layout, rank), scale);
  }

  void Add(const std::string& difference) {
    if (++count_ <= 6) absl::StrAppend(&text_, difference, "\n");
  }

  const std::string& text() const { return text_; }

 private:
  const int ranks_;
  const double tolerance_;
  int count_ = 0;
  std::string text_;
};

at::Tensor Find(const Tensors& tensors, const std::string& name) {
  auto found = tensors.find(name);
  return found == tensors.end() ? at::Tensor() : found->second;
}

}  // namespace

absl::StatusOr<Plan> PlanOf(const std::string& spec, const std::map<std::string, int64_t>& dataset_sizes) {
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(spec, "test.textproto"));
  const DatasetSizes sizes(dataset_sizes.begin(), dataset_sizes.end());
  return Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations);
}

void MakeFieldsDifferentiable(Plan& plan, const std::string& program) {
  for (ProgramPlan& candidate : *plan.mutable_program()) {
    if (candidate.name() != program) continue;
    for (ValuePlan& value : *candidate.mutable_value()) {
      if (value.layout().dtype() != "int64") value.set_needs_grad(true);
    }
    for (int i = 0; i < candidate.op_size(); ++i) {
      const auto& placements = candidate.op(i).from().placement();
      const bool maximum = std::find(placements.begin(), placements.end(), "P(max)") != placements.end();
      const bool whole_numbers = candidate.op(i).from().dtype() == "int64";
      if (i != static_cast<int>(candidate.report_op()) && !maximum && !whole_numbers) {
        candidate.mutable_op(i)->set_differentiable(true);
      }
    }
  }
}

at::Tensor PartOf(const at::Tensor& whole, const Layout& layout, int rank) {
  const Box box = layout.BoxOf(rank);
  at::Tensor part = whole;
  for (int dim = 0; dim < box.dims(); ++dim) part = part.narrow(dim, box[dim].lo, box[dim].size());
  return part;
}

absl::StatusOr<Tensors> LocalFields(const ProgramPlan& program, const Tensors& fields, int rank) {
  Tensors local;
  for (const ValuePlan& value : program.value()) {
    if (value.field().empty()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    auto whole = fields.find(value.field());
    if (whole == fields.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the test gives no field \"", value.field(), "\""));
    }
    at::Tensor part = PartOf(whole->second, layout, rank).clone();
    local[value.name()] = part.set_requires_grad(value.needs_grad());
  }
  return local;
}

absl::StatusOr<std::vector<RankResult>> RunStep(const Plan& plan, const StepInput& input) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<RankResult> results(ranks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, input.transport, input.seed, [&](Transport& transport) -> absl::Status {
    const int rank = transport.rank();
    ADJOIN_ASSIGN_OR_RETURN(const auto memory, MemoryOfRank(input.transport, rank, input.seed));
    ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, DeviceOfRank(input.transport, rank, input.seed));
    return RankStep(plan, input, transport, *memory, std::move(device)).Run(results[rank]);
  }));
  return results;
}

std::string Differences(const Plan& plan, const std::string& program, const std::vector<RankResult>& ranks,
                        const Expected& expected, double tolerance) {
  Comparison comparison(static_cast<int>(ranks.size()), tolerance);
  // A name that the plan does not have would compare nothing.
  size_t compared = 0;
  const auto compare = [&](const Tensors& whole, const std::string& name, const std::string& what,
                           const LayoutPlan& layout, auto part) {
    auto found = whole.find(name);
    if (found == whole.end()) return;
    ++compared;
    // Parameters may be stored in another shape than they lie in.
    const std::vector<int64_t> shape(layout.shape().begin(), layout.shape().end());
    comparison.Whole(what, found->second.reshape(shape), layout, part);
  };
  for (const ValuePlan& value : ProgramOf(plan, program).value()) {
    compare(expected.values, value.name(), value.name(), value.layout(),
            [&](int rank) { return Find(ranks[rank].values, value.name()); });
    compare(expected.field_grads, value.name(), absl::StrCat("gradient of ", value.name()), value.layout(),
            [&](int rank) { return Find(ranks[rank].field_grads, value.name()); });
  }
  for (int i = 0; i < plan.parameter_size(); ++i) {
    const ParameterPlan& parameter = plan.parameter(i);
    const std::string gradient = absl::StrCat("gradient of ", parameter.name());
    compare(expected.parameters, parameter.name(), parameter.name(), parameter.home(),
            [&](int rank) { return ranks[rank].parameter[i]; });
    compare(expected.parameter_grads, parameter.name(), gradient, parameter.home(),
            [&](int rank) { return ranks[rank].parameter_grad[i]; });
    const std::vector<int64_t> home(parameter.home().shape().begin(), parameter.home().shape().end());
    if (parameter.frozen()) {
      if (at::Tensor whole = Find(expected.parameters, parameter.name()); whole.defined()) {
        comparison.Part(absl::StrCat("collected ", parameter.name()), 0, ranks[0].collected[i], whole.reshape(home),
                        std::max(1.0, whole.abs().max().item<double>()));
      }
    } else if (at::Tensor whole = Find(expected.parameter_grads, parameter.name()); whole.defined()) {
      comparison.Part(absl::StrCat("collected ", gradient), 0, ranks[0].collected[i], whole.reshape(home),
                      std::max(1.0, whole.abs().max().item<double>()));
    } else {
      comparison.Add(absl::StrCat("no serial gradient of ", parameter.name(), " to compare with"));
    }
  }
  if (compared != expected.values.size() + expected.field_grads.size() + expected.parameter_grads.size() +
                      expected.parameters.size()) {
    comparison.Add("the plan lacks a value or parameter that the test expects");
  }
  return comparison.text();
}

}  // namespace adjoin
