// How long steps that train take on real ranks, beside what the planner predicts: sixteen networks, five cuts each, on
// 1, 2 and 4 ranks.
//
//   bazel run -c opt //bench:step_time                        by the table of the repository
//   bazel run -c opt //bench:step_time -- --rates FILE        by that of `adjoin-worker --calibrate`
//
// Prints a line for each cut, and for each network the mean error and Kendall's tau of its cuts. Wants a machine that
// does nothing else: what it measures is the best of several short runs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "bench/bench_ranks.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "planner/time/cost_model.h"
#include "planner/time/rate_check.h"
#include "planner/time/step_time.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_memory.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/step_networks.h"
#include "worker/training/optimizer.h"

namespace adjoin {
namespace {

struct Flags {
  std::string rates, only, results;
  double seconds = 0.4, rest = 0;
  bool layers = false;
};

// One rank's network, stepped as Trainer steps it, on data that lie in memory.
class SteppedRank {
 public:
  static absl::StatusOr<std::unique_ptr<SteppedRank>> Create(const Plan& plan, const Tensors& whole,
                                                             Transport* transport, int communicator) {
    auto rank = std::make_unique<SteppedRank>();
    rank->communicator_ = std::make_unique<Communicator>(transport, &rank->memory_,
                                                         Communicator::Options{communicator, absl::Minutes(2)});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport->rank()));
    rank->parameters_ = std::make_unique<Parameters>(std::move(parameters));
    rank->parameters_->Initialise(1);
    ADJOIN_ASSIGN_OR_RETURN(rank->network_, Network::Create(plan, "train", rank->communicator_.get(),
                                                            rank->parameters_.get(), BuiltinLayers()));
    ADJOIN_ASSIGN_OR_RETURN(rank->sync_,
                            GradientSync::Create(plan, rank->communicator_.get(), rank->parameters_.get()));
    ADJOIN_ASSIGN_OR_RETURN(rank->optimizer_, TrainOptimizer::Create(plan.spec().train(), *rank->parameters_));
    ADJOIN_ASSIGN_OR_RETURN(rank->fields_, LocalFields(plan.program(0), whole, transport->rank()));
    for (auto& [name, field] : rank->fields_) field = field.clone();
    return rank;
  }

  double moving() const { return absl::ToDoubleSeconds(communicator_->time_moving()); }

  absl::Status Step() {
    for (int i = 0; i < parameters_->size(); ++i) at::Tensor(parameters_->tensor(i)).mutable_grad().reset();
    Tape tape;
    at::Tensor loss;
    {
      ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network_->Forward(fields_, tape));
      loss = result.loss;
    }
    tape.Backward(loss);
    loss = loss.detach();
    ADJOIN_RETURN_IF_ERROR(sync_->Sync());
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> numbers, network_->ReadNumbers({loss}));
    ADJOIN_RETURN_IF_ERROR(network_->SumOverRanks(numbers).status());
    optimizer_->Step(step_++);
    return absl::OkStatus();
  }

 private:
  HostMemory memory_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<TrainOptimizer> optimizer_;
  Tensors fields_;
  int64_t step_ = 0;
};

struct Measured {
  double step = 0;    // seconds
  double moving = 0;  // of them, on rank 0, within movements
};

// The least mean of a few steps in a row.
absl::StatusOr<Measured> SecondsOfStep(SteppedRank& rank, const SlowestTime& slowest, const Flags& flags) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto since = [&](auto begin) { return std::chrono::duration<double>(now() - begin).count(); };
  ADJOIN_RETURN_IF_ERROR(rank.Step());
  auto begin = now();
  ADJOIN_RETURN_IF_ERROR(rank.Step());
  // All ranks run equally many.
  const double one = slowest(since(begin));
  constexpr int kTries = 8;
  const int count = std::clamp(static_cast<int>(flags.seconds / kTries / one), 1, 50);
  Measured least{std::numeric_limits<double>::infinity(), 0};
  for (int tried = 0; tried < kTries; ++tried) {
    if (flags.rest > 0) absl::SleepFor(absl::Seconds(flags.rest));
    slowest(0);
    const double moved = rank.moving();
    begin = now();
    for (int i = 0; i < count; ++i) ADJOIN_RETURN_IF_ERROR(rank.Step());
    const double step = slowest(since(begin) / count);
    if (step < least.step) least = {step, (rank.moving() - moved) / count};
  }
  return least;
}

