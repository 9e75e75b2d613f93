#include "worker/calibration/kernel_timer.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randint.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/rules/layout_proto.h"
#include "planner/memory/local_sizes.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "planner/time/kernel_work.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/torch_dtype.h"
#include "primitives/transport/in_memory_transport.h"
#include "worker/training/optimizer.h"

namespace adjoin {
namespace {

// A job trains something; this layer is taken out of the program.
constexpr char kTrained[] = "layer { name: \"trained\" input: \"of_trained\" linear { out_features: 1 } }\n";
constexpr char kSgd[] = "sgd { lr: 0.1 }";

// Seconds of each direction, of one run after the other.
class Times {
 public:
  void Add(double forward, double backward) {
    forward_.push_back(forward);
    backward_.push_back(backward);
  }
  size_t count() const { return forward_.size(); }
  double forward() const { return LowerQuartile(forward_); }
  double backward() const { return LowerQuartile(backward_); }

 private:
  static double LowerQuartile(std::vector<double> times) {
    if (times.empty()) return 0;
    std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
    return times[times.size() / 4];
  }
  std::vector<double> forward_, backward_;
};

double Since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds for which this thread has had a core: what else runs on the machine does not count. Kernels of a rank run on
// the thread that calls them.
double OnCore() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs it once more than it counts: the first time also makes what later ones use again.
Times Repeat(absl::Duration limit, const std::function<void(Times&)>& run) {
  constexpr size_t kMost = 200;
  Times first, times;
  run(first);
  const auto begin = std::chrono::steady_clock::now();
  while (times.count() < 2 || (Since(begin) < absl::ToDoubleSeconds(limit) && times.count() < kMost)) run(times);
  return times;
}

std::string FieldText(const std::string& name, const std::vector<int64_t>& shape, bool indices) {
  return absl::StrCat("field { name: \"", name, "\" idx { path: \"", name, "\" } ", indices ? "dtype: \"int64\" " : "",
                      "shape: [", absl::StrJoin(shape, ", "), "] }\n");
}

// A job of one rank. `layers`: its network, whose last layer is named "last".
std::string JobText(const KernelCase& kernel, const std::string& layers, const std::string& what,
                    const std::string& more_fields) {
  std::string fields;
  const std::vector<int64_t> shape(kernel.shape.begin() + 1, kernel.shape.end());
  for (int i = 0; i < kernel.inputs; ++i) {
    absl::StrAppend(&fields, FieldText(absl::StrCat("x", i), shape, kernel.indices));
  }
  return absl::StrCat("name: \"calibration\" ranks: 1\nprecision { compute: \"", kernel.type, "\" params: \"",
                      kernel.type == "float64" ? "float64" : "float32", "\" }\n", kTrained, layers, what,
                      "dataset { name: \"data\" ", fields, FieldText("of_trained", {1}, false), more_fields, "}\n");
}

std::string TrainText(const KernelCase& kernel, const std::string& layers, const std::string& loss,
                      const std::vector<int64_t>& target, const std::string& optimizer = kSgd) {
  const std::string what =
      absl::StrCat("kind: TRAIN train { dataset: \"data\" batch: ", kernel.shape[0], " steps: 1 optimizer { ",
                   optimizer, " } }\nloss { kind: \"", loss, "\" input: \"last\" target: \"t\" }\n");
  return JobText(kernel, layers, what, FieldText("t", target, loss == "cross_entropy"));
}

absl::StatusOr<Plan> PlanOf(const std::string& job, int64_t batch) {
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(job, "calibration"));
  return Planner::Build(parsed.spec, {{"data", batch}}, BuiltinLayerRules());
}

std::string NamedInputs(const KernelCase& kernel) {
  std::string inputs;
  for (int i = 0; i < kernel.inputs; ++i) absl::StrAppend(&inputs, "input: \"x", i, "\" ");
  return inputs;
}

// A network that is one rank's alone.
struct Alone {
  // `keeps_loss`: otherwise the network ends with its last layer.
  static absl::StatusOr<std::unique_ptr<Alone>> Create(const std::string& job, int64_t batch, bool keeps_loss) {
    auto alone = std::make_unique<Alone>();
    ADJOIN_ASSIGN_OR_RETURN(alone->plan, PlanOf(job, batch));
    alone->plan.mutable_program(0)->mutable_layer()->DeleteSubrange(0, 1);
    if (!keeps_loss) alone->plan.mutable_program(0)->clear_loss();
    ADJOIN_ASSIGN_OR_RETURN(alone->fabric, InMemoryFabric::Create(1, {}));
    ADJOIN_ASSIGN_OR_RETURN(alone->transport, alone->fabric->CreateTransport(0));
    alone->communicator =
        std::make_unique<Communicator>(alone->transport.get(), &alone->memory, Communicator::Options());
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(alone->plan, 0));
    alone->parameters = std::make_unique<Parameters>(std::move(parameters));
    alone->parameters->Initialise(1);
    ADJOIN_ASSIGN_OR_RETURN(alone->network, Network::Create(alone->plan, "train", alone->communicator.get(),
                                                            alone->parameters.get(), BuiltinLayers()));
    return alone;
  }

