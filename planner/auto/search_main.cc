// Prints what the search chooses for jobs, and how long it took: search_main RANKS MEMORY_BYTES JOB...
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "layers/builtin/builtin_rules.h"
#include "planner/auto/auto_plan.h"
#include "planner/auto/explain_search.h"
#include "planner/plan/plan_report.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"

int main(int argc, char** argv) {
  adjoin::LayerRules rules;
  if (!adjoin::AddBuiltinLayerRules(rules).ok()) return 1;
  for (int i = 3; i < argc; ++i) {
    const auto loaded = adjoin::LoadSpec(argv[i], {});
    if (!loaded.ok()) {
      std::cout << argv[i] << ": " << loaded.status().message() << std::endl;
      continue;
    }
    adjoin::AutoOptions options;
    options.ranks = std::atoi(argv[1]);
    options.memory_bytes = std::atoll(argv[2]);
    options.explain = std::getenv("EXPLAIN") != nullptr;
    const auto start = std::chrono::steady_clock::now();
    const auto chosen =
        adjoin::PlanAutomatically(loaded->parsed.spec, {}, rules, adjoin::CostModel::Default(), options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!chosen.ok()) {
      std::cout << argv[i] << ": " << chosen.status() << std::endl;
      continue;
    }
    std::cout << argv[i] << ": " << seconds << " s, step " << chosen->step_seconds << " s, counted "
              << chosen->report.chosen_seconds() << " s, bound " << chosen->report.lower_bound_seconds() << " s, "
              << chosen->memory.bytes / 1e6 << " MB, " << chosen->report.variables() << " variables, "
              << chosen->report.candidates() << " candidates, search " << chosen->report.search_seconds() << " s"
              << std::endl;
    if (options.explain) std::cout << adjoin::ExplainSearch(*chosen, adjoin::MakePlanReport(chosen->plan).memory());
    if (std::getenv("EMIT") != nullptr) std::cout << chosen->spec.DebugString();
  }
  return 0;
}
