// One layer on one rank: a local kernel between the movements that the plan gives it.
//
//   class ReluLayer : public LayerModule {
//    public:
//     using LayerModule::LayerModule;
//     at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
//       return Output(at::relu(Input(inputs, 0, tape)), tape);
//     }
//   };
//
// A layer knows what it computes on the tensors that Input and Parameter give it. It holds no communication code and no
// index arithmetic: which cells they fetch, and from whom, is the plan's (OperatorUse in proto/plan.proto).
//
// Every rank runs every layer, in the plan's order: a rank outside the layer's mesh holds tensors of shape (0, ..., 0)
// and passes them through the same movements, which other ranks may wait for.
#ifndef ADJOIN_LAYERS_LAYER_H_
#define ADJOIN_LAYERS_LAYER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/role_movements.h"
#include "layers/step_checks.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/reading.h"
#include "primitives/movement.h"
#include "primitives/random/philox.h"
#include "primitives/tape.h"
#include "proto/plan.pb.h"

namespace adjoin {

// What the local kernel's tensor holds of one dim of an input.
struct LocalReads {
  Reading reading;
  Interval outputs;     // global: those that this rank computes
  int64_t inputs = 0;   // global extent of the input
  at::Tensor boundary;  // int64, on the layer's device: which fetched cell each cell is (Reading::IndexMap); Input has
                        // applied it
};

// Which step of which job a pass belongs to: with the layer, what its random numbers are a function of.
struct StepPlace {
  uint64_t seed = 0;
  int64_t step = 0;          // the optimizer's, from 0
  int64_t first_sample = 0;  // index in the step's batch of the pass's first sample: micro-batches follow each other
};

// What a builder gets: the layer's part of the plan and this rank's objects for it.
struct LayerContext {
  LayerPlan plan;
  int rank = 0;
  bool training = false;
  // The device of all tensors that the layer reads and returns. What it makes once, it makes on the CPU and moves.
  at::Device device = at::kCPU;
  int index = 0;                           // the layer's index in ProgramPlan.layer
  std::shared_ptr<const StepPlace> place;  // the pass that runs
  // Local shape of what the kernel returns, before the role "y" moves it: (0, ..., 0) where this rank takes no part.
  std::vector<int64_t> compute_shape;
  // Global, of each input.
  std::vector<std::vector<int64_t>> input_shapes;
  // Per input: what this rank's outputs read of it, by dim; none where the layer reads no halo.
  std::vector<std::map<int, LocalReads>> reads;
  // Never null. Knows every role that the rule named.
  std::shared_ptr<RoleMovements> roles;
  // Never null.
  std::shared_ptr<StepChecks> checks = std::make_shared<StepChecks>();
  // This rank's block of each parameter's home, by role.
  std::map<std::string, at::Tensor> parameters;
  // Which part of the whole parameter Parameter returns, by role.
  std::map<std::string, Box> parameter_boxes;
};

class LayerModule {
 public:
  explicit LayerModule(LayerContext context) : context_(std::move(context)) {}
  virtual ~LayerModule() = default;
  LayerModule(const LayerModule&) = delete;
  LayerModule& operator=(const LayerModule&) = delete;

  // `inputs`: this rank's local tensors of the plan's inputs, in order. Returns that of the output. Collective.
  // Throws StatusException (what a movement fails with) and c10::Error (what a kernel fails with).
  virtual at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) = 0;

  // Starts to move the parameters that the next Forward reads, so that they travel while what is called between the two
  // computes. Collective; with gradients, or without, as that Forward. Throws StatusException (what a movement fails
  // with).
  void StartParameters(Tape& tape);
  // Whether that starts anything: what comes from another pipeline stage is not started. The same on all ranks.
  bool MovesParameters() const;

  // The largest tensor that has gone into or come out of Input and Output since the start, in elements.
  int64_t peak_elements() const { return peak_elements_; }

 protected:
  const LayerContext& context() const { return context_; }
  const Layer& spec() const { return context_.plan.spec(); }
  // Random numbers of the running pass, the same on all ranks. Those of an element of sample n belong to
  // (place().first_sample + n) * elements of a sample + its row-major index in the sample, so that any number of ranks
  // and any micro-batches draw the same.
  RandomStream Draws(uint64_t purpose) const;
  const StepPlace& place() const { return *context_.place; }
  // For conditions on values: a layer does not read a tensor of a device.
  StepChecks& checks() const { return *context_.checks; }
  // Whether this rank computes anything: else the kernel is skipped, and EmptyResult stands for its result.
  bool runs_here() const { return c10::multiply_integers(context_.compute_shape) > 0; }

  // Return what the local kernel reads of input `index` and of parameter `role`, and what others read of its result.
  // Each runs the movement of its role on all ranks; call them once per Forward, in this order. That of a parameter may
  // have been started before Forward: each Forward calls Parameter for each parameter that the rule moves, with
  // gradients on or off as Forward is, and moves it in no other way. Else the pass fails, kInternal.
  at::Tensor Input(const std::vector<at::Tensor>& inputs, int index, Tape& tape);
  at::Tensor Parameter(const std::string& role, Tape& tape) const;  // undefined where the layer has none
  at::Tensor Output(const at::Tensor& y, Tape& tape);
  // What the kernel moves between its steps, by a role that its rule names as a MovementNeed; `x` itself where the plan
  // moves nothing. Like all that take a role, it throws StatusException, kInternal, for one that the rule does not
  // name.
  at::Tensor Move(const std::string& role, const at::Tensor& x, Tape& tape);
  // True where the plan moves something in a role, which the rule need not name.
  bool Moves(const std::string& role) const { return context_.roles->Moves(role); }
  // Move in two halves, so that a kernel runs meanwhile (Movement::Start): for roles that move something.
  std::unique_ptr<Movement::Pending> StartMove(const std::string& role, const at::Tensor& x, Tape& tape) {
    return MovementOf(role)->Start(x, tape);
  }
  // For a kernel that runs a movement itself, as in its backward pass; null where the plan moves nothing.
  std::shared_ptr<Movement> MovementOf(const std::string& role) const { return context_.roles->Use(role); }

 private:
  LayerContext context_;
  int64_t peak_elements_ = 0;
};

// An empty tensor of `shape`, which has no elements, that hangs on `sources` in the graph: LibTorch refuses zero
// extents in many kernels, so these are skipped, and the sources get gradients of zeros. Undefined sources are left
// out.
at::Tensor EmptyResult(const std::vector<int64_t>& shape, const std::vector<at::Tensor>& sources);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LAYER_H_
