// Prints how long choosing layouts takes (planner/auto), in seconds of the processor, which other work on the machine
// hardly changes, and what is chosen. Nothing is run.
//
//   bazel build -c opt //bench:search_time
//   bazel-bin/bench/search_time [--ranks 8,64,512] [--runs 3] [--explain] [--choices] examples/networks/*.textproto
//
// --choices prints every layer's layout and all digits instead, so that two versions of the planner can be compared.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/auto/auto_plan.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"

namespace adjoin {
namespace {

struct Flags {
  std::vector<std::string> job;
  std::vector<int64_t> ranks = {64};
  int64_t memory_bytes = 0;
  int runs = 1;
  bool explain = false, choices = false;
};

double ProcessorSeconds() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void PrintChoices(const AutoPlan& chosen) {
  absl::PrintF("  step %.17g counted %.17g bound %.17g bytes %d\n", chosen.step_seconds, chosen.report.chosen_seconds(),
               chosen.report.lower_bound_seconds(), chosen.memory.bytes);
  for (int i = 0; i < chosen.report.choice_size(); ++i) {
    const ChoiceReport& choice = chosen.report.choice(i);
    const AutoPlan::LayerSeconds& layer = chosen.layer[i];
    absl::PrintF("  %s: %s compute %.17g movement %.17g bytes %d", choice.layer(), choice.layout(), layer.compute,
                 layer.movement, layer.bytes);
    if (!choice.next().empty()) absl::PrintF(" next %s +%.17g", choice.next(), choice.next_seconds());
    absl::PrintF("\n");
  }
  for (const AlternativeReport& other : chosen.report.alternative()) {
    absl::PrintF("  %s: %s %.17g bytes %d\n", other.what(), other.impossible(), other.step_seconds(), other.bytes());
  }
}

absl::Status Measure(const std::string& path, int64_t ranks, const Flags& flags) {
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(path, {}));
  const AutoOptions options = {.ranks = ranks, .memory_bytes = flags.memory_bytes, .explain = flags.explain};
  CostModel::Default();  // reads its table once in a process
  std::vector<double> seconds;
  AutoPlan chosen;
  for (int run = 0; run < flags.runs; ++run) {
    const double begin = ProcessorSeconds();
    ADJOIN_ASSIGN_OR_RETURN(
        chosen, PlanAutomatically(loaded.parsed.spec, {}, BuiltinLayerRules(), CostModel::Default(), options));
    seconds.push_back(ProcessorSeconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  const std::string name = std::filesystem::path(path).stem().string();
  if (flags.choices) {
    absl::PrintF("%s on %d\n", name, ranks);
    PrintChoices(chosen);
  } else {
    absl::PrintF("| %s | %d | %d | %d | %.3f | %.6g |\n", name, ranks, chosen.report.variables(),
                 chosen.report.candidates(), seconds[seconds.size() / 2], chosen.step_seconds);
  }
  std::cout << std::flush;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("How long the choice of layouts takes", "search_time");
  app.add_option("--ranks", flags.ranks, "Numbers of ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--memory-bytes", flags.memory_bytes, "Of each rank; 0: no limit")->capture_default_str();
  app.add_option("--runs", flags.runs, "The median of so many counts")->capture_default_str()->check(CLI::Range(1, 99));
  app.add_flag("--explain", flags.explain, "Also what adjoin plan explains: next best choices, alternatives");
  app.add_flag("--choices", flags.choices, "Print each layer's layout and all digits");
  app.add_option("job", flags.job, "Files of jobs")->required();
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  if (!flags.choices) {
    absl::PrintF(
        "| network | ranks | layers free to choose | candidates | processor, s | a step takes, s |\n"
        "|---|--:|--:|--:|--:|--:|\n");
  }
  for (const std::string& path : flags.job) {
    for (const int64_t ranks : flags.ranks) {
      const absl::Status status = Measure(path, ranks, flags);
      if (status.ok()) continue;
      std::cerr << path << " on " << ranks << " ranks: " << status << "\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::Main(argc, argv); }
