// What recording a trace costs: steps that train on real ranks, in turns with and without it.
//
//   bazel run -c opt //bench:trace_overhead                   LeNet-5's layers, 2 ranks
//   bazel run -c opt //bench:trace_overhead -- --ranks 4 --batch 256 --turns 40
//
// Prints the median of the turns' best step, with and without, in wall-clock time and in rank 0's processor time (which
// other programs of the machine disturb less), what one step records, and how long a trace takes to begin and to write.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "bench/bench_ranks.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/network/parameters.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/tensor_memory.h"
#include "worker/trace/step_trace.h"
#include "worker/training/trainer.h"

namespace adjoin {
namespace {

struct Flags {
  int ranks = 2, batch = 64, turns = 20, steps = 10;
};

std::string JobOf(const Flags& flags) {
  return absl::StrCat(R"(name: "lenet5" kind: TRAIN ranks: )", flags.ranks, R"( seed: 1
layout { name: "rows" partition: [1, 1, )",
                      flags.ranks, R"(, 1] }
layer { name: "conv1" input: "x" x: "rows" conv { out_channels: 6 window { kernel: 5 pad_lo: 2 } } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 stride: 2 } } }
layer { name: "conv2" conv { out_channels: 16 window { kernel: 5 } } }
layer { name: "relu2" activation { fn: "relu" } }
layer { name: "pool2" pool { mode: "max" window { kernel: 2 stride: 2 } } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc1" linear { out_features: 120 } }
layer { name: "relu3" activation { fn: "relu" } }
layer { name: "fc2" linear { out_features: 84 } }
layer { name: "relu4" activation { fn: "relu" } }
layer { name: "fc3" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc3" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: )",
                      flags.batch, R"( } shape: [1, 28, 28] }
  field { name: "y" synthetic { kind: "index" samples: )",
                      flags.batch, R"( high: 10 } dtype: "int64" } }
train { dataset: "train" batch: )",
                      flags.batch, R"( steps: 1000000 optimizer { sgd { lr: 0.001 } } }
)");
}

double Wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double Cpu() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The best step of some in a row.
struct Best {
  double wall = std::numeric_limits<double>::infinity(), cpu = std::numeric_limits<double>::infinity();
};

absl::StatusOr<Best> RunSteps(Trainer& trainer, int steps) {
  Best best;
  for (int i = 0; i < steps; ++i) {
    const double wall = Wall(), cpu = Cpu();
    ADJOIN_RETURN_IF_ERROR(trainer.RunStep().status());
    best.wall = std::min(best.wall, Wall() - wall);
    best.cpu = std::min(best.cpu, Cpu() - cpu);
  }
  return best;
}

absl::Status RunRank(BenchRank rank, const Flags& flags) {
  at::set_num_threads(1);
  ReuseTensorMemory();  // as the rank processes of a job do
  ADJOIN_ASSIGN_OR_RETURN(const auto transport, ConnectBenchRank(rank, absl::Minutes(5)));
  HostMemory memory;
  Communicator communicator(transport.get(), &memory, {0, absl::Minutes(5)});
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec spec, ParseSpec(JobOf(flags), "job"));
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, Planner::Build(spec.spec, {{"train", flags.batch}}, BuiltinLayerRules()));
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, rank.rank));
  parameters.Initialise(1);
  ADJOIN_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(plan, &communicator, &parameters, ".", BuiltinLayers()));
  ADJOIN_RETURN_IF_ERROR(RunSteps(*trainer, flags.steps).status());
  const std::string file = absl::StrCat("/tmp/adjoin-trace-overhead.", getppid(), ".pftrace");
  std::vector<double> wall[2], cpu[2], begins, writes;
  StepTrace::Written written;
  std::size_t spans = 0;
  for (int turn = 0; turn < flags.turns; ++turn) {
    ADJOIN_ASSIGN_OR_RETURN(const Best without, RunSteps(*trainer, flags.steps));
    StepTrace trace({.communicator = &communicator,
                     .recorder = &trainer->recorder(),
                     .layers = trainer->layer_names(),
                     .timeout = absl::Minutes(5)});
    double before = Wall();
    ADJOIN_RETURN_IF_ERROR(trace.Begin());
    begins.push_back(Wall() - before);
    ADJOIN_ASSIGN_OR_RETURN(const Best with, RunSteps(*trainer, flags.steps));
    spans = trainer->recorder().recorded().spans.size();
    before = Wall();
    ADJOIN_ASSIGN_OR_RETURN(written, trace.Write(file, "bench"));
    writes.push_back(Wall() - before);
    wall[0].push_back(without.wall);
    wall[1].push_back(with.wall);
    cpu[0].push_back(without.cpu);
    cpu[1].push_back(with.cpu);
  }
  if (rank.rank == 0) {
    ADJOIN_RETURN_IF_ERROR(written.status);
    std::filesystem::remove(file);
    const auto line = [](const char* what, const std::vector<double>(&times)[2]) {
      const double without = Median(times[0]), with = Median(times[1]);
      absl::PrintF("%-16s without %.3f ms, with %.3f ms: %+.2f %%\n", what, 1e3 * without, 1e3 * with,
                   100 * (with - without) / without);
    };
    line("a step", wall);
    line("processor time", cpu);
    absl::PrintF("%d spans a step on rank 0, %d bytes a step of all ranks; begins in %.2f ms, is written in %.2f ms\n",
                 spans / static_cast<std::size_t>(flags.steps), written.bytes / flags.steps, 1e3 * Median(begins),
                 1e3 * Median(writes));
  }
  return transport->Close(Deadline::After(absl::Minutes(1)));
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("What recording a trace costs", "trace_overhead");
  app.add_option("--ranks", flags.ranks, "How many")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--batch", flags.batch, "Samples of a step")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--turns", flags.turns, "With and without, so often")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--steps", flags.steps, "In each turn")->capture_default_str()->check(CLI::Range(1, 1000));
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  absl::Status status;
  if (const auto rank = ThisBenchRank()) {
    status = RunRank(*rank, flags);
  } else {
    double load[3] = {};
    if (getloadavg(load, 3) > 0) absl::PrintF("load of the machine before: %.2f\n", load[0]);
    status = RunBenchRanks(argv, flags.ranks, Deadline::After(absl::Minutes(10)));
  }
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::Main(argc, argv); }
