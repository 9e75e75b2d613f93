#include "worker/session/session_prediction.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/training/predictor.h"

namespace adjoin {
namespace {

constexpr size_t kMostNamesInLog = 8;

}  // namespace

absl::StatusOr<std::optional<int64_t>> RunPrediction(const SessionEnvironment& environment, Parameters* parameters,
                                                     SessionOutput* output, SessionProgress* progress) {
  ADJOIN_ASSIGN_OR_RETURN(
      std::unique_ptr<Predictor> predictor,
      Predictor::Create(
          environment.plan(), environment.communicator, parameters, environment.Data(),
          [output] { return output->FindFolder(); }, environment.layers, environment.activity, environment.planning));
  progress->shown().set_program("predict");
  progress->StartPhase("predicting", predictor->total_steps());
  while (!predictor->done()) {
    ADJOIN_RETURN_IF_ERROR(output->AsShown(predictor->RunStep(environment.stop_asked())));
    if (predictor->stop_asked()) return predictor->steps_done();
    progress->SetStep(predictor->steps_done(), /*last=*/predictor->done());
  }
  absl::StatusOr<std::vector<std::string>> files = predictor->Finish();
  if (!files.ok()) return output->AsShown(files.status());
  if (files->empty()) return std::nullopt;
  for (const std::string& file : *files) output->AddArtifact(file);
  const size_t shown = std::min(files->size(), kMostNamesInLog);
  environment.Log(absl::StrCat(
      "written: ", absl::StrJoin(files->begin(), files->begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < files->size() ? absl::StrCat(" and ", files->size() - shown, " more") : ""));
  return std::nullopt;
}

}  // namespace adjoin
