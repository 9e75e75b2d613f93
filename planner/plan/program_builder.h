// One program of a plan: values, operators, layers and losses for a batch of one size.
//
//   const ProgramRequest request = {.name = "train", .training = true, .dataset = &dataset, .batch = 64};
//   ProgramBuilder builder(context, request, &ids, &plan);
//   ADJOIN_RETURN_IF_ERROR(builder.Build());   // appends to plan.program, and to plan.parameter what is new there
//
// Operators get their ids in the order in which they are made, so programs are built one after another.
#ifndef ADJOIN_PLANNER_PLAN_PROGRAM_BUILDER_H_
#define ADJOIN_PLANNER_PLAN_PROGRAM_BUILDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/named_layouts.h"
#include "planner/plan/operator_ids.h"
#include "planner/plan/operator_plan.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

// What all programs of a plan share.
struct PlanContext {
  const JobSpec& spec;
  const NamedLayouts& layouts;
  const LayerRules& rules;
  DType dtype;  // of activations
  DType parameter_dtype;
  // Returns the shape of an earlier layer's output.
  using ShapeOf = std::function<std::vector<int64_t>(const std::string& layer)>;
  // Fills in what layer `index` of `spec` takes from the shapes of earlier layers, before its rule sees it.
  // Errors: at the layer's field.
  std::function<absl::Status(int index, const ShapeOf& shape_of, Layer* layer)> complete_layer;
};

struct ProgramRequest {
  std::string name;
  bool training = false;
  const Dataset* dataset = nullptr;
  int64_t batch = 0;
  bool with_losses = true;
  bool with_outputs = false;  // writes the layers that JobSpec.predict names
};

class ProgramBuilder {
 public:
  ProgramBuilder(const PlanContext& context, ProgramRequest request, OperatorIds* ids, Plan* plan)
      : context_(context), request_(std::move(request)), ids_(*ids), plan_(*plan) {}

  // Errors: kInvalidArgument and kUnimplemented, at the field (spec_error.h).
  absl::Status Build();

 private:
  absl::Status AddLayer(int index);
  absl::Status AddLoss(int index);
  absl::Status AddOutput(const std::string& layer);
  absl::Status AddReport();
  // Returns the operator's index in ProgramPlan.op; absent where the movement would change nothing.
  absl::StatusOr<std::optional<uint32_t>> AddOperator(const OperatorRequest& movement, bool even_if_idle = false);
  absl::Status AddRole(LayerPlan& layer, const std::string& role, const OperatorRequest& movement);
  uint32_t AddValue(const std::string& name, const Layout& layout, bool needs_grad, const std::string& field);

  // Both return an index in ProgramPlan.value: an earlier layer's output, or a field read in the layout that x names.
  absl::StatusOr<uint32_t> InputOf(const Layer& layer, const std::string& name, const std::string& x);
  absl::StatusOr<uint32_t> FieldValue(const std::string& name, const Layout& layout);
  // Returns the shape of a batch of the field `name`. `reader`: names the layer or loss that reads it, for messages.
  // `*dtype`: the type in which it reads numbers; becomes the field's. Errors: kInvalidArgument, naming the data set's
  // fields.
  absl::StatusOr<std::vector<int64_t>> FieldShape(const std::string& name, absl::string_view reader, DType* dtype);

  absl::Status AddInputRoles(const LayerOutcome& outcome, const std::vector<uint32_t>& inputs,
                             const std::vector<Layout>& x, LayerPlan& layer);
  // Returns true where any parameter of the layer is trained.
  absl::StatusOr<bool> AddParameters(const LayerOutcome& outcome, LayerPlan& layer);
  absl::StatusOr<uint32_t> ParameterIndex(const std::string& name, const ParameterNeed& need, const Layer& spec);
  // Gives the layers that use other layers' parameters their movements, once all layers are known: the owner may stand
  // after them.
  absl::Status AddSharedParameters();
  absl::Status AddSharedParameters(const Layer& owner, LayerPlan& layer);
  absl::Status AddInnerMovements(const LayerOutcome& outcome, LayerPlan& layer);

  const PlanContext& context_;
  const ProgramRequest request_;
  OperatorIds& ids_;
  Plan& plan_;
  ProgramPlan program_;
  std::vector<Layout> layouts_;                  // of program_.value, in its order
  std::map<std::string, uint32_t> by_layer_;     // by layer: the index of its output in program_.value
  std::map<std::string, std::string> layer_of_;  // by parameter: its layer
  std::map<std::string, int> layer_index_;       // by layer, of all: the index in the spec, and in program_.layer
  std::set<std::string> owners_;                 // layers whose parameters others use
  std::map<std::string, std::vector<ParameterNeed>> needs_;  // by layer, of `owners_` and of those that use them
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PROGRAM_BUILDER_H_
