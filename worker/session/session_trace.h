// The traces of a session that trains: the one of its job (Train.trace), and those that are asked for while it runs.
//
//   SessionTrace traces(environment, &output, &progress);
//   while (...) {
//     ADJOIN_RETURN_IF_ERROR(traces.BeforeStep(*trainer));                       // on every rank
//     ... trainer->RunStep(stop_asked, words, traces.Asked()) ...
//     ADJOIN_RETURN_IF_ERROR(traces.AfterStep(*trainer, report, /*last=*/false));
//   }
//   traces.Finish(*trainer);
//
// Rank 0 hears what is asked for and tells the others with the sums of a step, so all begin with the same step. One
// trace at a time: others wait for its end. A trace that cannot be written is told, and harms nothing. One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_TRACE_H_
#define ADJOIN_WORKER_SESSION_SESSION_TRACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"
#include "worker/session/trace_requests.h"
#include "worker/trace/step_trace.h"
#include "worker/training/trainer.h"

namespace adjoin {

class SessionTrace {
 public:
  // Files of one attempt.
  static constexpr int kMostTraces = 100;

  // All outlive it, and so does the trainer of the other calls.
  SessionTrace(const SessionEnvironment& environment, SessionOutput* output, SessionProgress* progress)
      : environment_(environment), output_(output), progress_(progress) {}
  SessionTrace(const SessionTrace&) = delete;
  SessionTrace& operator=(const SessionTrace&) = delete;

  // Begins a trace where one is due. Collective, as is AfterStep. Errors: as StepTrace.
  absl::Status BeforeStep(Trainer& trainer);
  // How many steps are asked for, for Trainer::RunStep.
  int64_t Asked();
  // Writes the trace where its last step is done. `last`: no other step follows.
  absl::Status AfterStep(const Trainer& trainer, const StepReport& report, bool last);
  // True once after something has come of a trace, for SessionProgress to report at once.
  bool TakeNews() { return std::exchange(news_, false); }
  // Training is over: answers what was asked for too late.
  void Finish(const Trainer& trainer);

 private:
  absl::Status Begin(Trainer& trainer, int64_t last_step, bool own);
  absl::Status Write(int64_t last_step);
  void Tell(const StepTrace::Written& written, const std::string& name, int64_t last_step);
  void Refuse(const std::string& why);

  const SessionEnvironment& environment_;
  SessionOutput* const output_;
  SessionProgress* const progress_;
  std::unique_ptr<StepTrace> active_;  // null: none is made
  int64_t first_step_ = 0, last_step_ = 0;
  bool own_done_ = false;  // Train.trace has begun, or is past
  int64_t asked_ = 0;      // steps that all ranks have agreed on, from the next one on
  bool news_ = false;
  int written_ = 0;                                // files of this attempt
  std::optional<TraceRequests::Request> request_;  // on rank 0: that is being answered
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_TRACE_H_