bool IsChosen(const StepNetwork& network, const Flags& flags) {
  return flags.only.empty() || absl::StrContains(network.name, flags.only);
}

absl::Status RunRank(BenchRank rank, const Flags& flags) {
  at::set_num_threads(1);
  ReuseTensorMemory();  // as the rank processes of a job do
  ADJOIN_ASSIGN_OR_RETURN(const auto transport, ConnectBenchRank(rank, absl::Minutes(5)));
  HostMemory memory;
  Communicator barrier(transport.get(), &memory, {63, absl::Minutes(5)});
  ADJOIN_ASSIGN_OR_RETURN(const SlowestTime slowest, SlowestTime::Create(&barrier, /*id=*/60000));
  std::ofstream results(flags.results, std::ios::app);
  int communicator = 0;
  for (const StepNetwork& network : StepNetworks()) {
    if (!IsChosen(network, flags)) continue;
    for (const std::string& partition : network.partitions) {
      if (RanksOf(partition) != rank.size) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(JobOf(network, partition), {{"data", network.batch}}));
      communicator = (communicator + 1) % 60;
      ADJOIN_ASSIGN_OR_RETURN(const auto stepped,
                              SteppedRank::Create(plan, DataOf(plan, network), transport.get(), communicator));
      ADJOIN_ASSIGN_OR_RETURN(const Measured seconds, SecondsOfStep(*stepped, slowest, flags));
      if (rank.rank == 0)
        results << network.name << "\t" << partition << "\t" << seconds.step << "\t" << seconds.moving << std::endl;
    }
  }
  return transport->Close(Deadline::After(absl::Minutes(1)));
}

// The share of pairs in the same order less that of the others.
double Tau(const std::vector<double>& a, const std::vector<double>& b) {
  int sum = 0, pairs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = i + 1; k < a.size(); ++k, ++pairs) {
      const double product = (a[i] - a[k]) * (b[i] - b[k]);
      sum += product > 0 ? 1 : product < 0 ? -1 : 0;
    }
  }
  return pairs == 0 ? 1 : static_cast<double>(sum) / pairs;
}

absl::StatusOr<std::map<std::string, Measured>> ReadResults(const std::string& path) {
  std::map<std::string, Measured> seconds;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '\t');
    Measured& of = seconds[cells.size() < 2 ? "" : absl::StrCat(cells[0], "\t", cells[1])];
    if (cells.size() > 2) of.step = std::atof(cells[2].c_str());
    if (cells.size() > 3) of.moving = std::atof(cells[3].c_str());
  }
  return seconds;
}

absl::StatusOr<CostModel> ModelOf(const Flags& flags) {
  if (flags.rates.empty()) return CostModel::Default();
  std::ifstream file(flags.rates);
  std::stringstream text;
  text << file.rdbuf();
  ADJOIN_ASSIGN_OR_RETURN(const RateTable rates, ParseRates(text.str(), flags.rates));
  return CostModel::Create(rates);
}

