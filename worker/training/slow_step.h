// What makes a measured step slow (Train.measure_layers_every): every rank records the step, and rank 0 replays it
// (worker/trace/slow_parts.h).
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<SlowStep> slow, SlowStep::Create(plan, &communicator, &recorder));
//   slow->BeforeStep();                                              // on every rank, where the step is measured
//   ... the step ...
//   ADJOIN_ASSIGN_OR_RETURN(std::optional<SlowParts> parts, slow->AfterStep());
//
// Where steps are traced at the same time, their recording is used. One thread.
#ifndef ADJOIN_WORKER_TRAINING_SLOW_STEP_H_
#define ADJOIN_WORKER_TRAINING_SLOW_STEP_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/span_recorder.h"
#include "proto/plan.pb.h"
#include "worker/trace/clock_alignment.h"
#include "worker/trace/rank_messages.h"
#include "worker/trace/slow_parts.h"

namespace adjoin {

class SlowStep {
 public:
  // More ranks than these are not compared: rank 0 would hold and replay too much.
  static constexpr int kMostRanks = 1024;

  // Both outlive it. Null where the job does not measure, or has too many ranks, or one. Errors: as LayoutFromProto.
  static absl::StatusOr<std::unique_ptr<SlowStep>> Create(const Plan& plan, Communicator* communicator,
                                                          SpanRecorder* recorder);

  void BeforeStep();
  // Collective. Absent on other ranks than 0, and where a rank had no room to record the step. Errors: as RankMessages.
  absl::StatusOr<std::optional<SlowParts>> AfterStep();

 private:
  SlowStep(Communicator* communicator, SpanRecorder* recorder);

  Communicator* const communicator_;
  SpanRecorder* const recorder_;
  RankMessages messages_;
  const RankClock clock_ = RankClock::OfProcess();
  std::vector<std::vector<double>> cells_;  // by layer and rank: of what it computes
  bool own_ = false;                        // this one has started the recording
  std::size_t first_ = 0;                   // of the step's spans
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_SLOW_STEP_H_
