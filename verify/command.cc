#include "verify/command.h"

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/flags.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "planner/spec/spec_include.h"
#include "primitives/status_exception.h"
#include "verify/report.h"

namespace adjoin {
namespace {

absl::StatusOr<VerifyResult> Run(const std::string& file, const SpecChanges& changes, const VerifyOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(file, changes));
  try {
    return Verify(loaded.parsed, options);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace

int RunVerifyCommand(int argc, char** argv, VerifyOptions options) {
  std::string file;
  SpecChanges changes;
  CLI::App app("Runs a job's model serially and partitioned, on a small random input, and compares them",
               "adjoin verify");
  app.footer(
      "Needs no coordinator and no data files. What is absent is as the job's verify { } says.\n"
      "Exit codes: 0 no deviation, 1 a deviation or an error, 2 wrong usage.");
  app.add_option("SPEC", file, "The job's file, text format or JSON; - reads standard input")->required();
  app.add_option("--ranks", options.ranks, "Numbers of ranks, such as 1,2,4: layouts are re-cut; absent: the job's own")
      ->delimiter(',');
  app.add_option("--batch", options.batch, "Samples per step; absent: a few for each part of the batch");
  app.add_option("--tolerance", options.tolerance, "Largest relative difference; absent: 1e-10");
  app.add_option("--steps", options.steps, "Optimizer steps; absent: 1");
  app.add_option("--seed", options.seed, "Of parameters and samples")->capture_default_str();
  app.add_option("--set", changes.set, "PATH=VALUE: a field of the job to change first, as of `adjoin submit`")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  app.add_option("--unset", changes.unset, "PATH: a field of the job to remove first, as of `adjoin submit`")
      ->allow_extra_args(false)
      ->type_name("PATH");
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  absl::StatusOr<VerifyResult> result = Run(file, changes, options);
  if (result.ok() && !(std::cout << ReportText(*result) << std::flush)) {
    result = absl::DataLossError("standard output cannot be written");
  }
  if (result.ok()) return result->deviates() ? 1 : 0;
  std::cerr << "adjoin verify: error: " << PrintableText(result.status().message()) << std::endl;
  return 1;
}

}  // namespace adjoin
