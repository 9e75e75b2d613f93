#include <iostream>
#include <optional>

#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/rates.h"
#include "planner/spec/spec_include.h"
#include "proto/message_limits.h"

namespace adjoin {

absl::StatusOr<int> RunSubmit(const CommandOptions& options, const SubmitOptions& submit, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(LoadedSpec loaded, LoadSpec(submit.spec_file, submit.changes));
  ADJOIN_RETURN_IF_ERROR(
      ChooseLayoutsBy(submit.rates, options.client, submit.layouts, /*data_root=*/std::nullopt, rules, &loaded));
  return SubmitLoaded(options, submit, loaded);
}

absl::StatusOr<int> SubmitLoaded(const CommandOptions& options, const SubmitOptions& submit, const LoadedSpec& loaded) {
  Submission submission;
  submission.spec_source = loaded.source.text;
  submission.spec_file = PrintableText(loaded.source.name, kMaxPathBytes);
  submission.priority = submit.priority;
  submission.idempotency_key = submit.idempotency_key;
  submission.replace_output = submit.replace;
  CoordinatorClient client(options.client);
  const absl::StatusOr<SubmitResponse> answered = client.Submit(submission);
  if (!answered.ok()) return AtIncludedFile(answered.status(), loaded);
  const SubmitResponse& answer = *answered;
  if (options.format == Format::kTable) {
    std::cout << answer.job_id() << std::endl;
    if (answer.existed() && !submit.idempotency_key.empty()) {
      std::cerr << "adjoin: " << answer.job_id() << " was submitted with this idempotency key before" << std::endl;
    }
  } else {
    std::cout << (submit.follow ? FormattedItem(answer, options.format) : Formatted(answer, options.format))
              << std::flush;
  }
  return submit.follow ? RunFollow(options, answer.job_id()) : 0;
}

}  // namespace adjoin
