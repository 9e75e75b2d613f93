#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/text.h"

namespace adjoin {
namespace {

// `answer` for programs, `text` for people.
int Say(const CommandOptions& options, const google::protobuf::Message& answer, const std::string& text) {
  std::cout << (options.format == Format::kTable ? text + "\n" : Formatted(answer, options.format)) << std::flush;
  return 0;
}

}  // namespace

absl::StatusOr<int> RunCancel(const CommandOptions& options, const std::string& job) {
  CoordinatorClient client(options.client);
  CancelJobResponse answer;
  ADJOIN_ASSIGN_OR_RETURN(JobState state, client.CancelJob(job));
  answer.set_state(state);
  return Say(
      options, answer,
      state == CANCELLED ? job + " is cancelled" : absl::StrCat(job, " had ended already: it ", StateName(state)));
}

absl::StatusOr<int> RunRetry(const CommandOptions& options, const std::string& job) {
  CoordinatorClient client(options.client);
  RetryJobResponse answer;
  ADJOIN_ASSIGN_OR_RETURN(JobState state, client.RetryJob(job));
  answer.set_state(state);
  return Say(options, answer,
             state == PENDING ? job + " waits again" : absl::StrCat(job, " is tried again: it is ", StateName(state)));
}

absl::StatusOr<int> RunRemove(const CommandOptions& options, const std::string& job, bool files) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(const RemoveJobResponse answer, client.RemoveJob(job, files));
  const std::string what =
      !files ? "; its files stay"
             : absl::StrCat(", with ", answer.removed_files(), answer.removed_files() == 1 ? " file of " : " files of ",
                            answer.removed_bytes(), " bytes");
  return Say(options, answer, absl::StrCat(answer.job_id(), " is removed", what));
}

absl::StatusOr<int> RunHold(const CommandOptions& options, const std::string& job) {
  CoordinatorClient client(options.client);
  ADJOIN_RETURN_IF_ERROR(client.HoldJob(job));
  return Say(options, HoldJobResponse(), absl::StrCat(job, " is held: `adjoin release ", job, "` lets it start"));
}

absl::StatusOr<int> RunRelease(const CommandOptions& options, const std::string& job) {
  CoordinatorClient client(options.client);
  ADJOIN_RETURN_IF_ERROR(client.ReleaseJob(job));
  return Say(options, ReleaseJobResponse(), absl::StrCat(job, " may start"));
}

}  // namespace adjoin
