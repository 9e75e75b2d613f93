#include "worker/session/session_trace.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/trace_file.h"
#include "planner/plan/step_sums.h"
#include "proto/coordinator.pb.h"
#include "worker/training/session_activity.h"

namespace adjoin {

absl::Status SessionTrace::BeforeStep(Trainer& trainer) {
  if (active_ != nullptr) return absl::OkStatus();
  const int64_t step = trainer.steps_done() + 1;
  if (asked_ > 0) return Begin(trainer, step + std::exchange(asked_, 0) - 1, /*own=*/false);
  if (own_done_ || !environment_.spec().train().has_trace()) return absl::OkStatus();
  const TraceSteps& own = environment_.spec().train().trace();
  const uint64_t first = std::max<uint64_t>(1, own.first_step());
  if (static_cast<uint64_t>(step) < first) return absl::OkStatus();
  own_done_ = true;
  // An attempt that goes on from a later step has what is left of them.
  const uint64_t left = first + own.steps() - static_cast<uint64_t>(step);
  if (static_cast<uint64_t>(step) - first >= own.steps()) return absl::OkStatus();
  return Begin(trainer, step + static_cast<int64_t>(left) - 1, /*own=*/true);
}

absl::Status SessionTrace::Begin(Trainer& trainer, int64_t last_step, bool own) {
  first_step_ = trainer.steps_done() + 1;
  last_step_ = std::min(last_step, trainer.total_steps());
  active_ = std::make_unique<StepTrace>(StepTrace::Options{.communicator = environment_.communicator,
                                                           .recorder = &trainer.recorder(),
                                                           .layers = trainer.layer_names(),
                                                           .timeout = environment_.options.timeout});
  if (environment_.writes()) {
    TraceProgress& shown = *progress_->shown().mutable_trace();
    shown.Clear();
    if (!own && request_.has_value()) shown.set_request_id(request_->id);
    shown.set_first_step(static_cast<uint64_t>(first_step_));
    shown.set_last_step(static_cast<uint64_t>(last_step_));
    news_ = true;
  }
  const SessionActivity::Waits waits(environment_.activity, "the beginning of a trace");
  return active_->Begin();
}

int64_t SessionTrace::Asked() {
  if (!environment_.writes() || active_ != nullptr || environment_.options.traces == nullptr) return 0;
  if (!request_.has_value()) request_ = environment_.options.traces->Take();
  if (!request_.has_value()) return 0;
  if (written_ >= kMostTraces) {
    Refuse(absl::StrCat("this attempt has made ", kMostTraces, " traces, and makes no more"));
    return 0;
  }
  return std::min<int64_t>(request_->steps, static_cast<int64_t>(StepSums::kMostTraced));
}

absl::Status SessionTrace::AfterStep(const Trainer& trainer, const StepReport& report, bool last) {
  if (report.traces_asked > 0) asked_ = report.traces_asked;
  if (active_ == nullptr || (trainer.steps_done() < last_step_ && !last)) return absl::OkStatus();
  return Write(trainer.steps_done());
}

absl::Status SessionTrace::Write(int64_t last_step) {
  const std::unique_ptr<StepTrace> trace = std::move(active_);
  const std::string name = TraceFileName(first_step_, last_step);
  const std::string about =
      absl::StrCat("Adjoin: job ", environment_.options.job_id, " (", environment_.spec().name(), "), steps ",
                   first_step_, " to ", last_step, " on ", environment_.spec().ranks(), " ranks");
  if (!environment_.writes()) {
    const SessionActivity::Waits waits(environment_.activity, "the end of a trace");
    return trace->Write(absl::CancelledError(), about).status();
  }
  const SessionActivity::Files files(environment_.activity);
  ADJOIN_ASSIGN_OR_RETURN(const StepTrace::Written written, trace->Write(output_->PathOfNewFile(name), about));
  Tell(written, name, last_step);
  return absl::OkStatus();
}

void SessionTrace::Tell(const StepTrace::Written& written, const std::string& name, int64_t last_step) {
  news_ = true;
  TraceProgress& shown = *progress_->shown().mutable_trace();
  shown.set_last_step(static_cast<uint64_t>(last_step));
  if (shown.request_id() == (request_.has_value() ? request_->id : "")) request_.reset();
  if (!written.status.ok()) {
    shown.set_error(std::string(output_->AsShown(written.status).message()));
    environment_.Log(
        absl::StrCat("the trace of steps ", first_step_, " to ", last_step, " is not written: ", shown.error()));
    return;
  }
  ++written_;
  output_->AddExtra(name);
  shown.set_file(name);
  shown.set_bytes(static_cast<uint64_t>(written.bytes));
  shown.set_dropped_events(written.dropped);
  shown.set_clock_error_seconds(static_cast<double>(written.clock_error_ns) * 1e-9);
  environment_.Log(absl::StrFormat(
      "the trace of steps %d to %d is in %s: %d bytes; the ranks' clocks agree within %.1f microseconds%s", first_step_,
      last_step, name, written.bytes, static_cast<double>(written.clock_error_ns) * 1e-3,
      written.dropped == 0 ? "" : absl::StrCat("; there was no room for ", written.dropped, " more events")));
}

void SessionTrace::Refuse(const std::string& why) {
  news_ = true;
  TraceProgress& shown = *progress_->shown().mutable_trace();
  shown.Clear();
  shown.set_request_id(request_->id);
  shown.set_error(why);
  environment_.Log(absl::StrCat("no trace is made: ", why));
  request_.reset();
}

void SessionTrace::Finish(const Trainer& trainer) {
  if (!environment_.writes()) return;
  if (environment_.spec().train().has_trace() && !own_done_) {
    environment_.Log(absl::StrCat("train.trace: training has ended after step ", trainer.steps_done(),
                                  ", before the first step that was to be traced, ",
                                  environment_.spec().train().trace().first_step()));
  }
  if (environment_.options.traces == nullptr) return;
  if (!request_.has_value()) request_ = environment_.options.traces->Take();
  if (request_.has_value()) {
    Refuse(absl::StrCat("training has ended after step ", trainer.steps_done(), ", before a trace could begin"));
  }
}

}  // namespace adjoin
