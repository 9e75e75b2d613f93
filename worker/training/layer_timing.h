// Measures how long each layer takes, in every so many steps (Train.measure_layers_every), and brings what the ranks
// have measured together.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<LayerTiming> timing, LayerTiming::Create(plan, &communicator));
//   LayerClock clock(&communicator, timing->layers());       // where timing->IsDue(step)
//   ...
//   // On every rank:
//   ADJOIN_ASSIGN_OR_RETURN(MeasuredLayers times, timing->Collect(clock.Finish(), step_seconds));
//
// One thread.
#ifndef ADJOIN_WORKER_TRAINING_LAYER_TIMING_H_
#define ADJOIN_WORKER_TRAINING_LAYER_TIMING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/network/layer_clock.h"
#include "planner/plan/layer_time_numbers.h"
#include "primitives/comm/communicator.h"
#include "primitives/movement.h"
#include "proto/plan.pb.h"

namespace adjoin {

// What was measured of one step, over all ranks.
struct MeasuredLayers {
  struct Layer {
    std::string name;
    LayerSeconds mean;
    LayerSeconds most;    // of all ranks, each number for itself
    double most_sum = 0;  // of the rank that took longest
  };
  std::vector<Layer> layer;  // in the program's order; on rank 0 only
  double mean_step = 0;      // seconds
  double longest_step = 0;
};

class LayerTiming {
 public:
  // `communicator` outlives it. Null where the job does not measure. Errors: as Movement::Create.
  static absl::StatusOr<std::unique_ptr<LayerTiming>> Create(const Plan& plan, Communicator* communicator);

  // `step`: from 1.
  bool IsDue(int64_t step) const { return static_cast<uint64_t>(step) % every_ == 0; }
  int layers() const { return static_cast<int>(names_.size()); }
  // `mine`: by layer; `step`: this rank's seconds of the whole step. Collective. Errors: what a movement fails with.
  absl::StatusOr<MeasuredLayers> Collect(const std::vector<LayerSeconds>& mine, double step);

 private:
  LayerTiming() = default;

  Communicator* communicator_ = nullptr;
  uint64_t every_ = 1;
  std::vector<std::string> names_;
  std::shared_ptr<Movement> sum_, most_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_LAYER_TIMING_H_
