#include "worker/session/session_weights.h"

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "worker/checkpoint/checkpoint_place.h"
#include "worker/checkpoint/file_system.h"
#include "worker/data/path_rules.h"
#include "worker/model/model_file.h"
#include "worker/session/checkpoint_weights.h"

namespace adjoin {

namespace {

// What the job's plan says that the file holds is of weights.from_output; that of weights.init_from is the user's own.
absl::StatusOr<ModelDifferences> LoadFile(const SessionOptions& options, bool strict, Parameters* parameters) {
  const Weights& weights = options.plan.spec().weights();
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, !weights.from_output().empty()
                                                   ? HoldBelow(options.output_root, weights.from_output())
                                                   : HoldBelow(options.data_root, weights.init_from()));
  absl::StatusOr<ModelDifferences> differences = LoadModel(
      file.path(), strict, parameters, options.plan.has_weights_file() ? &options.plan.weights_file() : nullptr);
  if (!differences.ok()) return file.AsShown(differences.status());
  return differences;
}

}  // namespace

absl::Status LoadWeights(const SessionEnvironment& environment, Parameters* parameters) {
  const Weights& weights = environment.spec().weights();
  if (!weights.from_job().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("weights.from_job: only a coordinator knows where the weights of ",
                                                   weights.from_job(),
                                                   " are; without one, name them by weights.from_output"));
  }
  const std::string& from = weights.from_output().empty() ? weights.init_from() : weights.from_output();
  if (from.empty()) return absl::OkStatus();
  const SessionActivity::Files activity(environment.activity);
  const bool strict = !weights.has_strict() || weights.strict();
  const std::optional<CheckpointPlace> checkpoint = CheckpointPlace::Parse(weights.from_output());
  DiskFiles files(environment.options.output_root);
  ADJOIN_ASSIGN_OR_RETURN(const ModelDifferences differences,
                          checkpoint.has_value() ? LoadCheckpointWeights(files, *checkpoint, strict, parameters)
                                                 : LoadFile(environment.options, strict, parameters));
  if (environment.writes()) {
    environment.Log(absl::StrCat("weights from '", from, "'", differences.empty() ? "" : "; ", differences.ToString()));
  }
  return absl::OkStatus();
}

absl::Status WriteModel(const SessionEnvironment& environment, const Parameters& parameters, SessionOutput* output,
                        SessionProgress* progress) {
  progress->StartPhase("writing weights", 0);
  if (!environment.writes()) return SaveModel("", environment.plan(), environment.communicator, parameters);
  const SessionActivity::Files files(environment.activity);
  ADJOIN_ASSIGN_OR_RETURN(const std::string path, output->PathOfNewFile(kModelFile));
  ADJOIN_RETURN_IF_ERROR(output->AsShown(SaveModel(path, environment.plan(), environment.communicator, parameters)));
  output->AddArtifact(kModelFile);
  return absl::OkStatus();
}

}  // namespace adjoin
