// Times one layer, forward and backward with the gradients of input and parameters, and prints one line:
// mode, case, median and least ms per pass, MiB of memory that one process took for it at most.
//
//   bazel-bin/bench/layers --case conv2d_8x512_k3 --mode ranks      two ranks with one thread each
//                                                 --mode rank       one rank with one thread
//                                                 --mode halves     two processes of plain LibTorch that know nothing
//                                                 of
//                                                                   each other, each on half of the work, at once
//                                                 --mode serial --threads 2      plain LibTorch
//
// Float32. layers.py runs all of them in turns and compares.
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "bench/bench_ranks.h"
#include "bench/layer_cases.h"
#include "bench/protocol.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_memory.h"
#include "primitives/transport/transport.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

constexpr int64_t kTimesId = 65000;  // above those of a plan of one layer

struct Flags {
  std::string layer_case;
  std::string mode;
  int threads = 1;
  int passes = 0;        // 0: for about two seconds
  double timeout = 300;  // seconds
};

double PeakMiB() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// A job of this layer alone: y of x, with a loss that the plan needs and that is taken out of it afterwards.
absl::StatusOr<Plan> PlanFor(const LayerCase& c, int ranks) {
  const std::vector<int64_t>& shape = c.whole.x_shape;
  const std::string one = absl::StrCat("[", absl::StrJoin(shape.begin() + 1, shape.end(), ", "), "]");
  const std::string text = absl::StrCat(
      "name: 'bench' kind: TRAIN ranks: ", ranks, "\n", ranks > 1 ? c.layouts : "", "\nlayer { name: 'y' input: 'x' ",
      ranks > 1 ? c.uses : "", " ", c.layer, " }\nloss { kind: 'mse' input: 'y' target: 'target' }\n",
      "dataset { name: 'data' field { name: 'x' idx { path: 'x' } shape: ", one,
      " } field { name: 'target' idx { path: 't' } shape: ", one, " } }\n", "train { dataset: 'data' batch: ", shape[0],
      " steps: 1 optimizer { sgd { lr: 1 } } }\n");
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, "bench.textproto"));
  ADJOIN_ASSIGN_OR_RETURN(Plan plan,
                          Planner::Build(parsed.spec, {{"data", shape[0]}}, BuiltinLayerRules(), &parsed.locations));
  ProgramPlan& program = *plan.mutable_program(0);
  program.clear_loss();
  // The input's gradient is asked for, as it is of every layer but a network's first.
  for (int i = 0; i < program.op_size(); ++i) {
    if (i != static_cast<int>(program.report_op())) program.mutable_op(i)->set_differentiable(true);
  }
  for (int i = program.value_size() - 1; i >= 0; --i) {
    if (program.value(i).field() == "target") program.mutable_value()->DeleteSubrange(i, 1);
  }
  return plan;
}

// The layer of a plan on this rank.
class RankLayer {
 public:
  static absl::StatusOr<std::unique_ptr<RankLayer>> Create(const Plan& plan, Communicator* communicator) {
    auto layer = std::unique_ptr<RankLayer>(new RankLayer());
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, communicator->rank()));
    layer->parameters_.emplace(std::move(parameters));
    layer->parameters_->Initialise(1);
    ADJOIN_ASSIGN_OR_RETURN(layer->network_,
                            Network::Create(plan, "train", communicator, &*layer->parameters_, BuiltinLayers()));
    ADJOIN_ASSIGN_OR_RETURN(layer->sync_, GradientSync::Create(plan, communicator, &*layer->parameters_));
    const ProgramPlan& program = plan.program(0);
    for (const ValuePlan& value : program.value()) {
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
      const at::Tensor random = at::randn(layout.LocalShape(communicator->rank()));
      (value.name() == "x" ? layer->x_ : layer->cotangent_) = random;
    }
    layer->x_.set_requires_grad(true);
    for (int i = 0; i < layer->parameters_->size(); ++i) {
      if (layer->parameters_->frozen(i)) continue;
      layer->trained_.push_back(i);
      layer->inputs_.push_back(layer->parameters_->tensor(i));
    }
    layer->inputs_.push_back(layer->x_);
    return layer;
  }

  absl::Status Pass() {
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(Network::Result result, network_->Forward({{"x", x_}}, tape, /*keep_values=*/true));
    std::vector<at::Tensor> gradients = tape.Grad({result.values.at("y")}, inputs_, {cotangent_});
    for (size_t i = 0; i < trained_.size(); ++i) parameters_->tensor(trained_[i]).mutable_grad() = gradients[i];
    return sync_->Sync();
  }

 private:
  RankLayer() = default;
  std::optional<Parameters> parameters_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<GradientSync> sync_;
  at::Tensor x_;
  at::Tensor cotangent_;
  std::vector<int> trained_;
  std::vector<at::Tensor> inputs_;
};

