#include "coordinator/planning/plan_maker.h"

#include "coordinator/planning/plan_answer.h"

namespace adjoin {

PlanQuestion QuestionOf(const PlanTask& task) {
  PlanQuestion question;
  if (task.picture_of != nullptr) {
    question.set_picture_of(*task.picture_of);
    if (task.rates != nullptr) *question.mutable_rates() = *task.rates;
    return question;
  }
  if (task.spec->source.empty()) *question.mutable_spec() = task.spec->spec;
  question.set_source(task.spec->source);
  question.set_file(task.spec->file);
  question.set_output_dir(task.output_dir);
  question.set_as_if_unseen(task.as_if_unseen);
  question.set_weights(task.weights);
  if (task.weights_file.has_value()) *question.mutable_weights_file() = *task.weights_file;
  if (task.rates != nullptr) *question.mutable_rates() = *task.rates;
  question.set_sized(task.sizes.has_value());
  if (task.sizes.has_value()) *question.mutable_size() = {task.sizes->begin(), task.sizes->end()};
  return question;
}

absl::StatusOr<PlanAnswer> InProcessMaker::Make(const PlanTask& task, const std::function<bool()>& go_on) {
  return AnswerPlanQuestion(QuestionOf(task), rules_, &seen_);
}

}  // namespace adjoin
