#include "worker/job_paths.h"

#include "base/status_macros.h"
#include "proto/plan.pb.h"
#include "worker/result_folder.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {

absl::Status PrepareJobPaths(const JobRoots& roots, const StartRanks& start) {
  Plan plan;
  if (!plan.ParseFromString(start.plan())) return absl::InvalidArgumentError("its plan cannot be read");
  const std::string& output = plan.spec().output_dir();
  ADJOIN_RETURN_IF_ERROR(CheckOutputPath(roots.output_root, output));
  for (const Dataset& dataset : plan.spec().dataset()) {
    for (const Field& field : dataset.field()) {
      for (const std::string& path : field.idx().path()) {
        ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, path).status());
      }
    }
  }
  const std::string& init_from = plan.spec().weights().init_from();
  if (!init_from.empty()) ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.data_root, init_from).status());
  const std::string& from_output = plan.spec().weights().from_output();
  if (!from_output.empty()) ADJOIN_RETURN_IF_ERROR(ResolveBelow(roots.output_root, from_output).status());
  if (!roots.rank_user.has_value()) return absl::OkStatus();
  return MakeResultFolder(roots.output_root, output, roots.rank_user->uid, roots.rank_user->gid);
}

}  // namespace adjoin
