// What users may ask of the coordinator and what they get, whichever way they asked: over gRPC (user_service.h) or from
// a browser (coordinator/page). Whose jobs a caller may read and change is decided here and nowhere else.
//
//   UserCalls calls({.hub = hub, .store = *store, .logs = logs, .log_writer = log_writer, .relay = relay});
//   ADJOIN_ASSIGN_OR_RETURN(Admitted call, access.Admit(*context, "DescribeJob"));    // may the role call it at all?
//   ADJOIN_ASSIGN_OR_RETURN(DescribeJobResponse response, calls.DescribeJob(call.caller(), request));
//
// Every method is for a caller whom Access has let in to the call of that name. Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_USER_CALLS_H_
#define ADJOIN_COORDINATOR_SERVICES_USER_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/logs/log_store.h"
#include "coordinator/logs/log_writer.h"
#include "coordinator/services/artifact_relay.h"
#include "coordinator/services/caller_rights.h"
#include "coordinator/services/hub.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// A result of a job on its way from the daemon that has it. One thread; `relay` outlives it.
class ArtifactStream {
 public:
  ArtifactStream(ArtifactRelay& relay, std::string request_id, CoordinationService::ArtifactSource source,
                 ArtifactRelay::Seat seat);
  // Tells the daemon that nothing more is wanted.
  ~ArtifactStream();
  ArtifactStream(const ArtifactStream&) = delete;
  ArtifactStream& operator=(const ArtifactStream&) = delete;

  // Returns the next chunk, with the epoch of the attempt that wrote it in its header, or nothing at the end. `goes_on`
  // is asked five times a second. Errors: kCancelled (it returned false); kDeadlineExceeded (nothing came for 30 s, or
  // `most`); kDataLoss (not as many bytes came as were promised); the daemon's own, with its name.
  absl::StatusOr<std::optional<ArtifactChunk>> Next(const std::function<bool()>& goes_on,
                                                    absl::Duration most = absl::InfiniteDuration());
  int64_t total_bytes() const { return total_; }  // of the file from where it was asked for; -1: not known yet
  uint64_t epoch() const { return source_.epoch; }
  // Break ends a Next that waits.
  const std::shared_ptr<ArtifactPipe>& pipe() const { return pipe_; }

 private:
  ArtifactRelay& relay_;
  const std::string request_id_;
  const CoordinationService::ArtifactSource source_;
  const ArtifactRelay::Seat seat_;
  const std::shared_ptr<ArtifactPipe> pipe_;
  int64_t total_ = -1, sent_ = 0;
};

class UserCalls {
 public:
  // All parts outlive the object.
  struct Parts {
    Hub& hub;
    Store& store;
    LogStore& logs;
    LogWriter& log_writer;
    ArtifactRelay& relay;
  };
  explicit UserCalls(const Parts& parts) : parts_(parts), hub_(parts.hub) {}

  // Names are looked for among the caller's own jobs first. Errors of all that name a job: kNotFound; kPermissionDenied
  // (a job of another owner, where the caller may not).

  // `caller`: with whose other lists this one shares its turns. `gone`: it wants no answer any more. Errors:
  // kInvalidArgument (the page token, a state), kCancelled (it is gone).
  absl::StatusOr<ListJobsResponse> ListJobs(const std::string& caller, const ListJobsRequest& request,
                                            const std::function<bool()>& gone);
  // Without the spec where the caller may not read it. `gone` and kCancelled: as for ListJobs.
  absl::StatusOr<DescribeJobResponse> DescribeJob(const Caller& caller, const DescribeJobRequest& request,
                                                  const std::function<bool()>& gone);
  // Returns when the change is in the store. Errors also: kFailedPrecondition (the job's state), kUnavailable.
  absl::StatusOr<JobState> Cancel(const Caller& caller, const std::string& job);
  absl::StatusOr<JobState> Retry(const Caller& caller, const std::string& job);
  absl::Status SetHeld(const Caller& caller, const std::string& job, bool held);
  // Returns the job's id. Errors also: those of JobTraces::Ask.
  absl::StatusOr<std::string> Trace(const Caller& caller, const TraceJobRequest& request);

  // Returns the job that is meant.
  absl::StatusOr<JobSummary> Find(const Caller& caller, const std::string& job);

  // Returns the job's events after sequence `after`, at most 1000.
  absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, uint64_t after);

  // Returns the job whose log the caller may read. Errors also: kInvalidArgument (a rank that the job does not have).
  absl::StatusOr<JobSummary> FindLog(const Caller& caller, const ReadLogsRequest& request);
  // Returns those of the next lines of the job from `position` on that `request` asks for, and where to go on: there
  // are no more yet where that is `position`. With `flush`, lines that wait for the disk are there too; that can take
  // 5 s. Errors: kUnavailable.
  absl::StatusOr<ReadLogsResponse> LogLines(const std::string& job_id, const ReadLogsRequest& request, int64_t position,
                                            bool flush);
  // Returns those of the lines before position `end` that `request` asks for, and sets `*begin` to where to go on with
  // earlier ones: there are none where that is the position of the end that was asked for. `next` of the response is
  // where the lines end. INT64_MAX: the last lines. Errors: kUnavailable.
  absl::StatusOr<ReadLogsResponse> LogLinesBefore(const std::string& job_id, const ReadLogsRequest& request,
                                                  int64_t end, int64_t* begin);

  // Asks the daemon that has the result for it. Where as many of its files are on their way to this caller as may be
  // (ArtifactRelay::kSeats), it waits for one of them for `wait`. `gone`: as for ListJobs. Errors also: as
  // CoordinationService::FindArtifact and ArtifactRelay::TakeSeat.
  absl::StatusOr<std::unique_ptr<ArtifactStream>> OpenArtifact(const Caller& caller, const GetArtifactRequest& request,
                                                               const std::function<bool()>& gone,
                                                               absl::Duration wait = absl::Seconds(30));

  // Returns the plan of the job, serialized, for one who may read its spec. Errors also: kFailedPrecondition (it has
  // none yet), kDataLoss.
  absl::StatusOr<std::string> ReadPlan(const Caller& caller, const DescribeJobResponse& job);

 private:
  const Parts parts_;
  Hub& hub_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_USER_CALLS_H_
