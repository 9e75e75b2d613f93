#include "tests/networks/network_comparison.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/status_exception.h"
#include "tests/vs_serial/random_jobs.h"
#include "verify/recut.h"

namespace adjoin {
namespace {

constexpr double kLearningRate = 0.01;
constexpr double kTolerance = 1e-10;
constexpr int64_t kSamples = 64;

absl::StatusOr<JobSpec> ReadJob(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) return absl::NotFoundError(absl::StrCat(path, ": no such file among the test's data"));
  std::stringstream text;
  text << file.rdbuf();
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(text.str(), path));
  return std::move(parsed.spec);
}

// What a step does not have, and the type in which 1e-10 means something.
void MakeOneStep(JobSpec& job) {
  job.clear_weights();
  job.clear_checkpoint();
  job.clear_restart();
  job.clear_evaluate();
  job.mutable_train()->clear_validate_on();
  job.mutable_train()->clear_validate_every();
  job.mutable_train()->clear_early_stop();
  job.mutable_train()->clear_microbatches();
  job.mutable_train()->clear_microbatches_in_flight();
  job.mutable_precision()->Clear();
  job.mutable_precision()->set_compute("float64");
  for (Dataset& dataset : *job.mutable_dataset()) {
    dataset.clear_limit();
    for (Field& field : *dataset.mutable_field()) {
      if (field.dtype() == "float32") field.clear_dtype();
    }
  }
}

std::vector<int64_t> StoredShape(const ParameterPlan& parameter) {
  const auto& shape = parameter.stored_shape().empty() ? parameter.home().shape() : parameter.stored_shape();
  return {shape.begin(), shape.end()};
}

// Weights of unit gain, so that nothing vanishes; the scales of norms near 1, biases near 0.
at::Tensor DrawParameter(const std::string& name, const std::vector<int64_t>& shape, RandomJobs& random) {
  at::Tensor value = random.Normal(shape);
  if (shape.size() < 2) {
    value = value * 0.1;
    return absl::EndsWith(name, "weight") ? value + 1 : value;
  }
  const double fan_in = std::max<double>(1, static_cast<double>(value.numel()) / static_cast<double>(shape[0]));
  return value * (1.4 / std::sqrt(fan_in));
}

void CutInto(PartsOfLayouts parts, JobSpec& job) {
  for (LayoutSpec& layout : *job.mutable_layout()) {
    auto found = parts.find(layout.name());
    if (found == parts.end()) continue;
    layout.clear_rank();
    layout.clear_cut();
    if (layout.mesh().empty()) {
      layout.mutable_partition()->Assign(found->second.begin(), found->second.end());
    } else {
      TORCH_CHECK(layout.mesh_size() == static_cast<int>(found->second.size()), layout.name(), " has another mesh");
      for (int axis = 0; axis < layout.mesh_size(); ++axis) layout.mutable_mesh(axis)->set_size(found->second[axis]);
    }
    parts.erase(found);
  }
  TORCH_CHECK(parts.empty(), "the job has no layout ", parts.begin()->first);
}

}  // namespace

void SetFieldShape(JobSpec& job, const std::string& field, const std::vector<int64_t>& shape) {
  for (Dataset& dataset : *job.mutable_dataset()) {
    for (Field& candidate : *dataset.mutable_field()) {
      if (candidate.name() != field) continue;
      candidate.clear_shape();
      for (const int64_t extent : shape) candidate.add_shape(extent);
    }
  }
}

absl::StatusOr<Plan> PlanOfNetwork(const NetworkCase& network, int ranks) {
  ADJOIN_ASSIGN_OR_RETURN(JobSpec job, ReadJob(network.job));
  MakeOneStep(job);
  if (network.edit) network.edit(job);
  job = Recut(job, static_cast<uint32_t>(ranks));
  if (auto of_ranks = network.parts.find(ranks); of_ranks != network.parts.end()) CutInto(of_ranks->second, job);
  DatasetSizes sizes;
  for (const Dataset& dataset : job.dataset()) sizes[dataset.name()] = kSamples;
  return Planner::Build(job, sizes, BuiltinLayerRules());
}

NetworkComparison::NetworkComparison(NetworkCase network, uint64_t seed) : network_(std::move(network)), seed_(seed) {
  try {
    serial_status_ = RunSerial();
  } catch (...) {
    serial_status_ = StatusFromCurrentException();
  }
}

Tensors NetworkComparison::DrawFields(const ProgramPlan& program) const {
  RandomJobs random(seed_ + 1);
  Tensors fields;
  for (const ValuePlan& value : program.value()) {
    if (value.field().empty() || fields.count(value.field()) > 0) continue;
    const std::vector<int64_t> shape(value.layout().shape().begin(), value.layout().shape().end());
    if (value.layout().dtype() == "int64") {
      auto classes = network_.classes.find(value.field());
      TORCH_CHECK(classes != network_.classes.end(), "the test does not say how many classes ", value.field(), " has");
      fields[value.field()] = random.Labels(at::empty(shape).numel(), classes->second).reshape(shape);
    } else {
      fields[value.field()] = random.Normal(shape);
    }
  }
  return fields;
}

