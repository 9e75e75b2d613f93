// Does the partitioned model compute what the serial one does? Runs both on a small random input, in float64, and
// compares.
//
//   VerifyOptions options;
//   options.ranks = {1, 2, 4};
//   ADJOIN_ASSIGN_OR_RETURN(VerifyResult result, Verify(parsed, options));
//   std::cout << ReportText(result);         // report.h
//   return result.deviates() ? 1 : 0;
//
// Needs no coordinator and no data files: the ranks are threads, the samples are drawn. One call at a time.
#ifndef ADJOIN_VERIFY_VERIFY_H_
#define ADJOIN_VERIFY_VERIFY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/registry.h"
#include "layers/rules/layer_rule.h"
#include "layers/serial_functions.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"
#include "verify/adjoint_check.h"
#include "verify/comparison.h"

namespace adjoin {

inline constexpr double kDefaultTolerance = 1e-10;

struct VerifyOptions {
  // What is absent is as JobSpec.verify says, and without that as the comment says.
  std::vector<uint32_t> ranks;      // the job's own number
  std::optional<double> tolerance;  // kDefaultTolerance
  std::optional<uint32_t> steps;    // 1
  std::optional<int64_t> batch;  // the job's (micro-)batch where its cuts fit no other; else at most two samples a part
  uint64_t seed = 1;             // of parameters and samples

  // Null: those that come with Adjoin.
  const LayerRules* rules = nullptr;
  const LayerRegistry* layers = nullptr;
  const SerialFunctions* functions = nullptr;

  // Changes the plan that the ranks get, for tests that plant a mistake. May be empty.
  std::function<void(Plan&)> plan_edit;
};

// On one number of ranks.
struct RanksResult {
  uint32_t ranks = 0;
  bool recut = false;
  absl::Status
      failure;  // the planner's refusal of the re-cut job, or what a rank failed with; then there is no comparison
  Comparison comparison;
  std::vector<AdjointResult> operators;
  std::optional<Finding> first;  // of the comparison
  bool deviates() const;
};

struct VerifyResult {
  std::string job;
  int64_t batch = 0;
  uint32_t steps = 0;
  double tolerance = 0;
  uint64_t seed = 0;
  std::set<std::string> own_layers;   // compared with themselves on one rank, for want of a serial function
  std::vector<std::string> warnings;  // of the job as it is written (planner/plan/plan_warnings.h)
  std::vector<RanksResult> runs;
  bool deviates() const;
};

// Errors: kInvalidArgument and kUnimplemented for a spec that the planner refuses (with its line) or options out of
// range; what the serial model cannot compute.
absl::StatusOr<VerifyResult> Verify(const ParsedSpec& parsed, const VerifyOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_VERIFY_H_
