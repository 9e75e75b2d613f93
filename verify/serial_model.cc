#include "verify/serial_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/loss/serial_loss.h"
#include "layers/rules/layer_kind.h"
#include "primitives/status_exception.h"
#include "verify/evaluation_functions.h"
#include "verify/one_rank_layer.h"
#include "verify/serial_optimizer.h"
#include "verify/trained_data.h"

namespace adjoin {
namespace {

constexpr int64_t kIndices = 10;  // whole numbers that a layer reads are below this

// Whole numbers of fields are below this, so that every embedding has them, also what it reads by way of other layers.
int64_t MostIndices(const JobSpec& spec) {
  int64_t most = 0;
  for (const Layer& layer : spec.layer()) {
    if (!layer.has_embedding()) continue;
    const int64_t rows = layer.embedding().num_embeddings();
    most = most == 0 ? rows : std::min(most, rows);
  }
  return most > 0 ? most : kIndices;
}

// What the exception being handled says, and what was running. Call it only inside a catch block.
absl::Status FailedIn(const std::string& running) {
  const absl::Status status = StatusFromCurrentException();
  return absl::Status(status.code(), absl::StrCat("the serial model, ", running, ": ", status.message()));
}

}  // namespace

SerialModel::SerialModel(const JobSpec& spec, const SerialModelOptions& options)
    : spec_(spec),
      options_(options),
      dataset_(TrainedData(spec_)),
      generator_(at::make_generator<at::CPUGeneratorImpl>(options.seed)),
      parameters_(generator_),
      functions_(options.evaluation ? InEvaluation(*options.functions) : *options.functions) {}

SerialModel::~SerialModel() = default;

absl::StatusOr<std::unique_ptr<SerialModel>> SerialModel::Create(const JobSpec& spec,
                                                                 const SerialModelOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(ExpandedSpec expanded, ExpandBlocks(spec));
  if (options.evaluation) DropNoWeights(expanded.spec);
  std::unique_ptr<SerialModel> model(new SerialModel(expanded.spec, options));
  model->features_of_ = std::move(expanded.features_of);
  for (const Layer& layer : model->spec_.layer()) {
    const std::string kind = KindOf(layer);
    if (model->functions_.Find(kind) != nullptr) continue;
    if (!layer.has_custom() || options.evaluation) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer \"", layer.name(), "\": verify has no serial function for kind \"", kind, "\""));
    }
    if (!layer.weights_of().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer \"", layer.name(), "\" uses the weights of layer \"", layer.weights_of(),
                       "\", but verify has no serial function for their kind \"", kind, "\", which it then needs"));
    }
    model->own_layers_.insert(layer.name());
    // Under the layer's own name: it keeps the layer's parameters. No kind is called like that.
    model->functions_.Register(absl::StrCat("layer ", layer.name()), OneRankLayer(*options.rules, *options.layers));
  }
  if (options.evaluation) return model;
  if (spec.train().optimizer().kind_case() == Optimizer::KIND_NOT_SET) {
    return absl::InvalidArgumentError("verify compares a step of the job's optimizer: it has none");
  }
  return model;
}

torch::Tensor SerialModel::InputOf(const std::string& name, SerialStep& step) {
  auto earlier = live_.find(name);
  if (earlier != live_.end()) return earlier->second;
  auto drawn = step.fields.find(name);
  if (drawn != step.fields.end()) return drawn->second;
  const Field* field = FieldOf(dataset_, name);
  TORCH_CHECK(field != nullptr, "there is no layer or field \"", name, "\"");
  std::vector<int64_t> shape = {options_.batch};
  shape.insert(shape.end(), field->shape().begin(), field->shape().end());
  const bool whole = field->dtype() == "int64";
  return step.fields[name] = whole ? torch::randint(0, MostIndices(spec_), shape, generator_, torch::kInt64)
                                   : torch::randn(shape, generator_, torch::kFloat64);
}

void SerialModel::RunLayer(int index, SerialStep& step, Tape& tape) {
  Layer layer = spec_.layer(index);
  const auto features_of = features_of_.find(index);
  if (features_of != features_of_.end()) {
    layer.mutable_linear()->set_out_features(static_cast<uint32_t>(live_.at(features_of->second).size(-1)));
  }
  for (const Layer& owner : spec_.layer()) {
    if (owner.name() != layer.weights_of()) continue;
    layer.set_frozen(owner.frozen());
    *layer.mutable_parameter_name() = owner.parameter_name();
  }
  std::vector<torch::Tensor> inputs;
  if (layer.input().empty()) inputs.push_back(live_.at(spec_.layer(index - 1).name()));
  for (const std::string& name : layer.input()) inputs.push_back(InputOf(name, step));
  const std::string kind = own_layers_.count(layer.name()) > 0 ? absl::StrCat("layer ", layer.name()) : KindOf(layer);
  SerialCall call(layer, std::move(inputs), &parameters_, &tape, {spec_.seed(), step_, index});
  torch::Tensor output = (*functions_.Find(kind))(call);
  if (output.requires_grad()) output.retain_grad();
  live_[layer.name()] = std::move(output);
}

