#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/amount_text.h"
#include "base/new_file.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/trace_file.h"
#include "cli/commands.h"
#include "cli/text.h"

namespace adjoin {
namespace {

// Waits until rank 0 has told what has become of the request. Errors: as the rank's; the job, or its attempt, has
// ended.
absl::StatusOr<TraceProgress> AwaitTrace(const CommandOptions& options, const std::string& job,
                                         const std::string& request_id) {
  CoordinatorClient client(options.client);  // a client that was cancelled is good for nothing else
  std::optional<TraceProgress> found;
  std::optional<uint64_t> epoch;
  absl::Status ended;
  bool told = false;
  const absl::Status followed = client.FollowJob(job, [&](const JobSummary& summary) {
    if (found.has_value() || !ended.ok()) return;
    const TraceProgress& trace = summary.progress().trace();
    if (!epoch.has_value()) epoch = summary.epoch();
    if (trace.request_id() == request_id) {
      if (!std::exchange(told, true) && trace.first_step() > 0) {
        std::cerr << "adjoin: steps " << trace.first_step() << " to " << trace.last_step() << " of " << job
                  << " are traced" << std::endl;
      }
      if (!trace.file().empty() || !trace.error().empty()) found = trace;
    }
    if (!found.has_value() && (summary.epoch() != *epoch || IsFinalState(summary.state()))) {
      ended = absl::FailedPreconditionError(
          IsFinalState(summary.state())
              ? absl::StrCat(job, " ", StateName(summary.state()), " before a trace was made")
              : absl::StrCat("attempt ", *epoch, " of ", job, " ended before a trace was made; ask again"));
    }
    if (found.has_value() || !ended.ok()) client.Cancel();
  });
  if (found.has_value()) {
    if (found->error().empty()) return *std::move(found);
    return absl::FailedPreconditionError(absl::StrCat("no trace of ", job, ": ", found->error()));
  }
  ADJOIN_RETURN_IF_ERROR(ended);
  ADJOIN_RETURN_IF_ERROR(followed);
  return absl::FailedPreconditionError(absl::StrCat(job, " ended before a trace was made"));
}

absl::Status Fetch(const CommandOptions& options, const std::string& job, const std::string& name,
                   const std::string& output) {
  CoordinatorClient client(options.client);
  GetArtifactRequest request;
  request.set_job_id(job);
  request.set_name(name);
  request.set_unfinished(true);
  if (output == "-") {
    return client.GetArtifact(std::move(request), [](const ArtifactChunk& chunk) {
      std::cout.write(chunk.data().data(), static_cast<std::streamsize>(chunk.data().size()));
      return std::cout.flush() ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
    });
  }
  ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin(output, NewFile::Over::kRegularFile));
  ADJOIN_RETURN_IF_ERROR(
      client.GetArtifact(std::move(request), [&](const ArtifactChunk& chunk) { return file.Write(chunk.data()); }));
  return file.Finish();
}

}  // namespace

absl::StatusOr<int> RunTrace(const CommandOptions& options, const TraceOptions& trace) {
  CoordinatorClient client(options.client);
  const std::string request_id = NewIdempotencyKey();
  ADJOIN_ASSIGN_OR_RETURN(const std::string job, client.TraceJob(trace.job, trace.steps, request_id));
  ADJOIN_ASSIGN_OR_RETURN(const TraceProgress made, AwaitTrace(options, job, request_id));
  if (!IsTraceFile(made.file())) return absl::DataLossError(absl::StrCat("not the name of a trace: ", made.file()));
  const std::string output = trace.output.empty() ? made.file() : trace.output;
  ADJOIN_RETURN_IF_ERROR(Fetch(options, job, made.file(), output));
  // Standard output may have the file.
  std::ostream& out = output == "-" ? std::cerr : std::cout;
  out << absl::StreamFormat("%s: steps %d to %d of %s, %s; the ranks' times agree within %.1f microseconds\n",
                            PrintableText(output), made.first_step(), made.last_step(), job,
                            BytesText(static_cast<int64_t>(made.bytes())), made.clock_error_seconds() * 1e6);
  if (made.dropped_events() > 0) {
    out << absl::StreamFormat("it lacks %d events, for which the ranks had no room: trace fewer steps\n",
                              made.dropped_events());
  }
  out << std::flush;
  return 0;
}

}  // namespace adjoin
