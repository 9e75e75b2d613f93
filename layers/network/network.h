// A partitioned network, built from a plan: every rank's local layers and the movements between them.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto parameters, Parameters::Create(plan, rank));
//   ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
//   Tape tape;
//   ADJOIN_ASSIGN_OR_RETURN(auto result, network->Forward({{"image", image}, {"label", label}}, tape));
//   tape.Backward(result.loss);                       // on every rank
//
// All schedules are made once, here. Networks of one plan (of other batch sizes, for evaluation) share its parameters.
// One thread.
#ifndef ADJOIN_LAYERS_NETWORK_NETWORK_H_
#define ADJOIN_LAYERS_NETWORK_NETWORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "layers/layer.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/tape.h"
#include "proto/plan.pb.h"

namespace adjoin {

class GradientSync;

class Network {
 public:
  struct Result {
    // This rank's share of the loss (a scalar in P): the sum over its elements / the global count. Undefined where the
    // program has no loss.
    at::Tensor loss;
    // Each loss's part of `loss`, in order.
    std::vector<at::Tensor> shares;
    // What each loss compares with its target, in order: local, each element on one rank.
    std::vector<at::Tensor> predictions;
    // What is written to files: local, in the layout of each ProgramPlan.output.
    std::vector<at::Tensor> outputs;
    // All values by name, where asked for with `keep_values`.
    std::map<std::string, at::Tensor> values;
  };

  // Errors: kInvalidArgument (no such program, a layer kind without a builder: lists the known ones), as
  // Movement::Create.
  static absl::StatusOr<std::unique_ptr<Network>> Create(const Plan& plan, const std::string& program,
                                                         Communicator* communicator, Parameters* parameters,
                                                         const LayerRegistry& registry);
  ~Network();

  // `fields`: this rank's local part of every data value of the program, by ValuePlan::name, on device(). A layer's
  // output, and a field that only `fields` holds, lives until its last reader has run, unless `keep_values` or the
  // backward pass needs it. Collective. Errors: a missing or mis-shaped field; what a movement fails with. Conditions
  // on values of a device (StepChecks) are errors of the next ReadNumbers.
  absl::StatusOr<Result> Forward(const std::map<std::string, at::Tensor>& fields, Tape& tape, bool keep_values = false);
  absl::StatusOr<Result> Forward(std::map<std::string, at::Tensor>&& fields, Tape& tape, bool keep_values = false);

  // Returns the elements of `numbers`, tensors on device(), for which it waits: once in a step. On a device this is
  // where what is wrong with the passes' values shows (StepChecks). Errors: these.
  absl::StatusOr<std::vector<double>> ReadNumbers(const std::vector<at::Tensor>& numbers);

  // The backward passes of the forward passes from now on start the sums of gradients, each as soon as its gradients
  // are complete; with null they do not. `sync`, made from the same plan, outlives the network. On every rank alike.
  void SumInBackward(GradientSync* sync);

  // Which step the passes from now on belong to (StepPlace). At first 0, 0.
  void SetPlace(int64_t step, int64_t first_sample);

  // Sums `numbers` (float64, at most report_op's extent) over all ranks. Collective.
  absl::StatusOr<std::vector<double>> SumOverRanks(const std::vector<double>& numbers);

  // Where a loss that is not finite comes from: the first tensor, in the program's order over all ranks, that holds a
  // NaN or an infinity. Absent where there is none. Runs the program once more over `fields`, without gradients.
  // Collective. Errors: as Forward.
  struct NotFinite {
    // `the output of layer "fc1"`, `parameter "fc1.weight" of layer "fc1"`, `field "image" of the data, an input of
    // layer "conv1"`, `loss 0, mse of "fc1"`
    std::string where;
    bool is_data = false;
  };
  absl::StatusOr<std::optional<NotFinite>> FirstNotFinite(const std::map<std::string, at::Tensor>& fields);

  const ProgramPlan& program() const;
  // The device of all its tensors: that of the communicator's memory.
  at::Device device() const;

  // The largest local tensor, in elements, that each layer has read or returned, by layer name; since the start.
  const std::map<std::string, int64_t>& peak_elements() const;

 private:
  Network();
  absl::StatusOr<Result> Run(std::vector<at::Tensor> values, Tape& tape, bool keep_values);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_NETWORK_H_