  // The network of a layer, without a loss: what it would be compared with depends on the output's shape.
  static absl::StatusOr<std::unique_ptr<Alone>> CreateForLayer(const KernelCase& kernel, const std::string& layers);

  const ProgramPlan& program() const { return plan.program(0); }

  // Random fields. `needs_grad`: gradients reach them, as they reach the input of a layer within a network.
  std::map<std::string, at::Tensor> Fields(bool needs_grad) const {
    std::map<std::string, at::Tensor> fields;
    for (const ValuePlan& value : program().value()) {
      if (value.field().empty()) continue;
      const std::vector<int64_t> shape(value.layout().shape().begin(), value.layout().shape().end());
      const at::ScalarType type = ScalarTypeOf(*ParseDType(value.layout().dtype()));
      constexpr int64_t kClasses = 3;
      at::Tensor field =
          at::isIntegralType(type, true) ? at::randint(kClasses, shape, type) : at::rand(shape, at::kFloat).to(type);
      if (needs_grad && value.field() != "t" && at::isFloatingType(type)) field.requires_grad_(true);
      fields[value.name()] = field;
    }
    return fields;
  }

  std::vector<at::Tensor> Leaves(const std::map<std::string, at::Tensor>& fields) const {
    std::vector<at::Tensor> leaves;
    for (const auto& [name, field] : fields) {
      if (field.requires_grad() && name != "of_trained") leaves.push_back(field);
    }
    for (const LayerPlan& layer : program().layer()) {
      for (const ParameterUse& use : layer.parameter()) {
        const at::Tensor& tensor = parameters->tensor(static_cast<int>(use.index()));
        if (tensor.requires_grad()) leaves.push_back(tensor);
      }
    }
    return leaves;
  }

  Plan plan;
  HostMemory memory;
  std::shared_ptr<InMemoryFabric> fabric;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<Network> network;
};

absl::StatusOr<std::unique_ptr<Alone>> Alone::CreateForLayer(const KernelCase& kernel, const std::string& layers) {
  const std::string what =
      "kind: PREDICT weights { init_from: \"w\" } output_dir: \"o\" predict { dataset: \"data\" input: \"last\" "
      "format: "
      "\"npy\" }\n";
  ADJOIN_ASSIGN_OR_RETURN(const Plan shapes, PlanOf(JobText(kernel, layers, what, ""), kernel.shape[0]));
  const LayerPlan& last = *shapes.program(0).layer().rbegin();
  const auto& shape = shapes.program(0).value(last.output()).layout().shape();
  return Create(TrainText(kernel, layers, "mse", {shape.begin() + 1, shape.end()}), kernel.shape[0],
                /*keeps_loss=*/false);
}

// What other layers leave in a core's cache when it comes to one of them: their own tensors.
class OtherLayers {
 public:
  void Run() { tensor_.add_(1); }

 private:
  static constexpr int64_t kElements = int64_t{1} << 18;  // 1 MiB
  at::Tensor tensor_ = at::ones({kElements}, at::kFloat);
};

