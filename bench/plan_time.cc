// Prints how long planning takes, how much memory, and how large the plan is, of two networks on more and more ranks.
//
//   bazel run -c opt //bench:plan_time -- [RUNS] [RANKS ...]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/plan/planning_jobs.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

// Returns seconds of the processor, which other work on the machine does not change.
double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Plans in a process of its own, so that its memory can be told.
void Measure(const char* name, const std::string& text, int ranks, int runs) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const auto spec = ParseSpec(text, "job.textproto");
    if (!spec.ok()) {
      std::printf("%s: %s\n", name, std::string(spec.status().message()).c_str());
      std::exit(1);
    }
    std::vector<double> seconds;
    double hash = 0, explain = 0;
    size_t bytes = 0, movements = 0;
    for (int run = 0; run < runs; ++run) {
      const double begin = Seconds();
      auto plan = Planner::Build(spec->spec, {{"train", 1 << 20}}, BuiltinLayerRules(), &spec->locations);
      if (!plan.ok()) {
        std::printf("%s: %s\n", name, std::string(plan.status().message()).c_str());
        std::exit(1);
      }
      ReadHalosFromFiles(&*plan);
      seconds.push_back(Seconds() - begin);
      const double hashed = Seconds();
      Planner::Hash(*plan);
      hash = Seconds() - hashed;
      const double explained = Seconds();
      if (run == 0) Planner::Explain(*plan);
      if (run == 0) explain = Seconds() - explained;
      bytes = plan->ByteSizeLong();
      movements = plan->program(0).op_size() + plan->parameter_size();
    }
    std::sort(seconds.begin(), seconds.end());
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::printf("| %s | %d | %zu | %.3f | %.3f | %.3f | %.0f | %.2f |\n", name, ranks, movements,
                seconds[seconds.size() / 2], hash, explain, usage.ru_maxrss / 1024.0, bytes / 1048576.0);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 3;
  std::vector<int> all = {64, 512, 4096, 32768};
  if (argc > 2) all.clear();
  for (int i = 2; i < argc; ++i) all.push_back(std::atoi(argv[i]));
  std::printf(
      "| network | ranks | movements | planning, s | hash, s | explain, s | memory, MiB | plan, MiB "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const int ranks : all) {
    adjoin::Measure("CosmoFlow", adjoin::CosmoFlowJob(ranks), ranks, runs);
    adjoin::Measure("3-D ResNet-50", adjoin::ResNet3dJob(ranks), ranks, runs);
  }
}
