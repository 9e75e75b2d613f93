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
// There is one exception, the limits of a planner process. A plan for sizes that were seen counts for those of the
// first question, and so does the check that follows where this plan cannot be made: a job may be refused there
// although its files have become so small that its own plan would keep to them. Only jobs of little work are planned in
// advance, which seldom come near these limits.
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
// `seen`: the sizes that earlier questions told, to which those of this one are added; null: none.
PlanAnswer AnswerPlanQuestion(const PlanQuestion& question, const LayerRules& rules, SeenSizes* seen = nullptr);

// Checks the size of a plan as it is stored and sent. Errors: kInvalidArgument (too large; names the size of the job
// and the limit).
absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec);

// Takes the plan out of an answer that has one.
PlannedJob PlannedJobOf(PlanAnswer& answer);

// Returns the place of a field, or else of the nearest one around it: those that a check of data files names are there.
std::string PlaceOf(const PlanAnswer& answer, const std::string& field);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLAN_ANSWER_H_
