#include "coordinator/decisions/job_traces.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

absl::Status CheckOrder(const TraceOrder& order) {
  if (order.steps < 1 || order.steps > JobTraces::kMostSteps) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a trace of ", order.steps, " steps is not possible; right would be 1 to ", JobTraces::kMostSteps));
  }
  const auto is_plain = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-'; };
  if (order.request_id.empty() || order.request_id.size() > JobTraces::kMostIdBytes ||
      !std::all_of(order.request_id.begin(), order.request_id.end(), is_plain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request's id is not 1 to ", JobTraces::kMostIdBytes, " letters, digits or '-'"));
  }
  return absl::OkStatus();
}

absl::Status CheckTrains(const JobRecord& job) {
  if (job.spec.kind() != TRAIN) {
    return absl::FailedPreconditionError(absl::StrCat(job.id, " does not train: only steps of training are traced"));
  }
  if (job.state != RUNNING) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id, " is ", absl::AsciiStrToLower(JobState_Name(job.state)),
                     ": only a job that runs can be traced; train { trace { steps: 5 } } in a job traces its first "
                     "steps"));
  }
  const std::string& phase = job.attempt.ranks.at(0).progress.phase();
  if (phase.empty() || phase == "training" || phase == "validating" || phase == "resuming") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(job.id, " trains no more, it is ", phase, ": only steps of training are traced"));
}

// Whether the rank has told the outcome of the request.
bool IsOver(const TraceProgress& told) { return !told.file().empty() || !told.error().empty(); }

}  // namespace

absl::Status JobTraces::Ask(JobRecord& job, const TraceOrder& order) {
  ADJOIN_RETURN_IF_ERROR(CheckOrder(order));
  ADJOIN_RETURN_IF_ERROR(CheckTrains(job));
  const RankRecord& rank = job.attempt.ranks.at(0);
  const TraceProgress& told = rank.progress.trace();
  if (std::optional<TraceAsked>& asked = job.attempt.trace; asked.has_value()) {
    if (asked->request_id == order.request_id) return absl::OkStatus();
    const bool heard = told.request_id() == asked->request_id;
    const bool under_way = heard ? !IsOver(told) : options_.Now() - asked->at < kAnswerTime;
    if (under_way) {
      return absl::FailedPreconditionError(
          absl::StrCat(job.id, " is being traced already",
                       heard ? absl::StrCat(": steps ", told.first_step(), " to ", told.last_step()) : "",
                       "; ask again when that is done"));
    }
  }
  const WorkerRecord* worker = workers_.Find(rank.worker);
  if (worker == nullptr || worker->connection == 0) {
    return absl::UnavailableError(absl::StrCat("worker ", rank.worker, ", which has rank 0 of ", job.id,
                                               ", is not connected; ask again when it is"));
  }
  job.attempt.trace = TraceAsked{order.request_id, options_.Now()};
  CoordinatorMessage message;
  message.mutable_trace_rank()->set_job_id(job.id);
  message.mutable_trace_rank()->set_request_id(order.request_id);
  message.mutable_trace_rank()->set_steps(order.steps);
  workers_.Send(rank.worker, job.attempt.epoch, message);
  outbox_.Event(job, "trace",
                absl::StrCat("of ", order.steps, order.steps == 1 ? " step" : " steps", ", asked for by a user"));
  return absl::OkStatus();
}

}  // namespace adjoin
