// Makes the answer to one question of the coordinator: reads a spec that a user wrote, and plans it. Runs in a planner
// process, where hostile text can do no harm.
//
//   PlanQuestion question;
//   question.set_source(text);
//   question.set_file("job.textproto");
//   PlanAnswer answer = AnswerPlanQuestion(question, BuiltinLayerRules());
//
// What a rule throws is in the answer. A spec is accepted or refused, and a plan made, by the question alone; what was
// seen decides only whether the plan of a job that reads files comes with the first answer already.
//
// The limits of a planner process are the one exception: the plan for sizes that were seen may take more time or memory
// than it has, where that for the sizes that will be found would not. So the caller is told before such a plan is
// begun, and can ask once more with `as_if_unseen`.
#ifndef ADJOIN_COORDINATOR_PLANNING_PLAN_ANSWER_H_
#define ADJOIN_COORDINATOR_PLANNING_PLAN_ANSWER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/planning/planning.pb.h"
#include "coordinator/planning/seen_sizes.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors, in PlanAnswer.error: kInvalidArgument (the spec is too large, or wrong, with the location; the plan is too
// large), kUnimplemented (the spec needs something that is not supported yet), kInternal (a rule threw; says what).
// `seen`: the sizes that earlier questions told, to which those of this one are added; null: none. `on_guess`: called
// before a plan for such sizes is begun, from where on time and memory may be this plan's; empty: nobody is told.
PlanAnswer AnswerPlanQuestion(const PlanQuestion& question, const LayerRules& rules, SeenSizes* seen = nullptr,
                              const std::function<void()>& on_guess = nullptr);

// Checks the size of a plan as it is stored and sent. Errors: kInvalidArgument (too large; names the size of the job
// and the limit).
absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec);

// Takes the plan out of an answer that has one.
PlannedJob PlannedJobOf(PlanAnswer& answer);

// Returns the place of a field, or else of the nearest one around it: those that a check of data files names are there.
std::string PlaceOf(const PlanAnswer& answer, const std::string& field);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLAN_ANSWER_H_
