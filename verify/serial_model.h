// The user's model as plain torch::nn functions on whole tensors, trained step by step on random samples: what the
// partitioned model has to equal.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto model, SerialModel::Create(spec, options));
//   ADJOIN_ASSIGN_OR_RETURN(SerialStep step, model->RunStep());
//   step.values.at("conv1");                 // [batch, ...], float64
//
// It knows the job's text only: shapes follow from what LibTorch returns. One thread.
#ifndef ADJOIN_VERIFY_SERIAL_MODEL_H_
#define ADJOIN_VERIFY_SERIAL_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/registry.h"
#include "layers/rules/layer_rule.h"
#include "layers/serial_functions.h"
#include "primitives/tape.h"
#include "proto/job.pb.h"

namespace torch::optim {
class Optimizer;
}

namespace adjoin {

using NamedTensors = std::map<std::string, at::Tensor>;

// Whole tensors, without graph.
struct SerialStep {
  NamedTensors fields;
  NamedTensors values;           // by layer
  NamedTensors cotangents;       // by layer: the gradient of its output; absent where it needs none
  NamedTensors parameter_grads;  // of trained parameters
  NamedTensors parameters;       // after the step, buffers too
  double loss = 0;
};

struct SerialModelOptions {
  int64_t batch = 2;
  uint64_t seed = 1;  // of parameters and samples
  const SerialFunctions* functions = nullptr;
  // For a Custom.type without a serial function: the layer itself on one rank.
  const LayerRules* rules = nullptr;
  const LayerRegistry* layers = nullptr;
  // Only Evaluate is called; layers need functions, and the job no optimizer.
  bool evaluation = false;
};

class SerialModel {
 public:
  // `spec` has passed the planner; all that `options` names outlives the model.
  // Errors: kInvalidArgument (a field without shape that a layer reads, an optimizer or a kind of layer without serial
  // function).
  static absl::StatusOr<std::unique_ptr<SerialModel>> Create(const JobSpec& spec, const SerialModelOptions& options);
  ~SerialModel();

  // Draws samples, goes forward and backward, and lets the optimizer step.
  // Errors: kInternal for what LibTorch refuses (names the layer); kOutOfRange for a loss that is not finite.
  absl::StatusOr<SerialStep> RunStep();

  // What the layers return of `fields` in evaluation mode, by layer, without graph. Both are whole, of float64 and
  // int64; names are those of data fields and of the state_dict. Options::evaluation is set.
  // Errors: kInternal for what LibTorch refuses (names the layer).
  absl::StatusOr<NamedTensors> Evaluate(const NamedTensors& fields, const NamedTensors& parameters);

  // The job's loss on such fields, which have the targets, too, and the gradients of the parameters that are named
  // `trained`: `loss` and `parameter_grads` of a step. Once for a model. Errors: likewise; kOutOfRange for a loss that
  // is not finite.
  absl::StatusOr<SerialStep> EvaluateLoss(const NamedTensors& fields, const NamedTensors& parameters,
                                          const std::set<std::string>& trained);

  // From before the first step; complete after it.
  NamedTensors InitialParameters() const;
  // Layers that were compared with themselves on one rank, for want of a serial function.
  const std::set<std::string>& own_layers() const { return own_layers_; }

 private:
  SerialModel(const JobSpec& spec, const SerialModelOptions& options);
  at::Tensor InputOf(const std::string& name, SerialStep& step);
  void RunLayer(int index, SerialStep& step, Tape& tape);
  // `running` tells which layer runs, where an exception leaves.
  void RunLayers(SerialStep& step, Tape& tape, std::string& running);
  // Runs the layers and adds up the losses. Error: kOutOfRange, with `hint` after what is wrong: the loss is not
  // finite.
  absl::StatusOr<at::Tensor> RunToLoss(SerialStep& step, Tape& tape, std::string& running, absl::string_view hint);
  at::Tensor AddLosses(SerialStep& step);
  void MakeOptimizer();
  void TakeResults(SerialStep& step) const;

  const JobSpec spec_;
  const SerialModelOptions options_;
  const Dataset& dataset_;
  at::Generator generator_;
  SerialParameters parameters_;
  std::map<int, std::string> features_of_;  // as ExpandedSpec
  SerialFunctions functions_;
  std::set<std::string> own_layers_;
  std::map<std::string, at::Tensor> live_;  // this step's outputs by layer, with their graph
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  int64_t step_ = 0;  // how many have been run
};

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_MODEL_H_
