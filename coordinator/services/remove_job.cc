// UserService::RemoveJob: a job's files are removed by a daemon first, and then the job is forgotten.
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/printable_text.h"
#include "coordinator/services/request_id.h"
#include "coordinator/services/user_service.h"
#include "proto/grpc_status.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr absl::Duration kRemovalTimeout = absl::Seconds(60);
constexpr absl::Duration kRemovalCommitTimeout = absl::Seconds(10);

}  // namespace

absl::StatusOr<FoldersRemoved> UserService::RemoveFiles(const Context& context, JobRemoval& removal) {
  removal.folders.set_request_id(NewRequestId());
  CoordinatorMessage message;
  *message.mutable_header() = MakeHeader();
  *message.mutable_remove_folders() = removal.folders;
  parts_.removals.Open(removal.folders.request_id());
  const bool sent = hub_.SendTo(removal.connection, std::move(message));
  const absl::StatusOr<FoldersRemoved> answer = parts_.removals.Await(
      removal.folders.request_id(), Deadline::After(sent ? kRemovalTimeout : absl::ZeroDuration()),
      [&context] { return context.IsCancelled(); });
  if (!sent) return absl::UnavailableError(absl::StrCat("worker ", removal.worker, " is not connected"));
  if (!answer.ok()) {
    return absl::DeadlineExceededError(absl::StrCat("worker ", removal.worker, " did not remove the files of ",
                                                    removal.job_id, " within ", absl::FormatDuration(kRemovalTimeout),
                                                    "; it may still do so, and the job stays: try again later"));
  }
  if (!answer->error().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the files of ", removal.job_id, " on worker ", removal.worker,
                     " stay, and so does the job: ", PrintableText(answer->error(), kMaxErrorBytes)));
  }
  return answer;
}

grpc::Status UserService::RemoveJob(Context* context, const RemoveJobRequest* request, RemoveJobResponse* response) {
  if (absl::Status status = CheckProtocol(request->header(), "the client", "this coordinator"); !status.ok()) {
    return ToGrpc(status);
  }
  absl::StatusOr<Admitted> call = parts_.access.Admit(*context, "RemoveJob");
  if (!call.ok()) return ToGrpc(call.status());
  const Caller& caller = call->caller();
  absl::StatusOr<JobRemoval> removal = hub_.Do([&](CoordinationService& service) {
    return service.BeginRemoval({request->job_id(), caller.name}, request->files(),
                                [&](const JobRecord& job) { return MayChange(caller, job.owner, job.id); });
  });
  if (!removal.ok()) return ToGrpc(removal.status());
  absl::Cleanup stays = [&] {
    hub_.Do([&](CoordinationService& service) { service.EndRemoval(removal->job_id, /*forget=*/false); });
  };
  if (removal->connection != 0) {
    const absl::StatusOr<FoldersRemoved> removed = RemoveFiles(*context, *removal);
    if (!removed.ok()) return ToGrpc(removed.status());
    response->set_removed_files(removed->files());
    response->set_removed_bytes(removed->bytes());
  }
  std::move(stays).Cancel();
  const absl::Status forgotten = hub_.DoDurably(
      [&](CoordinationService& service) {
        service.EndRemoval(removal->job_id, /*forget=*/true);
        return absl::OkStatus();
      },
      Deadline::After(kRemovalCommitTimeout));
  if (!forgotten.ok()) return ToGrpc(forgotten);
  *response->mutable_header() = MakeHeader();
  response->set_job_id(removal->job_id);
  return grpc::Status::OK;
}

}  // namespace adjoin
