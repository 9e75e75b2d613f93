// Plans of jobs that stand in a test, as text.
//
//   EXPECT_THAT(ErrorOf(LeNetWith("ranks: 4", "ranks: 0")), HasSubstr("ranks must be"));
#ifndef ADJOIN_PLANNER_PLAN_PLAN_FIXTURES_H_
#define ADJOIN_PLANNER_PLAN_PLAN_FIXTURES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {

inline const DatasetSizes& MnistSizes() {
  static const auto* sizes = new DatasetSizes{{"train", 1000}, {"test", 200}};
  return *sizes;
}

inline absl::StatusOr<Plan> PlanText(const std::string& text, const DatasetSizes& sizes = {}) {
  auto parsed = ParseSpec(text, "job.textproto");
  if (!parsed.ok()) return parsed.status();
  return Planner::Build(parsed->spec, sizes, BuiltinLayerRules(), &parsed->locations);
}

// The job with one text in the place of another.
inline std::string LeNetWith(const std::string& from, const std::string& to) {
  const std::string text = absl::StrReplaceAll(kLeNet, {{from, to}});
  EXPECT_NE(text, kLeNet) << from << " is not in the job";
  return text;
}

// Why the job is refused; "" where it is not.
inline std::string ErrorOf(const std::string& text, const DatasetSizes& sizes = {}) {
  const auto plan = PlanText(text, sizes);
  return plan.ok() ? "" : std::string(plan.status().message());
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLAN_FIXTURES_H_
