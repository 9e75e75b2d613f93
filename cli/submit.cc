#include <iostream>

#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "planner/spec/spec_file.h"
#include "planner/spec/spec_setter.h"
#include "proto/message_limits.h"

namespace adjoin {

absl::StatusOr<int> RunSubmit(const CommandOptions& options, const SubmitOptions& submit) {
  SpecSource source;
  source.name = submit.spec_file == "-" ? "standard input" : PrintableText(submit.spec_file, kMaxPathBytes);
  ADJOIN_ASSIGN_OR_RETURN(source.text, ReadSpecFile(submit.spec_file));
  ADJOIN_ASSIGN_OR_RETURN(source, WithChanges(source, submit.changes));
  Submission submission;
  submission.spec_source = source.text;
  submission.spec_file = source.name;
  submission.priority = submit.priority;
  submission.idempotency_key = submit.idempotency_key;
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(SubmitResponse answer, client.Submit(submission));
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