class LibTorchLayer {
 public:
  explicit LibTorchLayer(const SerialLayer& layer) : layer_(layer), x_(at::randn(layer.x_shape).requires_grad_()) {
    for (const auto& [name, shape] : layer.parameter_shapes) {
      parameters_[name] = at::randn(shape).requires_grad_();
      inputs_.push_back(parameters_[name]);
    }
    inputs_.push_back(x_);
    at::NoGradGuard no_grad;
    cotangent_ = at::randn(layer.forward(x_, parameters_).sizes());
  }
  void Pass() { torch::autograd::grad({layer_.forward(x_, parameters_)}, inputs_, {cotangent_}); }

 private:
  const SerialLayer& layer_;
  at::Tensor x_;
  at::Tensor cotangent_;
  std::map<std::string, at::Tensor> parameters_;
  std::vector<at::Tensor> inputs_;
};

void Print(const Flags& flags, std::vector<double> times, double mib) {
  std::sort(times.begin(), times.end());
  std::printf("%s,%s,%.3f,%.3f,%.1f\n", flags.mode.c_str(), flags.layer_case.c_str(), times[times.size() / 2] / 1e3,
              times[0] / 1e3, mib);
  std::fflush(stdout);
}

// `pass` on every rank at once; what the slowest takes.
template <typename Pass>
std::vector<double> Times(const Flags& flags, const SlowestTime& slowest, const Pass& pass) {
  const double once = bench::Measure(
      {1, 2}, [&](int64_t) { pass(); }, slowest)[1];
  const int64_t passes = flags.passes > 0 ? flags.passes : std::clamp<int64_t>(2e6 / once, 7, 101);
  return bench::Measure(
      {1, passes}, [&](int64_t) { pass(); }, slowest);
}

absl::Status RunRank(BenchRank rank, const Flags& flags, const LayerCase& c) {
  at::set_num_threads(flags.threads);
  ReuseTensorMemory();  // as the rank processes of a job do
  const absl::Duration timeout = absl::Seconds(flags.timeout);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> transport, ConnectBenchRank(rank, timeout));
  HostMemory memory;
  Communicator communicator(transport.get(), &memory, {0, timeout});
  ADJOIN_ASSIGN_OR_RETURN(const SlowestTime slowest, SlowestTime::Create(&communicator, kTimesId));
  const double before = PeakMiB();
  std::vector<double> times;
  try {
    if (flags.mode == "rank" || flags.mode == "ranks") {
      ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanFor(c, rank.size));
      ADJOIN_ASSIGN_OR_RETURN(const auto layer, RankLayer::Create(plan, &communicator));
      times = Times(flags, slowest, [&] {
        const absl::Status status = layer->Pass();
        if (!status.ok()) throw StatusException(status);
      });
    } else {
      LibTorchLayer layer(flags.mode == "halves" ? c.half : c.whole);
      times = Times(flags, slowest, [&] { layer.Pass(); });
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
  const double mib = slowest(PeakMiB() - before);
  if (rank.rank == 0) Print(flags, std::move(times), mib);
  return transport->Close(Deadline::After(timeout));
}

int Report(const std::string& who, const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", who.c_str(), status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Flags flags;
  std::map<std::string, LayerCase> cases;
  std::vector<std::string> names;
  for (LayerCase& c : LayerCases()) {
    names.push_back(c.name);
    cases[c.name] = std::move(c);
  }
  CLI::App app("Times one layer, forward and backward", "layers");
  app.add_option("--case", flags.layer_case, "The layer")->required()->check(CLI::IsMember(names));
  app.add_option("--mode", flags.mode, "Who computes it")
      ->required()
      ->check(CLI::IsMember({"ranks", "rank", "halves", "serial"}));
  app.add_option("--threads", flags.threads, "Of each process")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--passes", flags.passes, "So many, instead of about two seconds")->check(CLI::PositiveNumber);
  app.add_option("--timeout", flags.timeout, "Seconds for everything")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (const std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  if (const std::optional<BenchRank> rank = ThisBenchRank()) {
    return Report(absl::StrCat("rank ", rank->rank), RunRank(*rank, flags, cases.at(flags.layer_case)));
  }
  // OpenBLAS reads its number of threads from here when it is loaded; LibTorch cannot set it.
  setenv("OMP_NUM_THREADS", absl::StrCat(flags.threads).c_str(), 1);
  const int processes = flags.mode == "ranks" || flags.mode == "halves" ? 2 : 1;
  return Report("layers", RunBenchRanks(argv, processes, Deadline::After(absl::Seconds(flags.timeout))));
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::Main(argc, argv); }
