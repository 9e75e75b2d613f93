#include "planner/plan/program_builder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/loss/loss_roles.h"
#include "layers/loss/loss_rule.h"
#include "layers/rules/counted_layout.h"
#include "layers/rules/init_rule.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/metric_rule.h"
#include "planner/checks/name_check.h"
#include "planner/checks/predict_check.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/parameter_names.h"
#include "planner/plan/shared_parameters.h"
#include "planner/plan/step_sums.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

// True where Layer.init draws the parameter: "weight", attention's "in_proj_weight" and "out_proj.weight".
bool IsWeight(absl::string_view role) {
  return role == kRoleWeight || absl::EndsWith(role, ".weight") || absl::EndsWith(role, "_weight");
}

// Returns how far the outputs of each part of `dim` read beyond the part's own cells.
OutputWindow HaloOf(const Layout& x, int dim, const Reading& reading, const Layout& y) {
  OutputWindow halo;
  halo.set_dim(dim);
  const std::vector<int64_t>& own = x.Boundaries(dim);
  const std::vector<int64_t>& outputs = y.Boundaries(dim);
  for (int64_t part = 0; part < x.Parts(dim); ++part) {
    const int64_t extent = x.shape()[dim];
    const Interval reads = reading.Reads({outputs[part], outputs[part + 1]}, extent).Intersect({0, extent});
    halo.add_left(reads.empty() ? own[part] - own[part + 1] : own[part] - reads.lo);
    halo.add_right(reads.empty() ? 0 : reads.hi - own[part + 1]);
  }
  return halo;
}

}  // namespace

absl::Status ProgramBuilder::Build() {
  program_.set_name(request_.name);
  program_.set_training(request_.training);
  program_.set_dataset(request_.dataset->name());
  program_.set_batch(request_.batch);
  program_.mutable_bytes_per_step()->Resize(static_cast<int>(context_.spec.ranks()), 0);
  for (int i = 0; i < context_.spec.layer_size(); ++i) {
    layer_index_[context_.spec.layer(i).name()] = i;
    owners_.insert(context_.spec.layer(i).weights_of());
  }
  for (int i = 0; i < context_.spec.layer_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("layer[", i, "]"), AddLayer(i)));
  }
  ADJOIN_RETURN_IF_ERROR(AddSharedParameters());
  for (int i = 0; request_.with_losses && i < context_.spec.loss_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("loss[", i, "]"), AddLoss(i)));
  }
  for (int i = 0; request_.with_outputs && i < context_.spec.predict().input_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(
        AtField(absl::StrCat("predict.input[", i, "]"), AddOutput(context_.spec.predict().input(i))));
  }
  ADJOIN_RETURN_IF_ERROR(AddReport());
  *plan_.add_program() = std::move(program_);
  return absl::OkStatus();
}

uint32_t ProgramBuilder::AddValue(const std::string& name, const Layout& layout, bool needs_grad,
                                  const std::string& field) {
  ValuePlan* value = program_.add_value();
  value->set_name(name);
  *value->mutable_layout() = ToProto(layout);
  value->set_needs_grad(needs_grad);
  value->set_field(field);
  layouts_.push_back(layout);
  return program_.value_size() - 1;
}

absl::StatusOr<std::optional<uint32_t>> ProgramBuilder::AddOperator(const OperatorRequest& movement,
                                                                    bool even_if_idle) {
  // Most movements that do nothing end here; the others look at every rank's part.
  if (!even_if_idle && movement.readings.empty() && movement.from == movement.to) return std::optional<uint32_t>();
  ADJOIN_ASSIGN_OR_RETURN(CountedOperator op, CountOperator(movement, context_.spec.ranks()));
  if (op.traffic.is_identity && !even_if_idle) return std::optional<uint32_t>();
  ADJOIN_RETURN_IF_ERROR(ids_.Take(op.plan, context_.spec.ranks()));
  AddBytes(op.traffic.forward, 1, *program_.mutable_bytes_per_step());
  if (movement.differentiable) AddBytes(op.traffic.adjoint, 1, *program_.mutable_bytes_per_step());
  *program_.add_op() = std::move(op.plan);
  return std::optional<uint32_t>(program_.op_size() - 1);
}

