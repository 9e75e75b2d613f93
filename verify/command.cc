#include "verify/command.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/auto/auto_layouts.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"
#include "primitives/status_exception.h"
#include "verify/against.h"
#include "verify/command_flags.h"
#include "verify/recut.h"
#include "verify/report.h"

namespace adjoin {
namespace {

absl::StatusOr<VerifyResult> VerifyOne(const ParsedSpec& parsed, const VerifyOptions& options) {
  try {
    return Verify(parsed, options);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

// The numbers of ranks for which layouts are chosen.
std::vector<uint32_t> RanksOf(const JobSpec& spec, const VerifyOptions& options) {
  if (!options.ranks.empty()) return options.ranks;
  if (spec.verify().ranks_size() > 0) return {spec.verify().ranks().begin(), spec.verify().ranks().end()};
  return {spec.ranks()};
}

struct Results {
  std::vector<VerifyResult> of_ranks;
  std::vector<absl::Status> failed;  // of other numbers of ranks
};

// Chooses layouts for one number of ranks, and runs them.
absl::StatusOr<VerifyResult> RunChosen(LoadedSpec loaded, AutoLayoutOptions layouts, VerifyOptions options,
                                       uint32_t ranks) {
  layouts.ranks = absl::StrCat(ranks);
  if (ranks != loaded.parsed.spec.ranks()) {
    const std::vector<double> weights = RecutWeights(loaded.parsed.spec, ranks);
    loaded.parsed.spec.mutable_rank_weight()->Assign(weights.begin(), weights.end());
  }
  const LayerRules& rules = options.rules != nullptr ? *options.rules : BuiltinLayerRules();
  ADJOIN_RETURN_IF_ERROR(ChooseLayouts(layouts, {}, {}, rules, CostModel::Default(), &loaded));
  options.ranks = {ranks};
  return VerifyOne(loaded.parsed, options);
}

// With layouts that are chosen for each number of ranks there is a result for each that does not fail; else there is
// one.
absl::StatusOr<Results> Run(const std::string& file, const SpecChanges& changes, const AutoLayoutOptions& layouts,
                            const VerifyOptions& options) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(layouts));
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(file, changes));
  Results results;
  if (!layouts.chosen) {
    ADJOIN_ASSIGN_OR_RETURN(results.of_ranks.emplace_back(), VerifyOne(loaded.parsed, options));
    return results;
  }
  const std::vector<uint32_t> all_ranks = RanksOf(loaded.parsed.spec, options);
  for (const uint32_t ranks : all_ranks) {
    absl::StatusOr<VerifyResult> result = RunChosen(loaded, layouts, options, ranks);
    if (result.ok()) {
      results.of_ranks.push_back(*std::move(result));
    } else if (all_ranks.size() == 1) {
      return result.status();
    } else {
      results.failed.push_back(
          absl::Status(result.status().code(),
                       absl::StrCat("on ", ranks, ranks == 1 ? " rank: " : " ranks: ", result.status().message())));
    }
  }
  return results;
}

absl::StatusOr<AgainstResult> RunAgainst(const std::string& file, const SpecChanges& changes,
                                         const AgainstOptions& options) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(options.layouts));
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(file, changes));
  try {
    return VerifyAgainst(loaded.parsed, options);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

int AgainstCommand(const std::string& file, const SpecChanges& changes, const AgainstOptions& options) {
  absl::StatusOr<AgainstResult> result = RunAgainst(file, changes, options);
  if (result.ok() && !(std::cout << AgainstText(*result)).flush()) {
    result = absl::DataLossError("standard output cannot be written");
  }
  if (result.ok()) return result->deviates() ? 1 : 0;
  std::cerr << "adjoin verify: error: " << PrintableText(result.status().message()) << std::endl;
  return 1;
}

bool AnyDeviates(const std::vector<VerifyResult>& results) {
  return std::any_of(results.begin(), results.end(), [](const VerifyResult& result) { return result.deviates(); });
}

}  // namespace

int RunVerifyCommand(int argc, char** argv, VerifyOptions options) {
  // An option that the command line leaves out stays as `options` has it.
  VerifyFlags flags;
  flags.ranks = options.ranks;
  flags.batch = options.batch;
  flags.tolerance = options.tolerance;
  flags.steps = options.steps;
  flags.seed = options.seed;
  CLI::App app("Runs a job's model serially and partitioned, on a small random input, and compares them",
               "adjoin verify");
  AddVerifyFlags(app, flags);
  const ManPageOptions page = {.section = 1, .see_also = {"adjoin(1)"}};
  if (std::optional<int> code = ParseFlags(app, argc, argv, page)) return *code;
  options.ranks = flags.ranks;
  options.batch = flags.batch;
  options.tolerance = flags.tolerance;
  options.steps = flags.steps;
  options.seed = flags.seed;
  if (!flags.sample.empty()) {
    const AgainstOptions against = {.sample = flags.sample,
                                    .weights = flags.weights,
                                    .data_root = flags.data_root,
                                    .layouts = flags.layouts,
                                    .verify = options};
    return AgainstCommand(flags.file, flags.changes, against);
  }
  absl::StatusOr<Results> results = Run(flags.file, flags.changes, flags.layouts, options);
  if (results.ok()) {
    for (const VerifyResult& result : results->of_ranks) {
      std::cout << (&result == &results->of_ranks.front() ? "" : "\n") << ReportText(result);
    }
    if (!std::cout.flush()) results = absl::DataLossError("standard output cannot be written");
  }
  const std::vector<absl::Status> failed = results.ok() ? results->failed : std::vector{results.status()};
  for (const absl::Status& status : failed) {
    std::cerr << "adjoin verify: error: " << PrintableText(status.message()) << std::endl;
  }
  return failed.empty() && !AnyDeviates(results->of_ranks) ? 0 : 1;
}

}  // namespace adjoin
