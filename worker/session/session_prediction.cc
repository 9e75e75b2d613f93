#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "worker/data/path_rules.h"
#include "worker/session/session_run.h"
#include "worker/training/predictor.h"

namespace adjoin {
namespace {

constexpr size_t kMostNamesInLog = 8;

}  // namespace

absl::StatusOr<HeldPath> SessionRun::AttemptFolderOfRank0() const {
  std::string relative = plan_.spec().output_dir();
  if (options_.epoch != 0) absl::StrAppend(&relative, relative.empty() ? "" : "/", AttemptFolder(options_.epoch));
  return HoldBelow(options_.output_root, relative.empty() ? "." : relative);
}

absl::Status SessionRun::RunPrediction(Parameters* parameters) {
  std::optional<HeldPath> folder;  // of another rank's output_
  const auto find_folder = [&]() -> absl::StatusOr<std::string> {
    if (output_ != nullptr) return output_->folder();
    ADJOIN_ASSIGN_OR_RETURN(folder, AttemptFolderOfRank0());
    return folder->path();
  };
  const auto as_shown = [&](const absl::Status& status) {
    if (output_ != nullptr) return output_->AsShown(status);
    return folder.has_value() ? folder->AsShown(status) : status;
  };
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Predictor> predictor,
                          Predictor::Create(plan_, &communicator_, parameters, Data(), find_folder, layers_,
                                            &activity_));
  result_.final.set_program("predict");
  StartPhase("predicting", predictor->total_steps());
  while (!predictor->done()) {
    ADJOIN_RETURN_IF_ERROR(as_shown(predictor->RunStep(stop_asked())));
    if (predictor->stop_asked()) {
      result_.drained_step = predictor->steps_done();
      return absl::OkStatus();
    }
    Progress(predictor->steps_done(), /*last=*/predictor->done());
  }
  absl::StatusOr<std::vector<std::string>> files = predictor->Finish();
  if (!files.ok()) return as_shown(files.status());
  if (files->empty()) return absl::OkStatus();
  result_.artifacts.insert(result_.artifacts.end(), files->begin(), files->end());
  const size_t shown = std::min(files->size(), kMostNamesInLog);
  Log(absl::StrCat("written: ", absl::StrJoin(files->begin(), files->begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                   shown < files->size() ? absl::StrCat(" and ", files->size() - shown, " more") : ""));
  return absl::OkStatus();
}

}  // namespace adjoin
