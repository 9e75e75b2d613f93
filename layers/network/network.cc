#include "layers/network/network.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/layer_clock.h"
#include "layers/network/layer_roles.h"
#include "layers/network/local_reads.h"
#include "layers/network/local_values.h"
#include "layers/network/loss_term.h"
#include "layers/network/operators.h"
#include "layers/network/running_layer.h"
#include "layers/recompute.h"
#include "layers/role_movements.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/program_order.h"
#include "layers/rules/recomputed_runs.h"
#include "layers/step_checks.h"
#include "planner/plan/pipeline_stages.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"
#include "primitives/to_device.h"

namespace adjoin {
namespace {

absl::StatusOr<const ProgramPlan*> ProgramOf(const Plan& plan, const std::string& name) {
  if (const ProgramPlan* program = FindProgram(plan, name)) return program;
  return absl::InvalidArgumentError(absl::StrCat(
      "no program \"", name, "\" in the plan; known: ",
      absl::StrJoin(plan.program(), ", ", [](std::string* out, const ProgramPlan& p) { out->append(p.name()); })));
}

bool IsFinite(const at::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

}  // namespace

struct Network::State {
  ProgramPlan program;
  int rank = 0;
  at::Device device = at::kCPU;
  Communicator* communicator = nullptr;
  std::shared_ptr<StepChecks> checks = std::make_shared<StepChecks>();
  std::vector<std::shared_ptr<Movement>> movements;  // by index in ProgramPlan.op
  LocalValues local;
  std::vector<std::unique_ptr<LayerModule>> layers;
  std::vector<std::shared_ptr<RoleMovements>> roles;  // by layer
  std::vector<LossTerm> losses;
  std::vector<RecomputedRun> recomputed;
  std::vector<LayerStretch> stretches;                              // what runs after each other
  std::vector<LayerStretch> layers_alone;                           // likewise, where nothing is computed again
  std::vector<std::vector<uint32_t>> read_last;                     // by layer, the values that nothing reads after it
  std::vector<std::vector<int>> written_by;                         // by layer, the outputs that are its own
  std::vector<std::map<std::string, at::Tensor>> layer_parameters;  // this rank's blocks, by name, of each layer
  std::shared_ptr<StepPlace> place = std::make_shared<StepPlace>();
  GradientSync* sync = nullptr;               // whose sums backward passes start
  const GradientSync* complete_of = nullptr;  // whose sums the next are
  std::vector<std::vector<int>>
      complete_sums;  // by layer, the sums whose gradients are there when it has been run back
  int64_t report_extent = 0;
  std::map<std::string, int64_t> peak_elements;

  absl::StatusOr<std::unique_ptr<LayerModule>> BuildLayer(const Plan& plan, int index, const Parameters& parameters,
                                                          const LayerRegistry& registry);
  absl::StatusOr<std::vector<at::Tensor>> TakeFields(const std::map<std::string, at::Tensor>& fields) const {
    return local.TakeFields(program, fields, device);
  }
  void ForgetAfter(int layer, std::vector<at::Tensor>& values) const;
  void StartSumsInBackward(int first, int end, Tape& tape);
  void StartParameters(int index, Tape& tape);
  bool StartAhead(const LayerStretch& next, Tape& tape);
  std::string NameOf(int layer) const { return absl::StrCat("layer \"", program.layer(layer).name(), "\""); }
  absl::Status FailureOf(const std::string& running) const;
  void DropStarted(const absl::Status& why);
  absl::Status RunLayer(int index, std::vector<at::Tensor>& values, Tape& tape);
  void RunAgainLater(const RecomputedRun& run, std::vector<at::Tensor>& values, Tape& tape);
  void TakeOutputs(int layer, const std::vector<at::Tensor>& values, Tape& tape, Result& result) const;
  void AddLosses(const std::vector<at::Tensor>& values, Tape& tape, Result& result) const;