absl::Status Report(const Flags& flags, const std::map<std::string, Measured>& measured) {
  ADJOIN_ASSIGN_OR_RETURN(const CostModel model, ModelOf(flags));
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  double errors = 0, taus = 0;
  int cuts = 0, networks = 0, low = 0;
  absl::PrintF("%-18s %-16s %10s %10s (in movements) %7s   predicted: compute move wait gradients update (ms)\n",
               "network", "cut", "predicted", "measured", "error");
  for (const StepNetwork& network : StepNetworks()) {
    if (!IsChosen(network, flags)) continue;
    std::vector<double> predicted, took;
    double error_here = 0;
    for (const std::string& partition : network.partitions) {
      const auto found = measured.find(absl::StrCat(network.name, "\t", partition));
      if (found == measured.end()) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(JobOf(network, partition), {{"data", network.batch}}));
      StepTimeOptions options;
      options.ranks_per_core = std::max(1.0, RanksOf(partition) / cores);
      ADJOIN_ASSIGN_OR_RETURN(const StepTime time, PredictStepTime(plan, model, options));
      const double error = time.step() / found->second.step - 1;
      absl::PrintF("%-18s %-16s %8.3fms %8.3fms (%.3f) %6.1f%%   %.3f %.3f %.3f %.3f %.3f\n", network.name, partition,
                   1e3 * time.step(), 1e3 * found->second.step, 1e3 * found->second.moving, 100 * error,
                   1e3 * time.compute, 1e3 * time.movement, 1e3 * time.wait, 1e3 * time.gradient, 1e3 * time.update);
      if (flags.layers) {
        for (const StepTime::Layer& layer : time.layer) {
          absl::PrintF("    %-20s %8.3f %8.3f %8.3f ms\n", layer.name, 1e3 * layer.forward, 1e3 * layer.backward,
                       1e3 * layer.movement);
        }
      }
      predicted.push_back(time.step());
      took.push_back(found->second.step);
      error_here += std::abs(error);
    }
    if (took.empty()) continue;
    const double tau = Tau(predicted, took);
    absl::PrintF("%-18s mean error %.1f%%, tau %.2f\n", network.name, 100 * error_here / took.size(), tau);
    errors += error_here;
    cuts += static_cast<int>(took.size());
    taus += tau;
    low += tau < 0.9 ? 1 : 0;
    ++networks;
  }
  if (cuts == 0) return absl::NotFoundError("nothing was measured");
  absl::PrintF("all: %d cuts, mean error %.1f%%, mean tau %.2f; tau below 0.9 in %d of %d networks; rates of %s\n",
               cuts, 100 * errors / cuts, taus / networks, low, networks, model.machine());
  return absl::OkStatus();
}

absl::Status RunAll(char** argv, const Flags& flags) {
  double load[3] = {};
  if (getloadavg(load, 3) > 0) absl::PrintF("load of the machine before: %.2f\n", load[0]);
  for (const int ranks : {1, 2, 4}) {
    ADJOIN_RETURN_IF_ERROR(RunBenchRanks(argv, ranks, Deadline::After(absl::Minutes(10))));
  }
  ADJOIN_ASSIGN_OR_RETURN(const auto measured, ReadResults(flags.results));
  return Report(flags, measured);
}

int Main(int argc, char** argv) {
  Flags flags;
  bool report_only = false;
  CLI::App app("Steps of real ranks beside their prediction", "step_time");
  app.add_option("--rates", flags.rates, "A table of rates; absent: the one that is built in");
  app.add_option("--only", flags.only, "Networks whose names have this");
  app.add_option("--seconds", flags.seconds, "For each cut")->capture_default_str()->check(CLI::Range(0.01, 60.0));
  app.add_option("--rest", flags.rest, "Seconds between the short runs, for others who use the machine")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60.0));
  app.add_option("--results", flags.results, "File for what was measured, added to; absent: /tmp/adjoin-step-time.PID");
  app.add_flag("--layers", flags.layers, "Prints the prediction of each layer");
  app.add_flag("--report-only", report_only, "Measures nothing: compares what is in --results");
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  absl::Status status;
  if (const auto rank = ThisBenchRank()) {
    status = RunRank(*rank, flags);
  } else if (report_only) {
    const auto measured = ReadResults(flags.results);
    status = measured.ok() ? Report(flags, *measured) : measured.status();
  } else if (flags.results.empty()) {
    // The ranks get it as an argument.
    flags.results = absl::StrCat("/tmp/adjoin-step-time.", getpid());
    std::vector<char*> with(argv, argv + argc);
    std::string option = absl::StrCat("--results=", flags.results);
    with.push_back(option.data());
    with.push_back(nullptr);
    status = RunAll(with.data(), flags);
    unlink(flags.results.c_str());
  } else {
    status = RunAll(argv, flags);
  }
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::Main(argc, argv); }