// Draws them, and makes the module's own tensors the leaves where there is a module.
absl::Status NetworkComparison::TakeParameters(const Plan& plan, Tensors& leaves) {
  at::NoGradGuard no_grad;
  RandomJobs random(seed_);
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.buffer()) continue;
    const at::Tensor value = DrawParameter(parameter.name(), StoredShape(parameter), random);
    input_.parameters[parameter.name()] = value;
    leaves[parameter.name()] = value.clone().set_requires_grad(!parameter.frozen());
  }
  if (network_.module == nullptr) return absl::OkStatus();
  network_.module->to(at::kDouble);
  for (auto& parameter : network_.module->named_parameters()) {
    auto leaf = leaves.find(parameter.key());
    if (leaf == leaves.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job has no parameter \"", parameter.key(), "\" of the module"));
    }
    TORCH_CHECK(parameter.value().sizes() == leaf->second.sizes(), parameter.key(), " is ", parameter.value().sizes(),
                " in the module and ", leaf->second.sizes(), " in the job");
    parameter.value().copy_(leaf->second);
    parameter.value().set_requires_grad(leaf->second.requires_grad());
    leaf->second = parameter.value();
  }
  return absl::OkStatus();
}

absl::Status NetworkComparison::TakeGradients(const Tensors& fields, const Tensors& leaves) {
  for (const auto& [name, value] : fields) {
    if (value.grad().defined()) expected_.field_grads[name] = value.grad();
  }
  for (const auto& [name, leaf] : leaves) {
    if (!leaf.requires_grad()) continue;
    if (!leaf.grad().defined()) {
      return absl::InvalidArgumentError(absl::StrCat("the serial network does not use parameter \"", name, "\""));
    }
    expected_.parameter_grads[name] = leaf.grad();
    expected_.parameters[name] = (leaf - kLearningRate * leaf.grad()).detach();
  }
  if (network_.module != nullptr) {
    for (auto& buffer : network_.module->named_buffers()) expected_.parameters[buffer.key()] = buffer.value();
  }
  return absl::OkStatus();
}

absl::Status NetworkComparison::RunSerial() {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOfNetwork(network_, 1));
  input_.fields = DrawFields(plan.program(0));
  input_.sgd_lr = kLearningRate;
  Tensors leaves;
  ADJOIN_RETURN_IF_ERROR(TakeParameters(plan, leaves));
  Tensors fields;
  for (const auto& [name, value] : input_.fields) {
    fields[name] = value.clone().set_requires_grad(value.is_floating_point());
  }
  const at::Tensor loss = network_.loss(fields, leaves, expected_.values);
  loss.backward();
  loss_ = loss.item<double>();
  for (auto& [name, value] : expected_.values) value = value.detach();
  const std::string& last = plan.spec().layer(plan.spec().layer_size() - 1).name();
  if (expected_.values.count(last) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the serial network has no value of the last layer, \"", last, "\""));
  }
  return TakeGradients(fields, leaves);
}

std::string NetworkComparison::DifferencesOn(int ranks) const {
  const std::string where = absl::StrCat(" [", network_.job, " on ", ranks, " ranks, ADJOIN_TEST_SEED=", seed_, "]");
  if (!serial_status_.ok()) return absl::StrCat("serial: ", serial_status_.ToString(), where);
  auto plan = PlanOfNetwork(network_, ranks);
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), where);
  std::string text;

  const auto as_run = RunStep(*plan, input_);
  if (!as_run.ok()) return absl::StrCat(as_run.status().ToString(), where);
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t planned = plan->program(0).bytes_per_step(rank), sent = (*as_run)[rank].bytes_sent;
    if (sent != planned) absl::StrAppend(&text, "rank ", rank, " sends ", sent, " bytes, in the plan ", planned, "\n");
  }

  MakeFieldsDifferentiable(*plan, "train");
  const auto results = RunStep(*plan, input_);
  if (!results.ok()) return absl::StrCat(results.status().ToString(), where);
  absl::StrAppend(&text, Differences(*plan, "train", *results, expected_, kTolerance));
  for (int rank = 0; rank < ranks; ++rank) {
    const double loss = (*results)[rank].loss;
    if (!(std::abs(loss - loss_) <= kTolerance * std::max(1.0, std::abs(loss_)))) {
      absl::StrAppend(&text, "loss ", loss, " on rank ", rank, ", serial ", loss_, "\n");
    }
  }
  return text.empty() ? "" : text + where;
}

}  // namespace adjoin
