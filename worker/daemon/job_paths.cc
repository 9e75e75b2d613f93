#include "worker/daemon/job_paths.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "planner/spec/field_files.h"
#include "proto/plan.pb.h"
#include "worker/checkpoint/checkpoint_place.h"
#include "worker/daemon/folder_owner.h"
#include "worker/daemon/result_folder.h"
#include "worker/data/path_rules.h"

namespace adjoin {
namespace {

// Tells before a file or folder is touched; "": a root itself.
class Entering {
 public:
  Entering(const JobRoots& roots, const MountCalls::Enter& enter) : roots_(roots), enter_(enter) {}

  absl::Status Data(const std::string& path) const { return Below(roots_.data_root, path); }
  absl::Status Output(const std::string& path) const { return Below(roots_.output_root, path); }

 private:
  absl::Status Below(const std::string& root, const std::string& path) const {
    return enter_ ? enter_(path.empty() ? root : absl::StrCat(root, "/", path)) : absl::OkStatus();
  }

  const JobRoots& roots_;
  const MountCalls::Enter& enter_;
};

// True where one of the roots is in the other, so that results can be read as data. Errors: those of `entering`.
absl::StatusOr<bool> RootsOverlap(const JobRoots& roots, const Entering& entering) {
  ADJOIN_RETURN_IF_ERROR(entering.Data(""));
  const absl::StatusOr<std::string> data = ResolveBelow(roots.data_root, ".");
  ADJOIN_RETURN_IF_ERROR(entering.Output(""));
  const absl::StatusOr<std::string> output = ResolveBelow(roots.output_root, ".");
  if (!data.ok() || !output.ok()) return true;
  const auto below = [](const std::string& path, const std::string& root) {
    return path == root || absl::StartsWith(path, root == "/" ? root : root + "/");
  };
  return below(*data, *output) || below(*output, *data);
}

// Errors: kFailedPrecondition (the job writes into a folder of another owner's, or reads from one).
absl::Status CheckOwners(const JobRoots& roots, const JobSpec& spec, const FolderUser& user, const Entering& entering) {
  ADJOIN_RETURN_IF_ERROR(CheckMayWrite(roots.output_root, spec.output_dir(), user));
  const std::string& checkpoints = spec.checkpoint().dir();
  if (!checkpoints.empty()) {
    ADJOIN_RETURN_IF_ERROR(entering.Output(checkpoints));
    ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, checkpoints));
    ADJOIN_RETURN_IF_ERROR(CheckMayWrite(roots.output_root, checkpoints, user));
  }
  for (const std::string& read : {spec.checkpoint().resume_from(), spec.weights().from_output()}) {
    if (read.empty()) continue;
    ADJOIN_RETURN_IF_ERROR(entering.Output(read));
    ADJOIN_RETURN_IF_ERROR(CheckMayRead(roots.output_root, read, user));
  }
  ADJOIN_ASSIGN_OR_RETURN(const bool results_are_data, RootsOverlap(roots, entering));
  if (!results_are_data) return absl::OkStatus();
  const std::string& init_from = spec.weights().init_from();
  if (!init_from.empty()) {
    ADJOIN_RETURN_IF_ERROR(entering.Data(init_from));
    ADJOIN_RETURN_IF_ERROR(CheckMayRead(roots.data_root, init_from, user));
  }
  for (const Dataset& dataset : spec.dataset()) {
    for (const Field& field : dataset.field()) {
      const File* files = FilesOf(field);
      if (files == nullptr) continue;
      for (const std::string& path : files->path()) {
        ADJOIN_RETURN_IF_ERROR(entering.Data(path));
        ADJOIN_RETURN_IF_ERROR(CheckMayRead(roots.data_root, path, user));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareJobPaths(const JobRoots& roots, const StartRanks& start, const MountCalls::Enter& enter) {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InvalidArgumentError("its plan cannot be read");
  const Entering entering(roots, enter);
  const std::string& output = plan.spec().output_dir();
  ADJOIN_RETURN_IF_ERROR(entering.Output(output));
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, output));
  const FolderUser user{
      .owner = start.owner(), .job_id = start.job_id(), .store_id = start.store_id(), .any_folder = start.any_folder()};
  const bool owned = start.job_tag() != 0;  // else the coordinator is an older one, which names no owners
  if (owned) ADJOIN_RETURN_IF_ERROR(CheckOwners(roots, plan.spec(), user, entering));
  for (const Dataset& dataset : plan.spec().dataset()) {
    for (const Field& field : dataset.field()) {
      const File* files = FilesOf(field);
      if (files == nullptr) continue;
      for (const std::string& path : files->path()) {
        ADJOIN_RETURN_IF_ERROR(entering.Data(path));
        ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, path).status());
      }
    }
  }
  const std::string& init_from = plan.spec().weights().init_from();
  // Once there are checkpoints, a job goes on without what it began with.
  const bool may_resume = !plan.spec().checkpoint().dir().empty();
  if (!init_from.empty() && !may_resume) {
    ADJOIN_RETURN_IF_ERROR(entering.Data(init_from));
    ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, init_from).status());
  }
  const std::string& from_output = plan.spec().weights().from_output();
  if (!from_output.empty() && !may_resume) {
    ADJOIN_RETURN_IF_ERROR(entering.Output(from_output));
    const absl::Status found = ResolveBelow(roots.output_root, from_output).status();
    const std::optional<CheckpointPlace> checkpoint = CheckpointPlace::Parse(from_output);
    if (absl::IsNotFound(found) && checkpoint.has_value()) return NoCheckpoint(*checkpoint);
    ADJOIN_RETURN_IF_ERROR(found);
  }
  const std::string& checkpoints = plan.spec().checkpoint().dir();
  if (!checkpoints.empty()) {
    ADJOIN_RETURN_IF_ERROR(entering.Output(checkpoints));
    ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, checkpoints));
  }
  // Ranks of other nodes write nothing, or into folders that this node's daemon shares with that of rank 0.
  const bool has_rank_0 = std::find(start.rank().begin(), start.rank().end(), 0u) != start.rank().end();
  for (const std::string* folder : {&output, &checkpoints}) {
    if (folder == &checkpoints && checkpoints.empty()) continue;
    ADJOIN_RETURN_IF_ERROR(entering.Output(*folder));
    if (roots.rank_user.has_value()) {
      ADJOIN_RETURN_IF_ERROR(MakeResultFolder(roots.output_root, *folder, roots.rank_user->uid, roots.rank_user->gid));
    }
    if (has_rank_0 && owned) ADJOIN_RETURN_IF_ERROR(OwnFolder(roots.output_root, *folder, user));
  }
  if (roots.retention == nullptr || !has_rank_0) return absl::OkStatus();
  const absl::Status recorded =
      roots.retention->Began({.output_dir = output, .job_id = start.job_id(), .store_id = start.store_id()});
  if (!recorded.ok()) {
    LogWarning(absl::StrCat("folders of attempts of ", start.job_id(),
                            " will not be removed when they are old: ", std::string(recorded.message())));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
