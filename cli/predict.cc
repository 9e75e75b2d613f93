// adjoin predict and adjoin evaluate: a job that applies, or measures, another job's model.
#include <google/protobuf/text_format.h>

#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/derived_job.h"
#include "cli/rates.h"
#include "cli/text.h"
#include "planner/spec/spec_include.h"
#include "planner/spec/spec_locations.h"

namespace adjoin {
namespace {

// Sets `derive.from_job` where a checkpoint is wanted.
absl::StatusOr<JobSpec> TrainedSpec(const CommandOptions& options, const std::string& job, DerivedJobOptions& derive) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse described, client.DescribeJob(job));
  const std::string id = described.job().job_id();
  const bool of_checkpoint = derive.best || derive.step > 0;
  if (of_checkpoint) derive.from_job = id;
  if (!of_checkpoint && described.job().state() != SUCCEEDED) {
    const JobState state = described.job().state();
    const bool has_checkpoints = !described.spec().checkpoint().dir().empty();
    return absl::FailedPreconditionError(
        absl::StrCat(id, " is ", StateName(state),
                     IsFinalState(state) ? " and has published no model" : ": its model is there once it has succeeded",
                     has_checkpoints ? "; --best or --step N takes one of its checkpoints" : ""));
  }
  if (!of_checkpoint && !described.replaced_by().empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the model of ", id, " is no more: ", described.replaced_by(),
                                                      " has replaced it; name ", described.replaced_by()));
  }
  if (described.spec().layer().empty()) {
    return absl::PermissionDeniedError(absl::StrCat("the coordinator does not show the spec of ", id, " to you"));
  }
  return described.spec();
}

}  // namespace

absl::StatusOr<int> RunDerived(const CommandOptions& options, DerivedOptions derive, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec trained, TrainedSpec(options, derive.job_name, derive.job));
  if (!derive.data_file.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(LoadedSpec data, LoadSpec(derive.data_file, {}));
    derive.job.data = std::move(data.parsed.spec);
  }
  absl::StatusOr<DerivedJob> derived = DeriveJob(trained, derive.job);
  if (!derived.ok()) {
    return absl::Status(derived.status().code(),
                        absl::StrCat(derive.job_name, ": ", std::string(derived.status().message())));
  }
  ADJOIN_RETURN_IF_ERROR(ChangeSpec(derive.submit.changes, &derived->spec));
  for (const std::string& notice : derived->notices) std::cerr << "adjoin: " << PrintableText(notice) << std::endl;
  LoadedSpec loaded;
  loaded.source.name = absl::StrCat(derive.job.kind == PREDICT ? "prediction" : "evaluation", " of ", derive.job_name);
  loaded.parsed.locations = SpecLocations(loaded.source.name);  // the user does not see its lines
  if (!google::protobuf::TextFormat::PrintToString(derived->spec, &loaded.source.text)) {
    return absl::InternalError("the job cannot be written as text");
  }
  loaded.parsed.spec = std::move(derived->spec);
  ADJOIN_RETURN_IF_ERROR(ChooseLayoutsBy(derive.submit.rates, options.client, derive.submit.layouts,
                                         /*data_root=*/std::nullopt, rules, &loaded));
  if (derive.dry_run) {
    std::cout << loaded.source.text << std::flush;
    return 0;
  }
  return SubmitLoaded(options, derive.submit, loaded);
}

}  // namespace adjoin
