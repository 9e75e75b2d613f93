#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/path_rules.h"
#include "worker/model/model_file.h"
#include "worker/session/session_run.h"

namespace adjoin {
namespace {

constexpr char kModelFile[] = "model.safetensors";

}  // namespace

absl::Status SessionRun::LoadWeights() {
  const Weights& weights = plan_.spec().weights();
  const bool of_job = !weights.from_output().empty();
  if (!of_job && weights.init_from().empty()) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, of_job ? HoldBelow(options_.output_root, weights.from_output())
                                                      : HoldBelow(options_.data_root, weights.init_from()));
  const bool strict = !weights.has_strict() || weights.strict();
  const absl::StatusOr<ModelDifferences> differences = LoadModel(file.path(), strict, &*parameters_);
  if (!differences.ok()) return file.AsShown(differences.status());
  if (writes()) {
    Log(absl::StrCat("weights from ", file.shown(), differences->empty() ? "" : "; ", differences->ToString()));
  }
  return absl::OkStatus();
}

absl::Status SessionRun::WriteModel(const Parameters& parameters) {
  StartPhase("writing weights", 0);
  if (!writes()) return SaveModel("", plan_, &communicator_, parameters);
  const SessionActivity::Files files(&activity_);
  ADJOIN_RETURN_IF_ERROR(output_->CheckLatest());
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(
      SaveModel(absl::StrCat(output_->folder(), "/", kModelFile), plan_, &communicator_, parameters)));
  result_.artifacts.push_back(kModelFile);
  return absl::OkStatus();
}

}  // namespace adjoin
