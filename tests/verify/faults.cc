#include "tests/verify/faults.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "layers/builtin/builtin_layers.h"
#include "layers/layer.h"

namespace adjoin {
namespace {

using Change = std::function<void(Plan&, LayerPlan&, ProgramPlan&)>;

// Applies `change` to the layer in every program.
std::function<void(Plan&)> OfLayer(const std::string& layer, Change change) {
  return [layer, change](Plan& plan) {
    bool found = false;
    for (ProgramPlan& program : *plan.mutable_program()) {
      for (LayerPlan& entry : *program.mutable_layer()) {
        if (entry.name() != layer) continue;
        change(plan, entry, program);
        found = true;
      }
    }
    TORCH_CHECK(found, "no layer ", layer);
  };
}

OperatorPlan* FindRole(const std::string& role, const LayerPlan& layer, ProgramPlan& program) {
  for (const OperatorUse& use : layer.op()) {
    if (use.role() == role) return program.mutable_op(static_cast<int>(use.index()));
  }
  TORCH_CHECK(false, "layer ", layer.name(), " has no operator ", role);
}

void ShiftHalo(Plan&, LayerPlan& layer, ProgramPlan& program) {
  WindowPlan& window = *FindRole("x", layer, program)->mutable_reading(0)->mutable_window();
  window.set_pad_lo(window.pad_lo() + 1);
  window.set_pad_hi(window.pad_hi() - 1);
}

void LeaveOutSum(Plan&, LayerPlan& layer, ProgramPlan& program) {
  OperatorPlan& op = *FindRole("y", layer, program);
  for (std::string& placement : *op.mutable_from()->mutable_placement()) {
    if (placement == "P(sum)") placement = "B";
  }
}

void LeaveOutSync(Plan& plan, LayerPlan& layer, ProgramPlan&) {
  for (const ParameterUse& use : layer.parameter()) plan.mutable_parameter(static_cast<int>(use.index()))->clear_sync();
}

// The layer itself between two wrong ends.
class FaultyLayer : public LayerModule {
 public:
  FaultyLayer(LayerContext context, std::unique_ptr<LayerModule> inner, std::string fault)
      : LayerModule(std::move(context)), inner_(std::move(inner)), fault_(std::move(fault)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    if (fault_ == "x") {
      // The same value, twice the gradient.
      std::vector<at::Tensor> doubled = inputs;
      doubled[0] = inputs[0] * 2 - inputs[0].detach();
      return inner_->Forward(doubled, tape);
    }
    const at::Tensor y = inner_->Forward(inputs, tape);
    if (!runs_here()) return y;
    const at::Tensor bias = context().parameters.at("bias").detach();
    std::vector<int64_t> shape(y.dim(), 1);
    shape[1] = -1;
    return y + bias.reshape(shape);
  }

 private:
  std::unique_ptr<LayerModule> inner_;
  const std::string fault_;
};

}  // namespace

void PlantFault(const std::string& fault, const std::string& layer, VerifyOptions& options, LayerRegistry& layers) {
  if (fault == "halo") options.plan_edit = OfLayer(layer, ShiftHalo);
  if (fault == "sum") options.plan_edit = OfLayer(layer, LeaveOutSum);
  if (fault == "sync") options.plan_edit = OfLayer(layer, LeaveOutSync);
  if (fault == "bias" || fault == "x") {
    layers.Register(
        "conv",
        [stock = BuiltinLayers(), layer, fault](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
          auto inner = stock.Build(context);
          if (!inner.ok() || context.plan.name() != layer) return inner;
          return std::make_unique<FaultyLayer>(std::move(context), *std::move(inner), fault);
        });
  } else {
    TORCH_CHECK(options.plan_edit, "no fault \"", fault, "\"");
  }
  options.layers = &layers;
}

}  // namespace adjoin
