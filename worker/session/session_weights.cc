#include "worker/session/session_weights.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "worker/data/path_rules.h"
#include "worker/model/model_file.h"

namespace adjoin {

absl::Status LoadWeights(const SessionEnvironment& environment, Parameters* parameters) {
  const Weights& weights = environment.spec().weights();
  const bool of_job = !weights.from_output().empty();
  if (!of_job && weights.init_from().empty()) return absl::OkStatus();
  const SessionActivity::Files files(environment.activity);
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, of_job
                                                   ? HoldBelow(environment.options.output_root, weights.from_output())
                                                   : HoldBelow(environment.options.data_root, weights.init_from()));
  const bool strict = !weights.has_strict() || weights.strict();
  const absl::StatusOr<ModelDifferences> differences = LoadModel(file.path(), strict, parameters);
  if (!differences.ok()) return file.AsShown(differences.status());
  if (environment.writes()) {
    environment.Log(
        absl::StrCat("weights from ", file.shown(), differences->empty() ? "" : "; ", differences->ToString()));
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
