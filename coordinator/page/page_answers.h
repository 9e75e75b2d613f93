// The data of the page, as JSON: messages of proto/coordinator.proto as the command prints them (proto/message_json.h),
// in pages, and what is made of a job's files.
//
//   PageAnswers answers({.hub = hub, .calls = calls, .planner = planner});
//   ADJOIN_ASSIGN_OR_RETURN(const std::string json, answers.Job(caller, "job-17", request.query));
//
// Every method is for a caller whom Access has let in to the call that it names. Errors: those of UserCalls;
// kInvalidArgument (a parameter). Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_PAGE_ANSWERS_H_
#define ADJOIN_COORDINATOR_PAGE_PAGE_ANSWERS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/page/list_cache.h"
#include "coordinator/page/plan_pictures.h"
#include "coordinator/planning/spec_planner.h"
#include "coordinator/services/caller_rights.h"
#include "coordinator/services/hub.h"
#include "coordinator/services/user_calls.h"

namespace adjoin {

class PageAnswers {
 public:
  using Fields = std::map<std::string, std::string>;  // of a request's query
  static constexpr size_t kMostRows = 200;            // jobs or workers in one answer
  static constexpr size_t kMetricsBytes = 1 << 20;    // of metrics.jsonl in one answer
  static constexpr size_t kTraceBytes = 64 << 20;     // of a trace that are read for one answer
  static constexpr size_t kMostDifferences = 500;
  static constexpr int kMostRanks = 500;  // in one answer

  // All parts outlive the object.
  struct Parts {
    Hub& hub;
    UserCalls& calls;
    SpecPlanner& planner;
  };
  explicit PageAnswers(const Parts& parts)
      : parts_(parts),
        lists_([this](const ListJobsRequest& request) { return List(request); }),
        pictures_(parts.planner) {}
  // Answers that wait for a worker or a planner end soon, with kCancelled.
  void Stop() { stopping_ = true; }

  // {"caller": "user alice", "name": "alice", "role": "user", "local": false, "token": true, "version": "0.1.0"};
  // `token`: the caller has signed in with one.
  std::string Me(const Caller& caller, bool token) const;
  // ListJobs: {"job": [...], "next_page_token": "", "total_jobs": "3", "notice": ""}
  absl::StatusOr<std::string> Jobs(const Fields& query);
  // ListJobs: {"worker": [...], "total": 3}, from worker number `from` on.
  absl::StatusOr<std::string> Workers(const Fields& query);
  // DescribeJob: {"may_read": true, "may_change": true, "ranks_from": 0, "ranks_total": 2, "most": {"step_seconds":
  // 0.5, "compute_seconds", "sync_seconds", "peak_tensor_bytes", "peak_resident_bytes", "bytes_sent"}, "described":
  // {...}}, with kMostRanks of its ranks, from the one at place `ranks_from` on; `most` is of all ranks. The spec is
  // there with `spec=1`.
  absl::StatusOr<std::string> Job(const Caller& caller, const std::string& job, const Fields& query) const;
  // ReadEvents: {"event": [...]}, at most 1000.
  absl::StatusOr<std::string> Events(const Caller& caller, const std::string& job, const Fields& query) const;
  // ReadLogs: {"line": [...], "next": "1234", "job_id": "job-17"}; there are no more yet where `next` is `from`. With
  // `before` the lines that end there, and "begin": "1000", which is `before` where there are none; "end" means the
  // end.
  absl::StatusOr<std::string> Logs(const Caller& caller, const std::string& job, const Fields& query) const;
  // GetArtifact: {"epoch": 7, "from": 0, "next": 8192, "total": 8192, "text": "{...}\n..."}, whole lines of the newest
  // attempt's file from byte `from` on, at most `most` bytes; from its begin where `epoch` is not that attempt's.
  // Errors also: kDeadlineExceeded (the worker has not sent it within 10 s).
  absl::StatusOr<std::string> Metrics(const Caller& caller, const std::string& job, const Fields& query) const;
  // DescribeJob: {"difference": [{"path", "a", "b", "a_written", "b_written"}], "left_out": 0}. Errors also:
  // kPermissionDenied (a job whose spec the caller may not read).
  absl::StatusOr<std::string> Difference(const Caller& caller, const std::string& a, const std::string& b) const;
  // DescribeJob: a page of HTML without scripts. Errors also: as UserCalls::ReadPlan, PlanPictures::Of.
  absl::StatusOr<std::string> PlanPicture(const Caller& caller, const std::string& job);
  // GetArtifact: what TraceTimeline::Json has of `step` of the trace `file`, of TraceTimeline::kMostRanks ranks at most
  // from `first_rank` on, and "bytes_left_out": of the file, beyond kTraceBytes. Errors also: kInvalidArgument (no name
  // of a trace), kDataLoss, kDeadlineExceeded (as Metrics).
  absl::StatusOr<std::string> Timeline(const Caller& caller, const std::string& job, const Fields& query) const;
  // TraceJob of the next `steps`: {"done": "trace", "request_id": "7f3a..."}
  absl::StatusOr<std::string> Trace(const Caller& caller, const std::string& job, const Fields& query) const;
  // CancelJob, HoldJob, ReleaseJob, RetryJob; `action`: "cancel". {"done": "cancel"}
  absl::StatusOr<std::string> Change(const Caller& caller, const std::string& job, const std::string& action);

 private:
  absl::StatusOr<ListJobsResponse> List(const ListJobsRequest& request) const;
  absl::StatusOr<DescribeJobResponse> Described(const Caller& caller, const std::string& job) const;
  // Gives the stream's bytes to `take` until there are no more, or it returns false. Errors: its own;
  // kDeadlineExceeded, kUnavailable.
  absl::Status ReadStream(ArtifactStream& stream,
                          const std::function<absl::StatusOr<bool>(absl::string_view bytes)>& take) const;

  // For calls that ask whether anybody still waits for them.
  std::function<bool()> Stops() const {
    return [this] { return stopping_.load(); };
  }

  const Parts parts_;
  std::atomic<bool> stopping_{false};
  ListCache lists_;
  PlanPictures pictures_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_PAGE_ANSWERS_H_
