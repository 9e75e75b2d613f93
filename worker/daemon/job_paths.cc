#include "worker/daemon/job_paths.h"

#include "base/status_macros.h"
#include "planner/spec/field_files.h"
#include "proto/plan.pb.h"
#include "worker/daemon/result_folder.h"
#include "worker/data/path_rules.h"

namespace adjoin {

absl::Status PrepareJobPaths(const JobRoots& roots, const StartRanks& start) {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InvalidArgumentError("its plan cannot be read");
  const std::string& output = plan.spec().output_dir();
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, output));
  for (const Dataset& dataset : plan.spec().dataset()) {
    for (const Field& field : dataset.field()) {
      const File* files = FilesOf(field);
      if (files == nullptr) continue;
      for (const std::string& path : files->path()) {
        ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, path).status());
      }
    }
  }
  const std::string& init_from = plan.spec().weights().init_from();
  // Once there are checkpoints, a job goes on without what it began with.
  const bool may_resume = !plan.spec().checkpoint().dir().empty();
  if (!init_from.empty() && !may_resume) ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, init_from).status());
  const std::string& from_output = plan.spec().weights().from_output();
  if (!from_output.empty() && !may_resume)
    ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.output_root, from_output).status());
  const std::string& checkpoints = plan.spec().checkpoint().dir();
  if (!checkpoints.empty()) ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, checkpoints));
  if (!roots.rank_user.has_value()) return absl::OkStatus();
  const User& user = *roots.rank_user;
  ADJOIN_RETURN_IF_ERROR(MakeResultFolder(roots.output_root, output, user.uid, user.gid));
  return checkpoints.empty() ? absl::OkStatus() : MakeResultFolder(roots.output_root, checkpoints, user.uid, user.gid);
}

}  // namespace adjoin