  // A place where a value that is not finite may be. All ranks list the same ones, in the program's order.
  struct Place {
    NotFinite if_not;
    bool finite = true;  // on this rank
  };
  absl::Status CheckLayer(int index, std::vector<at::Tensor>& values, Tape& tape, std::vector<Place>& places);
  void CheckLoss(int index, const std::vector<at::Tensor>& values, Tape& tape, std::vector<Place>& places) const;
};

absl::StatusOr<std::unique_ptr<LayerModule>> Network::State::BuildLayer(const Plan& plan, int index,
                                                                        const Parameters& parameters,
                                                                        const LayerRegistry& registry) {
  const LayerPlan& layer = program.layer(index);
  LayerContext context;
  context.plan = layer;
  context.rank = rank;
  context.training = program.training();
  context.device = device;
  context.index = index;
  context.place = place;
  context.checks = checks;
  ADJOIN_ASSIGN_OR_RETURN(const Layout compute, LayoutFromProto(layer.compute()));
  context.compute_shape = compute.LocalShape(rank);
  for (uint32_t input : layer.input()) {
    const auto& shape = program.value(input).layout().shape();
    context.input_shapes.emplace_back(shape.begin(), shape.end());
  }
  ADJOIN_ASSIGN_OR_RETURN(context.reads, LocalReadsOf(program, layer, rank, device));
  ADJOIN_ASSIGN_OR_RETURN(context.roles, RolesOf(plan, layer, movements));
  roles.push_back(context.roles);
  for (const ParameterUse& use : layer.parameter()) {
    const std::string& name = plan.parameter(use.index()).name();
    ADJOIN_ASSIGN_OR_RETURN(const int index, parameters.IndexOf(name));
    context.parameters[use.role()] = parameters.tensor(index);
    // Where nothing moves, its home is where it is read.
    LayoutPlan needed = plan.parameter(use.index()).home();
    for (const OperatorUse& op : layer.op()) {
      if (op.role() == use.role()) needed = program.op(op.index()).to();
    }
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(needed));
    context.parameter_boxes[use.role()] = layout.BoxOf(rank);
  }
  return registry.Build(std::move(context));
}

// The sums whose gradients are complete when the backward pass is through these layers, which run after this call.
void Network::State::StartSumsInBackward(int first, int end, Tape& tape) {
  if (sync == nullptr || !at::GradMode::is_enabled()) return;
  std::vector<int> sums;
  for (int i = first; i < end; ++i) sums.insert(sums.end(), complete_sums[i].begin(), complete_sums[i].end());
  if (sums.empty()) return;
  std::sort(sums.begin(), sums.end());
  sync->StartInBackward(sums, tape);
}

void Network::State::StartParameters(int index, Tape& tape) {
  if (!layers[index]->MovesParameters()) return;
  const LayerClock::Pass measured(index);
  layers[index]->StartParameters(tape);
}

// The parameters of the layer that comes next travel while this one computes, one layer ahead and no more: what has
// come takes memory. In the backward pass their gradients travel while that of this layer runs, and are there only
// then, so the sums of these come before them here. Layers that are computed again first run without gradients, and
// read these parameters where they are used when they run again: nothing of them travels back past this layer. Returns
// whether the sums of the next layers are on the tape.
bool Network::State::StartAhead(const LayerStretch& next, Tape& tape) {
  if (!layers[next.first]->MovesParameters()) return false;
  const bool travels_back = next.again == nullptr;
  if (travels_back) StartSumsInBackward(next.first, next.end, tape);
  const at::AutoGradMode with_grad(at::GradMode::is_enabled() && travels_back);
  StartParameters(next.first, tape);
  return travels_back;
}

// What the exception being handled says. Errors of movements and of layers name what has failed themselves.
absl::Status Network::State::FailureOf(const std::string& running) const {
  try {
    throw;
  } catch (const StatusException& error) {
    return error.status();
  } catch (...) {
    const absl::Status status = StatusFromCurrentException();
    return absl::Status(status.code(), absl::StrCat(running, " on rank ", rank, ": ", status.message()));
  }
}

// A pass that has failed waits for nothing that it has started ahead. The other ranks, which would wait for this one,
// are told why.
void Network::State::DropStarted(const absl::Status& why) {
  const auto travels = [](const std::shared_ptr<RoleMovements>& of) { return of->HasStarted(); };
  if (std::any_of(roles.begin(), roles.end(), travels)) communicator->Abort(why);
  for (const std::shared_ptr<RoleMovements>& of : roles) of->DropStarted();
}

absl::Status Network::State::RunLayer(int index, std::vector<at::Tensor>& values, Tape& tape) {
  const LayerPlan& layer = program.layer(index);
  const LayerClock::Pass measured(index);
  std::vector<at::Tensor> inputs;
  for (uint32_t input : layer.input()) inputs.push_back(values[input]);
  at::Tensor output = layers[index]->Forward(inputs, tape);
  ADJOIN_RETURN_IF_ERROR(roles[index]->CheckUsed());
  // Rule and builder are written apart; here they must agree, or a later movement would mix up cells.
  if (output.sizes() != at::IntArrayRef(local.shape(layer.output()))) {
    return absl::InternalError(absl::StrCat("layer \"", layer.name(), "\" on rank ", rank, " returned shape ",
                                            ShapeText(output.sizes()), "; the plan says ",
                                            ShapeText(local.shape(layer.output()))));
  }
  int64_t& peak = peak_elements[layer.name()];
  peak = std::max({peak, output.numel(), layers[index]->peak_elements()});
  for (const at::Tensor& input : inputs) peak = std::max(peak, input.numel());
  if (program.training()) MarkBackwardOf(layer.name(), output);
  values[layer.output()] = std::move(output);
  return absl::OkStatus();
}

// The layers of `run`, whose other values live no longer than this call.
void Network::State::RunAgainLater(const RecomputedRun& run, std::vector<at::Tensor>& values, Tape& tape) {
  const auto pass = [this, &run](const std::vector<at::Tensor>& inputs, Tape& inner) {
    std::vector<at::Tensor> own(program.value_size());
    for (size_t i = 0; i < inputs.size(); ++i) own[run.inputs[i]] = inputs[i];
    int running = run.first;
    try {
      for (int i = run.first; i < run.end; ++i) {
        if (i + 1 < run.end) {
          running = i + 1;
          StartParameters(running, inner);
        }
        running = i;
        ThrowIfError(RunLayer(i, own, inner));
        ForgetAfter(i, own);
      }
    } catch (...) {
      const absl::Status why = FailureOf(NameOf(running));
      DropStarted(why);
      throw StatusException(why);
    }
    std::vector<at::Tensor> outputs;
    for (uint32_t output : run.outputs) outputs.push_back(own[output]);
    return outputs;
  };
  std::vector<at::Tensor> inputs, trained;
  for (uint32_t input : run.inputs) inputs.push_back(values[input]);
  // Each once: the gradient of one that several layers share is the sum of all its uses already.
  std::set<std::string> names;
  for (int i = run.first; i < run.end; ++i) {
    for (const auto& [name, tensor] : layer_parameters[i]) {
      if (tensor.requires_grad() && names.insert(name).second) trained.push_back(tensor);
    }
  }
  std::vector<at::Tensor> outputs = Recompute(pass, inputs, trained, tape);
  for (size_t i = 0; i < outputs.size(); ++i) values[run.outputs[i]] = std::move(outputs[i]);
  for (int i = run.first; i < run.end; ++i) ForgetAfter(i, values);
}

// The values that nothing reads after the layer: what the backward pass needs of them, LibTorch's graph keeps.
void Network::State::ForgetAfter(int layer, std::vector<at::Tensor>& values) const {
  for (uint32_t value : read_last[layer]) values[value].reset();
}

void Network::State::TakeOutputs(int layer, const std::vector<at::Tensor>& values, Tape& tape, Result& result) const {
  for (int index : written_by[layer]) {
    const OutputPlan& output = program.output(index);
    const at::Tensor& value = values[output.value()];
    result.outputs[index] = output.has_op() ? movements.at(output.op().index())->Apply(value, tape) : value;
  }
}

void Network::State::AddLosses(const std::vector<at::Tensor>& values, Tape& tape, Result& result) const {
  for (const LossTerm& term : losses) {
    LossTerm::Result part = term.Run(values, tape);
    result.predictions.push_back(std::move(part.prediction));
    result.shares.push_back(part.share);
    result.loss = result.loss.defined() ? result.loss + part.share : part.share;
  }
}

absl::Status Network::State::CheckLayer(int index, std::vector<at::Tensor>& values, Tape& tape,
                                        std::vector<Place>& places) {
  const LayerPlan& layer = program.layer(index);
  for (uint32_t input : layer.input()) {
    const std::string& field = program.value(input).field();
    if (field.empty()) continue;
    const std::string what =
        absl::StrCat("field \"", field, "\" of the data, an input of layer \"", layer.name(), "\"");
    places.push_back({{what, /*is_data=*/true}, IsFinite(values[input])});
  }
  for (const auto& [name, tensor] : layer_parameters[index]) {
    places.push_back({{absl::StrCat("parameter \"", name, "\" of layer \"", layer.name(), "\"")}, IsFinite(tensor)});
  }
  ADJOIN_RETURN_IF_ERROR(RunLayer(index, values, tape));
  places.push_back({{absl::StrCat("the output of layer \"", layer.name(), "\"")}, IsFinite(values[layer.output()])});
  ForgetAfter(index, values);
  return absl::OkStatus();
}

void Network::State::CheckLoss(int index, const std::vector<at::Tensor>& values, Tape& tape,
                               std::vector<Place>& places) const {
  const LossTerm& term = losses[index];
  const Loss& spec = term.plan().spec();
  places.push_back({{absl::StrCat("field \"", spec.target(), "\" of the data, the target of loss ", index),
                     /*is_data=*/true},
                    IsFinite(values[term.plan().target()])});
  places.push_back({{absl::StrCat("loss ", index, ", ", spec.kind(), " of \"", spec.input(), "\"")},
                    IsFinite(term.Run(values, tape).share)});
}

Network::Network() : state_(std::make_unique<State>()) {}
Network::~Network() = default;

absl::StatusOr<std::unique_ptr<Network>> Network::Create(const Plan& plan, const std::string& program,
                                                         Communicator* communicator, Parameters* parameters,
                                                         const LayerRegistry& registry) {
  std::unique_ptr<Network> network(new Network());
  State& state = *network->state_;
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* found, ProgramOf(plan, program));
  state.program = *found;
  state.rank = communicator->rank();
  state.communicator = communicator;
  state.device = TensorDeviceOf(communicator->memory());
  state.place->seed = plan.spec().seed();
  std::optional<PipelineStages> stages;
  if (found->training() && plan.spec().train().microbatches_in_flight() > 1) {
    ADJOIN_ASSIGN_OR_RETURN(stages, PipelineStages::Of(plan));
  }
  for (const OperatorPlan& op : state.program.op()) {
    const bool sends_ahead = stages.has_value() && stages->Between(op);
    ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Movement> movement, CreateMovement(op, communicator, sends_ahead));
    state.movements.push_back(std::move(movement));
  }
  ADJOIN_ASSIGN_OR_RETURN(state.local, LocalValues::Of(state.program, state.rank));
  for (int i = 0; i < state.program.layer_size(); ++i) {
    const LayerPlan& layer = state.program.layer(i);
    ADJOIN_ASSIGN_OR_RETURN(auto module, state.BuildLayer(plan, i, *parameters, registry));
    state.layers.push_back(std::move(module));
    std::map<std::string, at::Tensor>& blocks = state.layer_parameters.emplace_back();
    for (const ParameterUse& use : layer.parameter()) {
      const std::string& name = plan.parameter(use.index()).name();
      ADJOIN_ASSIGN_OR_RETURN(const int index, parameters->IndexOf(name));
      blocks[name] = parameters->tensor(index);
    }
    state.peak_elements[layer.name()] = 0;
  }
  for (int i = 0; i < state.program.loss_size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(
        LossTerm term, LossTerm::Create(state.program, i, {state.rank, state.device, state.movements, state.checks}));
    state.losses.push_back(std::move(term));
  }
  state.written_by = WrittenBy(state.program);
  state.read_last = ReadLast(state.program);
  ADJOIN_ASSIGN_OR_RETURN(state.recomputed, RecomputedRuns(state.program));
  state.stretches = StretchesOf(state.program, state.recomputed);
  state.layers_alone = StretchesOf(state.program, {});
  state.report_extent = VolumeOf(state.movements.at(state.program.report_op())->forward_plan().direct().from_shape());
  return network;
}

