// One planner of a PlannerPool: makes one plan after another, each on the thread that asks for it.
//
//   std::unique_ptr<PlanMaker> maker = std::make_unique<InProcessMaker>(rules);
//   absl::StatusOr<PlanAnswer> answer = maker->Make(task, [&] { return !stopping; });
#ifndef ADJOIN_COORDINATOR_PLANNING_PLAN_MAKER_H_
#define ADJOIN_COORDINATOR_PLANNING_PLAN_MAKER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "coordinator/planning/planning.pb.h"
#include "coordinator/planning/seen_sizes.h"
#include "coordinator/planning/spec_planner.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {

class PlanMaker {
 public:
  virtual ~PlanMaker() = default;
  // What is wrong with the spec is in the answer. `go_on` is called several times a second while the plan is made; when
  // it returns false, the plan is given up. Always called by one thread.
  // Errors: kCancelled (`go_on` returned false), kDeadlineExceeded, kResourceExhausted, kUnavailable (as PlanDone),
  // kAborted (the planner ended, and it may be well with another one, or with `as_if_unseen`; says how it ended).
  virtual absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) = 0;
};

// The question that `task` asks.
PlanQuestion QuestionOf(const PlanTask& task);

// For tests, and programs that plan only what they wrote themselves: nothing is limited, and `go_on` is not asked.
class InProcessMaker final : public PlanMaker {
 public:
  // `rules` outlives the maker.
  explicit InProcessMaker(const LayerRules& rules) : rules_(rules) {}
  absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) override;

 private:
  const LayerRules& rules_;
  SeenSizes seen_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLAN_MAKER_H_