Times TimesOf(Alone& alone, bool needs_grad, absl::Duration limit) {
  const std::map<std::string, at::Tensor> fields = alone.Fields(needs_grad);
  const std::vector<at::Tensor> leaves = alone.Leaves(fields);
  const bool has_loss = alone.program().loss_size() > 0;
  at::Tensor cotangent;
  OtherLayers others;
  return Repeat(limit, [&](Times& times) {
    Tape tape;
    others.Run();
    double begin = OnCore();
    auto result = alone.network->Forward(fields, tape, /*keep_values=*/!has_loss);
    const double forward = OnCore() - begin;
    ThrowIfError(result.status());
    at::Tensor last = has_loss ? result->loss : result->values["last"];
    result = Network::Result();
    if (!last.requires_grad() || leaves.empty()) return times.Add(forward, 0);
    if (!cotangent.defined()) cotangent = has_loss ? at::ones_like(last) : at::rand_like(last);
    others.Run();
    begin = OnCore();
    const std::vector<at::Tensor> gradients = tape.Grad({last}, leaves, {cotangent});
    last.reset();
    times.Add(forward, OnCore() - begin);
  });
}

KernelRate RateOf(KernelWork work) {
  KernelRate rate;
  rate.set_kind(work.kind);
  rate.set_dtype(ToString(work.type));
  for (const int64_t size : work.size) rate.add_size(size);
  rate.set_flops(work.flops);
  rate.set_bytes(work.bytes);
  return rate;
}

absl::StatusOr<KernelRate> MeasureUpdate(const KernelCase& kernel, absl::Duration limit) {
  // The one parameter is the weight of a linear layer.
  const int64_t in = kernel.shape[0] >= 4096 ? 64 : 1, out = kernel.shape[0] / in;
  const std::string layers =
      absl::StrCat("layer { name: \"last\" input: \"x0\" linear { out_features: ", out, " bias: false } }\n");
  const KernelCase job{.shape = {1, in}};
  ADJOIN_ASSIGN_OR_RETURN(
      const auto alone, Alone::Create(TrainText(job, layers, "mse", {out}, kernel.optimizer), 1, /*keeps_loss=*/true));
  ADJOIN_ASSIGN_OR_RETURN(const int index, alone->parameters->IndexOf("last.weight"));
  const at::Tensor weight = alone->parameters->tensor(index);
  for (int i = 0; i < alone->parameters->size(); ++i) {
    at::Tensor parameter = alone->parameters->tensor(i);
    parameter.mutable_grad() = at::rand_like(parameter) * 1e-3;
  }
  const Optimizer& optimizer = alone->plan.spec().train().optimizer();
  ADJOIN_ASSIGN_OR_RETURN(const auto updates, TrainOptimizer::Create(alone->plan.spec().train(), *alone->parameters));
  int64_t step = 0;
  const Times times = Repeat(limit, [&](Times& found) {
    const double begin = OnCore();
    updates->Step(step++);
    found.Add(OnCore() - begin, 0);
  });
  KernelRate rate = RateOf(WorkOfUpdate(optimizer, weight.numel(), DType::kFloat32));
  rate.set_forward_seconds(times.forward());
  return rate;
}

KernelRate MeasureSum(const KernelCase& kernel, absl::Duration limit) {
  const at::Tensor more = at::rand(kernel.shape), sum = at::rand(kernel.shape);
  const Times times = Repeat(limit, [&](Times& found) {
    const double begin = OnCore();
    at::Tensor(sum).add_(more);
    found.Add(OnCore() - begin, 0);
  });
  KernelRate rate = RateOf(WorkOfSum(kernel.shape[0], DType::kFloat32));
  rate.set_forward_seconds(times.forward());
  return rate;
}

