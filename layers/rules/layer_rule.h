// What the planner knows of a kind of layer: shapes, layouts, parameters and work. Pure; a builder of the same name,
// linked into the ranks, computes.
//
//   LayerRules rules;
//   ADJOIN_RETURN_IF_ERROR(AddBuiltinLayerRules(rules));                              // builtin_rules.h
//   ADJOIN_RETURN_IF_ERROR(rules.Register("sharpen", SharpenRule));                   // Custom.type
//
// A rule is a function. It holds no index arithmetic of movements: it names the layout in which it needs each tensor,
// and the planner inserts and counts the movements. Any thread may call it.
#ifndef ADJOIN_LAYERS_RULES_LAYER_RULE_H_
#define ADJOIN_LAYERS_RULES_LAYER_RULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/rules/named_layouts.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

// What a rule sees.
struct LayerRequest {
  const Layer& spec;
  // The inputs' layouts after Layer.x has been applied (P_x); S and B only.
  const std::vector<Layout>& input;
  const NamedLayouts& layouts;  // resolves Layer.w and Layer.y
  DType parameter_dtype;
  bool training = false;                  // whether the program has a backward pass
  DType compute_dtype = DType::kFloat32;  // the activations' type
};

// What the layer reads of one input.
struct InputNeed {
  // Moved to this layout; absent: read as P_x has it.
  std::optional<Layout> layout = std::nullopt;
  // Per tensor dim: of that layout read what the outputs of `reader` read; `fill` lies outside.
  std::map<int, Reading> readings = {};
  double fill = 0;
  // On the mesh of that layout, with its placements; absent: LayerOutcome::compute. The builder finds it in the plan.
  std::optional<Layout> reader = std::nullopt;
};

struct ParameterNeed {
  std::string role;    // "weight", "bias": its name is "<layer>.<role>"
  Layout home;         // where it lives between steps
  Layout needed;       // where the local kernel reads it
  int64_t fan_in = 0;  // as torch.nn.init computes it for the layer's weight; the bias's bound uses the same
  std::optional<double> initial = std::nullopt;  // what all of it starts as; absent: drawn, from fan_in
  bool buffer = false;                           // state that the layer keeps itself: never trained
  std::optional<Init> init = std::nullopt;       // how it is drawn without Layer.init; not with `initial`
  std::vector<int64_t> stored_shape = {};  // in a state_dict, where that is not home's (ParameterPlan.stored_shape)
};

// What the local kernel moves between its steps. It runs in the backward pass where an input's gradient is needed.
struct MovementNeed {
  std::string role;
  Layout from;
  Layout to;
  bool constant = false;  // no gradient passes through it: it does not run in the backward pass
  // As in OperatorRequest: what the parts of `to` read, and which cells of `from` it starts from.
  std::map<int, Reading> readings = {};
  std::map<int, Reading> source = {};
  // What it moves is made with the layer's parameters: it runs in the backward pass where they are trained, too.
  bool of_parameters = false;
  // Runs in the backward pass only; with `constant`. Left out where no gradient goes through the layer.
  bool backward = false;
};

struct LayerOutcome {
  Layer spec;                    // as written, with the defaults filled in
  std::vector<InputNeed> input;  // one per input
  std::vector<ParameterNeed> parameter = {};
  Layout compute;                           // the layout of what the local kernel returns; P(sum) is allowed
  Layout output;                            // S and B only; moved there from `compute`
  double flops = 0;                         // forward, all ranks
  std::vector<MovementNeed> movement = {};  // in the order of their use
};

// The request has at least one input, and no negative extent.
// Errors: kInvalidArgument, kUnimplemented, the message without the layer's name; AtField adds the place.
using LayerRule = std::function<absl::StatusOr<LayerOutcome>(const LayerRequest& request)>;

// Explicit: nothing registers itself. The kind is the name of Layer.op's field ("conv") or Custom.type.
class LayerRules {
 public:
  // Errors: kAlreadyExists.
  absl::Status Register(std::string kind, LayerRule rule);
  // Null where there is none.
  const LayerRule* Find(absl::string_view kind) const;
  std::vector<std::string> Kinds() const;  // sorted

 private:
  std::map<std::string, LayerRule> rules_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_LAYER_RULE_H_
