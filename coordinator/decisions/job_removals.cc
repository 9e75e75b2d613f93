#include "coordinator/decisions/job_removals.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/decisions/output_folders.h"

namespace adjoin {

// A job that has not ended and has one of the job's folders, one above or one below; null where there is none.
const JobRecord* JobRemovals::UserOfFolders(const JobRecord& job) const {
  for (const JobRecord* other : std::as_const(jobs_).All()) {
    if (IsFinal(other->state) && other->attempt.holders.empty()) continue;
    for (const std::string& folder : FoldersOf(job.spec)) {
      for (const std::string& used : FoldersOf(other->spec)) {
        if (FoldersMeet(folder, used)) return other;
      }
    }
  }
  return nullptr;
}

absl::StatusOr<JobRemoval> JobRemovals::Begin(JobRecord& job, bool files, uint64_t store_id) {
  if (!IsFinal(job.state)) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " is ", absl::AsciiStrToLower(JobState_Name(job.state)),
                                                      ": only a job that has ended can be removed; `adjoin cancel ",
                                                      job.id, "` ends it"));
  }
  if (!job.attempt.holders.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", job.attempt.holders.begin()->first,
                                                      " may still have processes of ", job.id,
                                                      ": it can be removed when none is left, or their lease is over"));
  }
  if (job.removing) return absl::FailedPreconditionError(absl::StrCat(job.id, " is being removed already"));
  if (const JobRecord* other = files ? UserOfFolders(job) : nullptr; other != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(other->id, " has not ended and writes in a folder of ", job.id,
                                                      ": its files can be removed afterwards"));
  }
  JobRemoval removal;
  removal.job_id = job.id;
  if (files && !job.attempt.ranks.empty()) {
    // Rank 0 writes the results, and what ranks share they all see.
    removal.worker = job.attempt.ranks[0].worker;
    const WorkerRecord* worker = workers_.Find(removal.worker);
    if (worker == nullptr || worker->connection == 0) {
      return absl::UnavailableError(absl::StrCat("worker ", removal.worker, ", which has the files of ", job.id,
                                                 ", is not connected; without --files the job alone is removed"));
    }
    removal.connection = worker->connection;
    RemoveFolders& folders = removal.folders;
    folders.set_job_id(job.id);
    folders.set_owner(job.owner);
    folders.set_any_folder(job.any_folder);
    folders.set_output_dir(job.spec.output_dir());
    folders.set_checkpoint_dir(job.spec.checkpoint().dir());
    folders.set_job_tag(job.tag);
    folders.set_store_id(store_id);
    for (const std::string& artifact : job.artifacts) folders.add_artifact(artifact);
  }
  job.removing = true;
  job.removing_files = removal.connection != 0;
  return removal;
}

void JobRemovals::End(const std::string& job_id, bool forget) {
  JobRecord* job = jobs_.Find(job_id);
  if (job == nullptr) return;  // it was forgotten meanwhile, as an old one
  job->removing = false;
  if (forget) submissions_.Forget(*job, /*files_removed=*/job->removing_files);
}

}  // namespace adjoin
