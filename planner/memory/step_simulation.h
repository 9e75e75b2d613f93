// One step of a program on one rank, tensor by tensor.
//
//   StepSimulation step(plan, program, rank, &geometry, &ledger);
//   ADJOIN_RETURN_IF_ERROR(step.Prepare());
//   step.Run();                       // forward, and backward where the program trains
#ifndef ADJOIN_PLANNER_MEMORY_STEP_SIMULATION_H_
#define ADJOIN_PLANNER_MEMORY_STEP_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "layers/rules/program_order.h"
#include "layers/rules/recomputed_runs.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/local_sizes.h"
#include "planner/memory/memory_ledger.h"
#include "planner/plan/pipeline_stages.h"
#include "proto/plan.pb.h"

namespace adjoin {

class StepSimulation {
 public:
  StepSimulation(const Plan& plan, const ProgramPlan& program, int rank, PlanGeometry* geometry, MemoryLedger* ledger)
      : plan_(plan), program_(program), rank_(rank), geometry_(*geometry), ledger_(*ledger) {}

  // Errors: as LayoutFromProto.
  absl::Status Prepare();
  void Run();

 private:
  using Tensor = MemoryLedger::Tensor;
  static constexpr Tensor kNone = -1;

  // A layer's input as the rank has it.
  struct Read {
    int64_t bytes = 0;   // as the kernel reads it
    bool moved = false;  // by a movement, or copied for a boundary: not the value itself
    bool needs_grad = false;
  };
  struct Parameter {
    int64_t bytes = 0;    // where the kernel reads it
    int64_t home = 0;     // of this rank's block
    bool copied = false;  // by a movement, or to another type
    bool moves = false;   // on any rank
    bool starts = false;  // and does so while the layer before computes
    int64_t moved = 0;    // what that brings this rank, in the parameter's own type
    bool trained = false;
    uint32_t index = 0;    // in Plan.parameter
    Tensor ahead = kNone;  // that has been started
    // Whether the kernel reads it in another type than it moves in.
    bool cast() const { return moves && moved != bytes; }
  };
  struct Step {  // a layer or a loss
    std::string name;
    int layer = -1;  // in ProgramPlan.layer; of losses -1
    std::vector<uint32_t> input;
    std::vector<Read> read;
    std::vector<Parameter> parameter;
    int64_t computed = 0;  // bytes of what the kernel returns
    int64_t output = 0;    // bytes after the movement of the output
    bool output_moved = false;
    bool starts_parameters = false;  // on any rank, while the layer before computes
    bool needs_grad = false;
    LayerMemory memory;
    std::vector<Tensor> kept;  // by the graph, in the step that runs
  };

  absl::Status PrepareLayer(int index);
  absl::Status PrepareLoss(int index);
  absl::Status PrepareSums();
  absl::Status PrepareStages();

  Tensor NewTensor(int64_t bytes, MemoryPart part, int layer) { return ledger_.New(bytes, {part, layer}); }
  // Returns the output; `graph`: with what the backward pass needs.
  Tensor Forward(Step& step, const std::vector<Tensor>& values, bool graph);
  // Starts to move the parameters of a layer, as Network does while the layer before is still to run.
  void StartParameters(int layer);
  // `ahead`: its parameters were started while the layer before was still to run, so their gradients travel while that
  // one's backward pass runs (gradients_ahead_).
  void Backward(Step& step, std::vector<Tensor>& gradients, bool ahead);
  // Backward of a layer, after which the gradients of the layer after it are there.
  void BackwardOfLayer(int layer, std::vector<Tensor>& gradients, bool ahead);
  struct GradientAhead {
    Tensor sent = kNone, home = kNone;
    uint32_t parameter = 0;  // in Plan.parameter
  };
  void Finish(const std::vector<GradientAhead>& travelled);
  // A parameter's gradient is there: it is the first one, or added to what another part of the batch, or another layer
  // with the same weights, has left.
  void TakeGradient(Tensor gradient, uint32_t parameter);
  void AddGradient(Tensor& sum, Tensor more, int64_t bytes, int layer);
  void ForwardRun(int first, int end, std::vector<Tensor>& values, bool graph);
  void ForgetAfter(int layer, std::vector<Tensor>& values);
  void RunForward();
  // Leaves what the graph of the pass that has run keeps where it is, until the end.
  void KeepForLater();
  void RunBackward();
  void RunAgain(const RecomputedRun& run, std::vector<Tensor>& gradients);
  // The sums of gradients that start when the backward pass is through these layers, as GradientSync starts them.
  void StartSums(int first, int end);

  const Plan& plan_;
  const ProgramPlan& program_;
  const int rank_;
  PlanGeometry& geometry_;
  MemoryLedger& ledger_;
  std::optional<PipelineStages> stages_;  // of a training program with several micro-batches in flight
  std::vector<Step> layers_, losses_;
  std::vector<int64_t> value_bytes_;
  std::vector<std::vector<uint32_t>> read_last_;
  std::vector<bool> has_gradient_;  // by Plan.parameter
  std::vector<RecomputedRun> recomputed_;
  std::vector<LayerStretch> stretches_;
  std::vector<std::vector<Tensor>> kept_inputs_;  // of the recomputed runs
  std::vector<GradientAhead> gradients_ahead_;    // that travel
  struct Sum {
    int64_t result = 0;
    int64_t bucket = 0;  // 0: its one gradient moves as it is
  };
  std::vector<Sum> sums_;
  std::vector<std::vector<int>> complete_sums_;            // by layer
  std::deque<std::pair<Tensor, int64_t>> sums_in_flight_;  // result and bucket; bytes of the result
  int64_t bytes_in_flight_ = 0;
  int64_t microbatches_ = 1;  // that this rank has in the network
  int64_t sent_ahead_ = 0;    // bytes that may be on their way to other stages while this rank goes on
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_STEP_SIMULATION_H_
