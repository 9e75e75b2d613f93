// A trace of some steps of all ranks, written by rank 0 as one file for Perfetto.
//
//   StepTrace trace({.communicator = &communicator, .recorder = &recorder, .layers = names, .timeout = minutes});
//   ADJOIN_RETURN_IF_ERROR(trace.Begin());                                   // on every rank, between two steps
//   ... steps ...
//   ADJOIN_ASSIGN_OR_RETURN(StepTrace::Written written, trace.Write("results/trace-41-45.pftrace", "job-17"));
//
// A rank records at most kMostSpans of 48 bytes, all ranks together kMostAllSpans: that bounds memory and file. What
// has no room is counted. Rank 0 holds no more of another rank than one message. A file that cannot be written is no
// error of the job: all ranks go on. One thread.
#ifndef ADJOIN_WORKER_TRACE_STEP_TRACE_H_
#define ADJOIN_WORKER_TRACE_STEP_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/span_recorder.h"
#include "worker/trace/clock_alignment.h"
#include "worker/trace/rank_messages.h"

namespace adjoin {

class StepTrace {
 public:
  static constexpr std::size_t kMostSpans = std::size_t{1} << 17;     // of one rank
  static constexpr std::size_t kMostAllSpans = std::size_t{1} << 22;  // of all ranks
  static std::size_t SpansOf(int ranks) {
    const std::size_t share = kMostAllSpans / static_cast<std::size_t>(ranks);
    return share < kMostSpans ? share : kMostSpans;
  }

  struct Options {
    Communicator* communicator = nullptr;  // outlives it, as does the recorder
    SpanRecorder* recorder = nullptr;
    std::vector<std::string> layers;  // names by index
    absl::Duration timeout;           // of each wait for another rank
    RankClock clock = RankClock::OfProcess();
    std::size_t most_spans = 0;  // of this rank; 0: SpansOf
  };
  explicit StepTrace(Options options)
      : options_(std::move(options)), messages_(options_.communicator->transport(), options_.timeout) {}
  // Ends the recording.
  ~StepTrace() { Stop(); }
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // Collective, as are all others. Errors: as RankMessages.
  absl::Status Begin();

  struct Written {
    absl::Status status;         // of the file
    int64_t bytes = 0;           // of it
    uint64_t dropped = 0;        // spans of all ranks
    int64_t clock_error_ns = 0;  // by which times of two ranks may differ at most
  };
  // Ends the recording and writes the file: on rank 0 only, where `path` is looked at, and what is returned counts. A
  // file of that name is replaced in one step, once the new one is whole.
  absl::StatusOr<Written> Write(const absl::StatusOr<std::string>& path, const std::string& about);

 private:
  void Stop() {
    if (options_.communicator->recorder() == options_.recorder) options_.communicator->set_recorder(nullptr);
  }
  absl::StatusOr<Written> Gather(const absl::StatusOr<std::string>& path, const std::string& about,
                                 const ClockReading& after);
  absl::Status SendTo0(const ClockReading& after);

  const Options options_;
  RankMessages messages_;
  ClockReading before_;
  SpanRecorder::Recorded recorded_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_STEP_TRACE_H_