absl::StatusOr<Network::Result> Network::Forward(const std::map<std::string, at::Tensor>& fields, Tape& tape,
                                                 bool keep_values) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<at::Tensor> values, state_->TakeFields(fields));
  return Run(std::move(values), tape, keep_values);
}

absl::StatusOr<Network::Result> Network::Forward(std::map<std::string, at::Tensor>&& fields, Tape& tape,
                                                 bool keep_values) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<at::Tensor> values, state_->TakeFields(fields));
  fields.clear();
  return Run(std::move(values), tape, keep_values);
}

absl::StatusOr<Network::Result> Network::Run(std::vector<at::Tensor> values, Tape& tape, bool keep_values) {
  at::AutoGradMode with_grad(state_->program.training());
  Result result;
  result.outputs.resize(state_->program.output_size());
  std::string running;
  const std::vector<LayerStretch>& stretches = keep_values ? state_->layers_alone : state_->stretches;
  bool sums_started = false;  // those of the stretch that comes
  try {
    for (size_t n = 0; n < stretches.size(); ++n) {
      const LayerStretch& stretch = stretches[n];
      if (!sums_started) state_->StartSumsInBackward(stretch.first, stretch.end, tape);
      sums_started = false;
      if (n + 1 < stretches.size()) {
        running = state_->NameOf(stretches[n + 1].first);
        sums_started = state_->StartAhead(stretches[n + 1], tape);
      }
      running = state_->NameOf(stretch.first);
      if (stretch.again != nullptr) {
        state_->RunAgainLater(*stretch.again, values, tape);
        continue;
      }
      ThrowIfError(state_->RunLayer(stretch.first, values, tape));
      state_->TakeOutputs(stretch.first, values, tape, result);
      if (!keep_values) state_->ForgetAfter(stretch.first, values);
    }
    running = "the losses";
    state_->AddLosses(values, tape, result);
  } catch (...) {
    const absl::Status why = state_->FailureOf(running);
    state_->DropStarted(why);
    return why;
  }
  if (keep_values) {
    for (int i = 0; i < state_->program.value_size(); ++i) {
      result.values[state_->program.value(i).name()] = values[i];
    }
  }
  return result;
}