absl::Status ProgramBuilder::AddRole(LayerPlan& layer, const std::string& role, const OperatorRequest& movement) {
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<uint32_t> index, AddOperator(movement));
  if (!index.has_value()) return absl::OkStatus();
  OperatorUse* use = layer.add_op();
  use->set_role(role);
  use->set_index(*index);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ProgramBuilder::FieldShape(const std::string& name, absl::string_view reader,
                                                                DType* dtype) {
  const Field* field = FindField(*request_.dataset, name);
  if (field == nullptr) {
    std::vector<std::string> known;
    for (const Field& other : request_.dataset->field()) known.push_back(other.name());
    return InvalidSpec("data set \"", request_.dataset->name(), "\" does not have the field \"", name,
                       "\", which it reads; its fields are ", absl::StrJoin(known, ", "));
  }
  const DType reads = *dtype;
  if (!field->dtype().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(*dtype, ParseDType(field->dtype()));
  }
  if (IsFloatingPoint(*dtype) && *dtype != reads) {
    return InvalidSpec("field \"", name, "\" has dtype \"", field->dtype(), "\", but ", reader, " computes in ",
                       ToString(reads), "; leave dtype out, or set precision.compute");
  }
  std::vector<int64_t> shape = {request_.batch};
  const std::vector<int64_t> sample = SampleShape(*request_.dataset, *field);
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

absl::StatusOr<uint32_t> ProgramBuilder::FieldValue(const std::string& name, const Layout& layout) {
  int others = 0;
  for (int i = 0; i < program_.value_size(); ++i) {
    if (program_.value(i).field() != name) continue;
    if (layouts_[i] == layout) return i;
    ++others;
  }
  const std::string unique = others == 0 ? name : absl::StrCat(name, "#", others + 1);
  return AddValue(unique, layout, /*needs_grad=*/false, name);
}

absl::StatusOr<uint32_t> ProgramBuilder::InputOf(const Layer& layer, const std::string& name, const std::string& x) {
  const auto earlier = by_layer_.find(name);
  if (earlier != by_layer_.end()) return earlier->second;
  for (const Layer& other : context_.spec.layer()) {
    if (other.name() == name) {
      return InvalidSpec("its input, layer \"", name, "\", does not stand before it; move one of the two");
    }
  }
  if (FindField(*request_.dataset, name) == nullptr && request_.training) {
    return InvalidSpec("its input \"", name, "\" is neither an earlier layer nor a field of data set \"",
                       request_.dataset->name(), "\"");
  }
  DType dtype = context_.dtype;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                          FieldShape(name, absl::StrCat("layer \"", layer.name(), "\""), &dtype));
  if (shape.size() < 2) {
    return InvalidSpec("field \"", name,
                       "\" has no shape; a layer that reads it needs one sample's shape in the data set,"
                       " as in shape: [1, 28, 28]; with one number a sample, shape: 1");
  }
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(shape).status());
  if (!x.empty()) {
    auto layout = context_.layouts.Resolve(x, shape, dtype);
    if (!layout.ok()) return AtField("x", layout.status());
    return FieldValue(name, *layout);
  }
  if (context_.spec.ranks() > 1) {
    std::vector<int64_t> partition(shape.size(), 1);
    partition[0] = context_.spec.ranks();
    return InvalidSpec("x is missing: on ", context_.spec.ranks(), " ranks, a layer that reads the field \"", name,
                       "\" must say in which layout, as in x: \"batch\" with layout { name: \"batch\" partition: [",
                       absl::StrJoin(partition, ", "), "] }; or add --auto, which chooses all layouts");
  }
  return FieldValue(name, Layout::Owner(shape, dtype, 0));
}

