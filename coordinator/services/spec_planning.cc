#include "coordinator/services/spec_planning.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "coordinator/decisions/idempotency_keys.h"
#include "coordinator/planning/plan_answer.h"
#include "planner/spec/spec_parser.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr size_t kShown = 60;  // bytes of a refused text, in the error

// `what`: "the idempotency key".
absl::Status CheckText(absl::string_view what, const std::string& text, size_t most) {
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", text.size(), " bytes; at most ", most, " are allowed"));
  }
  if (IsPrintableText(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " \"", PrintableText(text, kShown),
                                                 "\" has control characters, or is not UTF-8: take another"));
}

// What a spec is called in messages before anybody has read it.
std::string NameOf(const SubmitRequest& request) {
  if (!request.spec_source().empty()) return request.spec_file().empty() ? "spec" : request.spec_file();
  return request.spec().name().empty() ? "spec"
                                       : absl::StrCat("job '", PrintableText(request.spec().name(), kShown), "'");
}

}  // namespace

bool MayLackOutputDir(const SubmitRequest& request) {
  const std::string& text = request.spec_source();
  if (text.empty()) return request.spec().output_dir().empty();
  // A job whose text has the words elsewhere, as in a comment, is planned once more when its folder is chosen.
  return !absl::StrContains(text, "output_dir") && !absl::StrContains(text, "outputDir");
}

absl::StatusOr<NewJob> ReadSubmission(const SubmitRequest& request, const std::string& owner, SpecPlanner& planner,
                                      const std::function<bool()>& given_up, ReadOptions options) {
  ADJOIN_RETURN_IF_ERROR(CheckText("the idempotency key", request.idempotency_key(), kMaxNameBytes));
  ADJOIN_RETURN_IF_ERROR(CheckText("the name of the spec's file (spec_file)", request.spec_file(), kMaxPathBytes));
  const size_t bytes = std::max(request.spec_source().size(), request.spec().ByteSizeLong());
  if (bytes > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(request), ": has ", bytes, " bytes; a job has at most ", kMaxSpecBytes));
  }
  SubmittedSpec written;
  if (request.spec_source().empty()) written.spec = request.spec();
  written.source = request.spec_source();
  written.file = request.spec_file();
  PlanTask task;
  task.owner = owner;
  task.name = NameOf(request);
  task.spec = std::make_shared<const SubmittedSpec>(std::move(written));
  task.rates = std::move(options.rates);
  if (options.number != 0) task.output_dir = OwnOutputFolder(options.number);
  NewJob job;
  job.number = options.number;
  job.written = task.spec;
  ADJOIN_ASSIGN_OR_RETURN(PlanAnswer answer, PlanAndWait(planner, std::move(task), given_up));
  job.spec = request.spec_source().empty() ? request.spec() : std::move(*answer.mutable_spec());
  job.model = {std::make_move_iterator(answer.mutable_model()->begin()),
               std::make_move_iterator(answer.mutable_model()->end())};
  if (!answer.hash().empty()) {
    job.plan = PlannedJobOf(answer);
    job.expected_sizes = {answer.expected_size().begin(), answer.expected_size().end()};
  }
  job.owner = owner;
  job.priority = request.priority();
  job.idempotency_key = request.idempotency_key();
  if (!job.idempotency_key.empty()) job.spec_hash = SpecHash(job.spec);
  job.replace_output = request.replace_output();
  const auto places = std::make_shared<const PlanAnswer>(std::move(answer));
  job.place_of = [places](const std::string& field) { return PlaceOf(*places, field); };
  return job;
}

absl::StatusOr<NewJob> ReadNumbered(const SubmitRequest& request, const std::string& owner, SpecPlanner& planner,
                                    const std::function<bool()>& given_up, const WithService& look) {
  const bool may_lack_folder = MayLackOutputDir(request);
  ReadOptions options;
  look([&](CoordinationService& service) {
    options.rates = service.RatesOfMost();
    if (may_lack_folder) options.number = service.ReserveNumber();
  });
  const uint64_t number = options.number;
  absl::StatusOr<NewJob> job = ReadSubmission(request, owner, planner, given_up, std::move(options));
  if (job.ok() && given_up()) job = absl::CancelledError("the client has gone");
  if (!job.ok() && number != 0) look([&](CoordinationService& service) { service.GiveBackNumber(number); });
  return job;
}

PlaceFunction PlacesOf(const StoredSubmission& submission) {
  if (submission.source().empty()) return nullptr;
  auto shared = std::make_shared<const StoredSubmission>(submission);
  return [shared](const std::string& field) {
    // A planner process has read this text before: it does not harm.
    const absl::StatusOr<ParsedSpec> parsed =
        ParseSpec(shared->source(), shared->file().empty() ? "spec" : shared->file());
    return parsed.ok() ? parsed->locations.At(field) : std::string();
  };
}

}  // namespace adjoin