void Network::SumInBackward(GradientSync* sync) {
  state_->sync = sync;
  if (sync == nullptr || sync == state_->complete_of) return;
  state_->complete_sums = sync->CompleteAt(state_->program);
  state_->complete_of = sync;
}

void Network::SetPlace(int64_t step, int64_t first_sample) {
  state_->place->step = step;
  state_->place->first_sample = first_sample;
}

absl::StatusOr<std::vector<double>> Network::SumOverRanks(const std::vector<double>& numbers) {
  if (static_cast<int64_t>(numbers.size()) > state_->report_extent) {
    return absl::InvalidArgumentError(absl::StrCat("sums of ", numbers.size(), " numbers over the ranks; at most ",
                                                   state_->report_extent, " fit the plan's report"));
  }
  at::NoGradGuard no_grad;
  at::Tensor mine = at::zeros({state_->report_extent}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), mine.data_ptr<double>());
  try {
    mine = ToDevice(mine, state_->device);
    const at::Tensor sums = state_->movements[state_->program.report_op()]->Forward(mine).to(at::kCPU);
    return std::vector<double>(sums.data_ptr<double>(), sums.data_ptr<double>() + numbers.size());
  } catch (...) {
    return StatusFromCurrentException();
  }
}

absl::StatusOr<std::optional<Network::NotFinite>> Network::FirstNotFinite(
    const std::map<std::string, at::Tensor>& fields) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<at::Tensor> values, state_->TakeFields(fields));
  at::NoGradGuard no_grad;
  Tape tape(state_->device);
  std::vector<State::Place> places;
  try {
    // Every rank goes through all of it, whatever it finds: the others wait for its part of the movements.
    for (int i = 0; i < state_->program.layer_size(); ++i) {
      ADJOIN_RETURN_IF_ERROR(state_->CheckLayer(i, values, tape, places));
    }
    for (int i = 0; i < state_->program.loss_size(); ++i) state_->CheckLoss(i, values, tape, places);
    state_->checks->Clear();  // of the pass that led here they have been read
  } catch (...) {
    return StatusFromCurrentException();
  }
  // The first place over all ranks, by halves: whether any rank has found one in the first `middle` + 1.
  const auto bad = [](const State::Place& place) { return !place.finite; };
  const auto mine = std::find_if(places.begin(), places.end(), bad) - places.begin();
  std::ptrdiff_t first = 0;
  auto end = static_cast<std::ptrdiff_t>(places.size());
  while (first < end) {
    const std::ptrdiff_t middle = first + (end - first) / 2;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> found, SumOverRanks({mine <= middle ? 1.0 : 0.0}));
    if (found[0] > 0) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  if (first == static_cast<std::ptrdiff_t>(places.size())) return std::optional<NotFinite>();
  return std::optional<NotFinite>(std::move(places[first].if_not));
}

absl::StatusOr<std::vector<double>> Network::ReadNumbers(const std::vector<at::Tensor>& numbers) {
  try {
    return state_->checks->Read(numbers);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

const ProgramPlan& Network::program() const { return state_->program; }

at::Device Network::device() const { return state_->device; }

const std::map<std::string, int64_t>& Network::peak_elements() const { return state_->peak_elements; }

}  // namespace adjoin