torch::Tensor SerialModel::AddLosses(SerialStep& step) {
  torch::Tensor sum;
  for (const Loss& loss : spec_.loss()) {
    const torch::Tensor& prediction = live_.at(loss.input());
    if (step.fields.count(loss.target()) == 0) {
      step.fields[loss.target()] = DrawTarget(loss, *FieldOf(dataset_, loss.target()), prediction, generator_);
    }
    const torch::Tensor variance = loss.variance().empty() ? torch::Tensor() : live_.at(loss.variance());
    const torch::Tensor term = SerialLoss(loss, prediction, step.fields.at(loss.target()), variance);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

void SerialModel::MakeOptimizer() {
  std::vector<torch::Tensor> trained;
  for (const SerialParameters::Entry& entry : parameters_.entries()) {
    if (entry.trained) trained.push_back(entry.tensor);
  }
  optimizer_ = SerialOptimizer(spec_.train().optimizer(), std::move(trained));
}

void SerialModel::TakeResults(SerialStep& step) const {
  for (const auto& [name, value] : live_) {
    step.values[name] = value.detach();
    if (!value.requires_grad()) continue;
    step.cotangents[name] = value.grad().defined() ? value.grad().clone() : torch::zeros_like(value);
  }
  for (const SerialParameters::Entry& entry : parameters_.entries()) {
    if (entry.trained) step.parameter_grads[entry.name] = entry.tensor.grad().clone();
  }
}

void SerialModel::RunLayers(SerialStep& step, Tape& tape, std::string& running) {
  for (int i = 0; i < spec_.layer_size(); ++i) {
    running = absl::StrCat("layer \"", spec_.layer(i).name(), "\"");
    RunLayer(i, step, tape);
  }
}

absl::StatusOr<torch::Tensor> SerialModel::RunToLoss(SerialStep& step, Tape& tape, std::string& running,
                                                     absl::string_view hint) {
  RunLayers(step, tape, running);
  running = "the loss";
  torch::Tensor loss = AddLosses(step);
  step.loss = loss.item<double>();
  if (std::isfinite(step.loss)) return loss;
  return absl::OutOfRangeError(
      absl::StrCat("the serial model's loss is ", step.loss, ", and nothing can be compared with that", hint));
}

absl::StatusOr<SerialStep> SerialModel::RunStep() {
  SerialStep step;
  std::string running;
  try {
    torch::AutoGradMode with_grad(true);
    live_.clear();
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const torch::Tensor loss,
                            RunToLoss(step, tape, running, /*hint=*/"; another --seed may help"));
    if (optimizer_ == nullptr) MakeOptimizer();
    optimizer_->zero_grad();
    running = "the backward pass";
    tape.Backward(loss);
    // A parameter that the loss does not depend on: weight decay acts on it, as it does on the ranks.
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      torch::Tensor tensor = entry.tensor;
      if (entry.trained && !tensor.grad().defined()) tensor.mutable_grad() = torch::zeros_like(tensor);
    }
    TakeResults(step);
    optimizer_->step();
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      step.parameters[entry.name] = entry.tensor.detach().clone();
    }
    ++step_;
  } catch (...) {
    return FailedIn(running);
  }
  return step;
}

absl::StatusOr<NamedTensors> SerialModel::Evaluate(const NamedTensors& fields, const NamedTensors& parameters) {
  SerialStep step;
  step.fields = fields;
  std::string running;
  try {
    torch::NoGradGuard no_grad;
    live_.clear();
    for (const auto& [name, tensor] : parameters) {
      if (!parameters_.Has(name)) parameters_.Add(name, tensor, /*trained=*/false);
    }
    Tape tape;
    RunLayers(step, tape, running);
  } catch (...) {
    return FailedIn(running);
  }
  return live_;
}

absl::StatusOr<SerialStep> SerialModel::EvaluateLoss(const NamedTensors& fields, const NamedTensors& parameters,
                                                     const std::set<std::string>& trained) {
  SerialStep step;
  step.fields = fields;
  std::string running;
  try {
    torch::AutoGradMode with_grad(true);
    live_.clear();
    for (const auto& [name, tensor] : parameters) {
      const bool has_gradient = trained.count(name) > 0;
      parameters_.Add(name, tensor.detach().clone().set_requires_grad(has_gradient), has_gradient);
    }
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const torch::Tensor loss, RunToLoss(step, tape, running, /*hint=*/""));
    running = "the backward pass";
    tape.Backward(loss);
    for (const SerialParameters::Entry& entry : parameters_.entries()) {
      if (!entry.trained) continue;
      step.parameter_grads[entry.name] =
          entry.tensor.grad().defined() ? entry.tensor.grad().clone() : torch::zeros_like(entry.tensor);
    }
  } catch (...) {
    return FailedIn(running);
  }
  return step;
}

NamedTensors SerialModel::InitialParameters() const {
  NamedTensors initial;
  for (const SerialParameters::Entry& entry : parameters_.entries()) initial[entry.name] = entry.initial;
  return initial;
}

}  // namespace adjoin