absl::StatusOr<KernelRate> MeasureLoss(const KernelCase& kernel, const CallOverhead& overhead, absl::Duration limit) {
  const std::string layers = "layer { name: \"last\" input: \"x0\" roll { arg: [0, 0] } }\n";
  // As the loss of classes has it, a position without the channels.
  const std::vector<int64_t> target(kernel.shape.begin() + (kernel.loss == "cross_entropy" ? 2 : 1),
                                    kernel.shape.end());
  const std::string job = TrainText(kernel, layers, kernel.loss, target);
  ADJOIN_ASSIGN_OR_RETURN(const auto with, Alone::Create(job, kernel.shape[0], /*keeps_loss=*/true));
  ADJOIN_ASSIGN_OR_RETURN(const auto without, Alone::Create(job, kernel.shape[0], /*keeps_loss=*/false));
  const Times more = TimesOf(*with, /*needs_grad=*/true, limit / 2),
              less = TimesOf(*without, /*needs_grad=*/true, limit / 2);
  ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(with->program(), with->program().loss(0), 0));
  KernelRate rate = RateOf(WorkOfLoss(with->program().loss(0).spec(), local.sizes));
  rate.set_forward_seconds(std::max(more.forward() - less.forward(), overhead.launch));
  rate.set_backward_seconds(std::max(more.backward() - less.backward(), overhead.launch));
  return rate;
}

absl::StatusOr<KernelRate> MeasureLayer(const KernelCase& kernel, const CallOverhead& overhead, absl::Duration limit) {
  const std::string layers = absl::StrCat("layer { name: \"last\" ", NamedInputs(kernel), kernel.layer, " }\n");
  ADJOIN_ASSIGN_OR_RETURN(const auto alone, Alone::CreateForLayer(kernel, layers));
  const Times times = TimesOf(*alone, !kernel.first && !kernel.indices, limit);
  const LayerPlan& layer = alone->program().layer(0);
  ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(alone->plan, alone->program(), layer, 0));
  KernelWork work = WorkOf(layer.spec(), local.sizes);
  if (kernel.first) work.kind += kFirstLayer;
  KernelRate rate = RateOf(std::move(work));
  rate.set_forward_seconds(std::max(times.forward() - overhead.forward, 0.2 * times.forward()));
  rate.set_backward_seconds(std::max(times.backward() - overhead.backward, 0.2 * times.backward()));
  return rate;
}

}  // namespace

absl::StatusOr<CallOverhead> MeasureOverhead(absl::Duration limit) {
  constexpr int kLayers = 21;
  const KernelCase kernel{.shape = {1, 4}};
  try {
    std::vector<Times> times;
    for (const int count : {1, kLayers}) {
      std::string layers;
      for (int i = 0; i < count; ++i) {
        absl::StrAppend(&layers, "layer { name: \"", i + 1 == count ? "last" : absl::StrCat("l", i), "\" ",
                        i == 0 ? "input: \"x0\" " : "", i % 2 == 0 ? "reshape { arg: [4, 1] }" : "reshape { arg: [4] }",
                        " }\n");
      }
      ADJOIN_ASSIGN_OR_RETURN(const auto alone, Alone::CreateForLayer(kernel, layers));
      times.push_back(TimesOf(*alone, /*needs_grad=*/true, limit / 2));
    }
    const double forward = std::max(0.0, times[1].forward() - times[0].forward()) / (kLayers - 1),
                 backward = std::max(0.0, times[1].backward() - times[0].backward()) / (kLayers - 1);
    return CallOverhead{.launch = (forward + backward) / 2,
                        .forward = std::max(0.0, times[0].forward() - forward),
                        .backward = std::max(0.0, times[0].backward() - backward)};
  } catch (...) {
    return StatusFromCurrentException();
  }
}

absl::StatusOr<KernelRate> MeasureKernel(const KernelCase& kernel, const CallOverhead& overhead, absl::Duration limit) {
  try {
    if (kernel.sum) return MeasureSum(kernel, limit);
    if (!kernel.optimizer.empty()) return MeasureUpdate(kernel, limit);
    if (!kernel.loss.empty()) return MeasureLoss(kernel, overhead, limit);
    return MeasureLayer(kernel, overhead, limit);
  } catch (...) {
    const absl::Status status = StatusFromCurrentException();
    return absl::Status(status.code(), absl::StrCat(kernel.layer, kernel.loss, kernel.optimizer, " of [",
                                                    absl::StrJoin(kernel.shape, ", "), "]: ", status.message()));
  }
}

}  // namespace adjoin