absl::Status ProgramBuilder::AddInputRoles(const LayerOutcome& outcome, const std::vector<uint32_t>& inputs,
                                           const std::vector<Layout>& x, LayerPlan& layer) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputNeed& need = outcome.input[i];
    const bool grad = request_.training && program_.value(inputs[i]).needs_grad();
    const std::string role = InputRole(static_cast<int>(i));
    const std::string name = absl::StrCat(layer.name(), ".", role);
    const Layout& stored = layouts_[inputs[i]];
    const Layout& read = need.layout.has_value() ? *need.layout : x[i];
    InputReading* reading = layer.add_reading();
    if (need.readings.empty()) {
      if (need.reader.has_value()) *reading->mutable_reader() = ToProto(*need.reader);
      ADJOIN_RETURN_IF_ERROR(AddRole(layer, role, {.name = name, .from = stored, .to = read, .differentiable = grad}));
      continue;
    }
    const Layout& reader = need.reader.has_value() ? *need.reader : outcome.compute;
    ADJOIN_RETURN_IF_ERROR(AddRole(layer, role,
                                   {.name = name,
                                    .from = stored,
                                    .to = reader,
                                    .readings = need.readings,
                                    .fill = need.fill,
                                    .differentiable = grad,
                                    .read = read}));
    *reading->mutable_reader() = ToProto(reader);
    for (const auto& entry : need.readings) {
      *reading->add_dim() = ToProto(entry.first, entry.second);
      // A selection reads cells anywhere, so it has no halo.
      if (read.Parts(entry.first) == 1 || entry.second.As<IndexSelection>() != nullptr) continue;
      *layer.add_halo() = HaloOf(read, entry.first, entry.second, reader);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ProgramBuilder::ParameterIndex(const std::string& name, const ParameterNeed& need,
                                                        const Layer& spec) {
  const LayoutPlan home = ToProto(need.home);
  for (int i = 0; i < plan_.parameter_size(); ++i) {
    const ParameterPlan& known = plan_.parameter(i);
    if (known.name() != name) continue;
    if (known.home().SerializeAsString() == home.SerializeAsString()) return i;
    return InvalidSpec("parameter \"", name, "\" would have another shape or home in program \"", request_.name,
                       "\" than in the others");
  }
  ParameterPlan* parameter = plan_.add_parameter();
  parameter->set_name(name);
  *parameter->mutable_home() = home;
  parameter->set_fan_in(need.fan_in);
  parameter->set_frozen(spec.frozen() || need.buffer);
  parameter->set_buffer(need.buffer);
  parameter->mutable_stored_shape()->Add(need.stored_shape.begin(), need.stored_shape.end());
  if (need.initial.has_value()) {
    parameter->mutable_init()->set_kind("constant");
    parameter->mutable_init()->set_value(*need.initial);
  }
  if (spec.has_init() && IsWeight(need.role)) {
    const std::vector<int64_t>& stored = need.stored_shape.empty() ? need.home.shape() : need.stored_shape;
    ADJOIN_RETURN_IF_ERROR(AtField("init", CheckInit(spec.init(), stored)));
    *parameter->mutable_init() = spec.init();
  } else if (need.init.has_value()) {
    *parameter->mutable_init() = *need.init;
  }
  return plan_.parameter_size() - 1;
}

absl::StatusOr<bool> ProgramBuilder::AddParameters(const LayerOutcome& outcome, LayerPlan& layer) {
  bool trained = false, initialised = false;
  for (const ParameterNeed& need : outcome.parameter) initialised = initialised || IsWeight(need.role);
  if (outcome.spec.has_init() && !initialised) {
    return AtField("init",
                   InvalidSpec("init is for a layer with a weight, which this one does not have; leave it out"));
  }
  for (const ParameterNeed& need : outcome.parameter) trained = trained || (!need.buffer && !outcome.spec.frozen());
  const bool shares = !outcome.spec.weights_of().empty();
  if (shares || owners_.count(layer.name()) > 0) needs_[layer.name()] = outcome.parameter;
  if (shares) return trained;
  ADJOIN_RETURN_IF_ERROR(CheckParameterNames(outcome.spec, outcome.parameter));
  for (const ParameterNeed& need : outcome.parameter) {
    const std::string name = ParameterName(outcome.spec, need.role);
    const auto [owner, fresh] = layer_of_.emplace(name, layer.name());
    if (!fresh) {
      const bool named = outcome.spec.parameter_name().count(need.role) > 0;
      return AtField(named ? "parameter_name" : "name",
                     InvalidSpec("its parameter \"", name, "\" has the name of one of layer \"", owner->second,
                                 named ? "\"; give it another one" : "\"; rename one of the two layers"));
    }
    ADJOIN_ASSIGN_OR_RETURN(const uint32_t index, ParameterIndex(name, need, outcome.spec));
    ParameterUse* use = layer.add_parameter();
    use->set_role(need.role);
    use->set_index(index);
    ADJOIN_RETURN_IF_ERROR(AddRole(layer, need.role,
                                   {.name = name,
                                    .from = need.home,
                                    .to = need.needed,
                                    .differentiable = trained && !need.buffer && request_.training}));
  }
  return trained;
}

absl::Status ProgramBuilder::AddSharedParameters() {
  for (int i = 0; i < program_.layer_size(); ++i) {
    const std::string& owner = context_.spec.layer(i).weights_of();
    if (owner.empty()) continue;
    const absl::Status added =
        AddSharedParameters(context_.spec.layer(layer_index_.at(owner)), *program_.mutable_layer(i));
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("layer[", i, "]"), AtField("weights_of", added)));
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddSharedParameters(const Layer& owner, LayerPlan& layer) {
  const std::vector<ParameterNeed>& owned = needs_.at(owner.name());
  const std::vector<ParameterNeed>& needed = needs_.at(layer.name());
  // A module's own buffer does not change, unlike running statistics.
  ADJOIN_RETURN_IF_ERROR(CheckSharedParameters(owner.name(), owned, needed, !owner.has_parameter()));
  const int before = layer.op_size();
  for (const ParameterUse& use : program_.layer(layer_index_.at(owner.name())).parameter()) {
    *layer.add_parameter() = use;
    // From the one home: what both uses send back is summed there.
    ADJOIN_RETURN_IF_ERROR(AddRole(layer, use.role(),
                                   {.name = absl::StrCat(layer.name(), ".", use.role()),
                                    .from = FindNeed(owned, use.role())->home,
                                    .to = FindNeed(needed, use.role())->needed,
                                    .differentiable = !owner.frozen() && request_.training}));
  }
  // The output's movement is a layer's last.
  for (int i = 0; i < before; ++i) {
    if (layer.op(i).role() != kRoleOutput) continue;
    std::rotate(layer.mutable_op()->begin() + i, layer.mutable_op()->begin() + i + 1, layer.mutable_op()->end());
    break;
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddInnerMovements(const LayerOutcome& outcome, LayerPlan& layer) {
  bool grad = false;
  for (uint32_t input : layer.input()) grad = grad || (request_.training && program_.value(input).needs_grad());
  bool trained = false;
  for (const ParameterNeed& need : outcome.parameter) {
    trained = trained || (request_.training && !need.buffer && !outcome.spec.frozen());
  }
  for (const MovementNeed& need : outcome.movement) {
    layer.add_role(need.role);
    if (need.backward && !grad && !trained) continue;
    ADJOIN_RETURN_IF_ERROR(AddRole(layer, need.role,
                                   {.name = absl::StrCat(layer.name(), ".", need.role),
                                    .from = need.from,
                                    .to = need.to,
                                    .readings = need.readings,
                                    .differentiable = (grad || (trained && need.of_parameters)) && !need.constant,
                                    .source = need.source}));
    for (const auto& entry : need.readings) {
      if (need.source.count(entry.first) > 0) {
        *layer.add_halo() = HaloOf(need.from, entry.first, entry.second, need.to);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddLayer(int index) {
  Layer spec = context_.spec.layer(index);
  if (spec.input().empty()) {
    if (index == 0) {
      return InvalidSpec("input is missing: the first layer reads a field of data set \"", request_.dataset->name(),
                         "\"");
    }
    spec.add_input(context_.spec.layer(index - 1).name());
  }
  if (spec.owner() >= context_.spec.ranks()) {
    return AtField("owner", InvalidSpec("rank ", spec.owner(), " is to own the parameters, but the job has ranks 0 to ",
                                        context_.spec.ranks() - 1));
  }
  const auto shape_of = [this](const std::string& layer) { return layouts_[by_layer_.at(layer)].shape(); };
  ADJOIN_RETURN_IF_ERROR(context_.complete_layer(index, shape_of, &spec));
  if (spec.x_size() > spec.input_size()) {
    return AtField("x", InvalidSpec("x names ", spec.x_size(), " layouts for ", spec.input_size(), " inputs"));
  }
  std::vector<uint32_t> inputs;
  std::vector<Layout> x;  // P_x
  for (int i = 0; i < spec.input_size(); ++i) {
    const std::string named = i < spec.x_size() ? spec.x(i) : "";
    auto input = InputOf(spec, spec.input(i), named);
    if (!input.ok())
      return AtField(FieldOf(input.status()).empty() ? absl::StrCat("input[", i, "]") : "", input.status());
    inputs.push_back(*input);
    const Layout& stored = layouts_[*input];
    if (named.empty()) {
      x.push_back(stored);
      continue;
    }
    auto layout = context_.layouts.Resolve(named, stored.shape(), stored.dtype());
    if (!layout.ok()) return AtField(absl::StrCat("x[", i, "]"), layout.status());
    x.push_back(*std::move(layout));
  }
  const LayerRule* rule = context_.rules.Find(KindOf(spec));
  // Only the layers that the user wrote have been checked for a rule.
  if (rule == nullptr) return NotSupportedYet(KindOf(spec));
  const LayerRequest request = {.spec = spec,
                                .input = x,
                                .layouts = context_.layouts,
                                .parameter_dtype = context_.parameter_dtype,
                                .training = request_.training,
                                .compute_dtype = context_.dtype};
  ADJOIN_ASSIGN_OR_RETURN(LayerOutcome outcome, (*rule)(request));
  if (outcome.input.size() != inputs.size()) {
    return absl::InternalError(absl::StrCat("the rule of ", KindOf(spec), " answered for another number of inputs"));
  }
  if (!spec.weights_of().empty()) {
    outcome.spec.set_frozen(context_.spec.layer(layer_index_.at(spec.weights_of())).frozen());
  }

  LayerPlan layer;
  layer.set_name(spec.name());
  *layer.mutable_spec() = outcome.spec;
  layer.mutable_input()->Add(inputs.begin(), inputs.end());
  *layer.mutable_compute() = ToProto(outcome.compute);
  layer.set_flops(outcome.flops);
  ADJOIN_RETURN_IF_ERROR(AddInputRoles(outcome, inputs, x, layer));
  ADJOIN_RETURN_IF_ERROR(AddInnerMovements(outcome, layer));
  ADJOIN_ASSIGN_OR_RETURN(bool needs_grad, AddParameters(outcome, layer));
  for (uint32_t input : inputs) needs_grad = needs_grad || program_.value(input).needs_grad();
  needs_grad = needs_grad && request_.training && IsFloatingPoint(outcome.output.dtype());
  ADJOIN_RETURN_IF_ERROR(AddRole(layer, kRoleOutput,
                                 {.name = absl::StrCat(spec.name(), ".y"),
                                  .from = outcome.compute,
                                  .to = outcome.output,
                                  .differentiable = needs_grad}));
  by_layer_[spec.name()] = AddValue(spec.name(), outcome.output, needs_grad, "");
  layer.set_output(by_layer_[spec.name()]);
  *program_.add_layer() = std::move(layer);
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddLoss(int index) {
  const Loss& spec = context_.spec.loss(index);
  const uint32_t input = by_layer_.at(spec.input());
  const Layout prediction = layouts_[input];
  DType dtype = LossType(context_.dtype);
  auto shape = FieldShape(spec.target(), absl::StrCat("loss ", index), &dtype);
  if (!shape.ok()) return AtField("target", shape.status());
  LossRequest request = {
      .spec = spec, .prediction = prediction, .target_shape = *std::move(shape), .target_dtype = dtype};
  LossPlan loss;
  if (!spec.variance().empty()) {
    loss.set_variance(by_layer_.at(spec.variance()));
    request.variance = &layouts_[loss.variance()];
  }
  ADJOIN_ASSIGN_OR_RETURN(LossOutcome outcome, ApplyLossRule(request));
  *loss.mutable_spec() = outcome.spec;
  loss.set_input(input);
  const LossMovement to_loss = {
      .role = kRolePrediction, .from = prediction, .to = outcome.prediction, .differentiable = true};
  outcome.movement.insert(outcome.movement.begin(), to_loss);
  for (const LossMovement& movement : outcome.movement) {
    loss.add_role(movement.role);
    const uint32_t moved = movement.role == kRoleVariance ? loss.variance() : input;
    const bool grad = movement.differentiable && request_.training && program_.value(moved).needs_grad();
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<uint32_t> op,
                            AddOperator({.name = absl::StrCat("loss", index, ".", movement.role),
                                         .from = movement.from,
                                         .to = movement.to,
                                         .differentiable = grad}));
    if (!op.has_value()) continue;
    OperatorUse* use = loss.add_op();
    use->set_role(movement.role);
    use->set_index(*op);
  }
  ADJOIN_ASSIGN_OR_RETURN(const uint32_t target, FieldValue(spec.target(), outcome.target));
  loss.set_target(target);
  *program_.add_loss() = std::move(loss);
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddOutput(const std::string& layer) {
  const uint32_t value = by_layer_.at(layer);
  const Layout& stored = layouts_[value];
  ADJOIN_RETURN_IF_ERROR(CheckWrittenShape(context_.spec.predict(), layer, stored.shape()));
  ADJOIN_ASSIGN_OR_RETURN(Layout written, FirstCopy(stored));
  if (context_.spec.predict().classes()) {
    ADJOIN_ASSIGN_OR_RETURN(written, WholeDim(written, 1));
  }
  OutputPlan output;
  output.set_value(value);
  *output.mutable_layout() = ToProto(written);
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<uint32_t> op,
                          AddOperator({.name = absl::StrCat(layer, ".written"), .from = stored, .to = written}));
  if (op.has_value()) {
    output.mutable_op()->set_role("written");
    output.mutable_op()->set_index(*op);
  }
  *program_.add_output() = std::move(output);
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddReport() {
  std::vector<int> ranks(context_.spec.ranks());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  int64_t numbers = StepSums::kNumbers;
  if (!request_.training) {
    ADJOIN_ASSIGN_OR_RETURN(const EvaluationNumbers evaluation, EvaluationNumbers::Create(context_.spec, program_));
    numbers = std::max(numbers, evaluation.size());
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole, Layout::Replicated({numbers}, DType::kFloat64, std::move(ranks)));
  ADJOIN_ASSIGN_OR_RETURN(const Layout partial, whole.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<uint32_t> op,
                          AddOperator({.name = "report", .from = partial, .to = whole}, /*even_if_idle=*/true));
  program_.set_report_op(*op);
  return absl::OkStatus();
}

}  // namespace adjoin
