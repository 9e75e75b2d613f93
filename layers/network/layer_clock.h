// How long each layer of a network takes on this rank, over the passes of one step, forward and backward.
//
//   LayerClock clock(communicator, program.layer_size());       // from now on this thread's passes are measured
//   ... network->Forward(fields, tape); tape.Backward(loss);
//   LayerClock::EndBackward(); ...
//   const std::vector<LayerSeconds> seconds = clock.Finish();   // by index in ProgramPlan.layer
//
// Each moment belongs to one layer, or to none: as losses, the data, sums of gradients and updates. Forward that is the
// layer whose LayerClock::Pass is alive. Backward it is the layer whose pass has made the node of LibTorch's graph that
// runs; what LibTorch does after a node, as adding gradients, counts as that node's. Seconds of movements are those of
// the communicator; all others are compute. What a pass computes is not touched: LibTorch only tells which node begins.
//
// On a device, times are those of its work: it is waited for wherever the layer changes, so a measured step takes
// longer than others. Before LibTorch 2 the backward pass of a device runs in a thread of LibTorch's own
// (RunBackwardInThisThread), and its times are none of the layers'.
//
// Where the communicator records (SpanRecorder), so does this: a span for each time that a layer runs.
//
// One at a time in each thread, which is the one of the passes.
#ifndef ADJOIN_LAYERS_NETWORK_LAYER_CLOCK_H_
#define ADJOIN_LAYERS_NETWORK_LAYER_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "planner/plan/layer_time_numbers.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/span_recorder.h"

namespace adjoin {

class LayerClock {
 public:
  // `communicator` outlives it. `layers`: of the network.
  LayerClock(const Communicator* communicator, int layers);
  ~LayerClock();
  LayerClock(const LayerClock&) = delete;
  LayerClock& operator=(const LayerClock&) = delete;

  // Stops the clock. Returns what each layer has taken.
  std::vector<LayerSeconds> Finish();

  // A forward pass through one layer, for as long as this lives; in a backward pass it counts as a part of that. Does
  // nothing in a thread without a clock.
  class Pass {
   public:
    explicit Pass(int layer);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    LayerClock* const clock_;
    const int layer_;
    std::pair<int, bool> before_;
    uint64_t first_node_ = 0;
  };

  // The backward pass of this thread is over: what follows belongs to no layer. Does nothing without a clock.
  static void EndBackward();

  // A node of the graph begins; its number, by which LibTorch orders them.
  void AtNode(int64_t number);

 private:
  static constexpr int kNone = -1;
  using Place = std::pair<int, bool>;  // layer, backward

  // Charges the time since the last call to where it was spent. Returns the place before.
  Place Switch(const Place& to);

  const Communicator* const communicator_;
  SpanRecorder* const recorder_;  // null: nothing is recorded
  SpanRecorder::Open span_;       // of now_
  std::vector<LayerSeconds> seconds_;
  uint64_t callback_ = 0;  // LibTorch's handle
  bool finished_ = false;
  Place now_ = {kNone, false};
  std::chrono::steady_clock::time_point since_;
  absl::Duration moving_, waiting_;                     // the communicator's, then
  std::map<uint64_t, std::pair<uint64_t, int>> nodes_;  // by first number: end, layer
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_LAYER_CLOCK_H_
