// Builds `attention`: torch.nn.MultiheadAttention, batch first, over any cut of batch, sequence and heads; without
// projections torch.nn.functional.scaled_dot_product_attention of all heads.
//
// AttentionRule (layers/attention/attention_rule.h) tells what is where.
// Errors: kInvalidArgument for a plan that AttentionRule did not make.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/attention/attention_inputs.h"
#include "layers/attention/attention_roles.h"
#include "layers/attention/block_attention.h"
#include "layers/attention/heads.h"
#include "layers/attention/ring_attention.h"
#include "layers/layer.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/movement.h"
#include "primitives/random/philox.h"
#include "primitives/tape.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using at::Tensor;

// Where this rank's queries and keys are in the whole.
struct OwnPart {
  int64_t batch = 0, head = 0, query = 0;  // indices of the first ones here
  int64_t heads = 0, queries = 0;          // global
  std::vector<int64_t> first_key;
  int64_t part = 0;
  bool inside = false;  // the mesh
};

class AttentionLayer : public LayerModule {
 public:
  AttentionLayer(LayerContext context, OwnPart own) : LayerModule(std::move(context)), own_(std::move(own)) {}

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const int attended = AttendedInputs(spec().attention(), static_cast<int>(inputs.size()));
    const Tensor x = Input(inputs, 0, tape);
    const Tensor keys = attended > 1 ? Input(inputs, 1, tape) : x;
    const Tensor values = attended > 2 ? Input(inputs, 2, tape) : keys;
    const Tensor score_bias = spec().attention().score_bias() ? Input(inputs, attended, tape) : Tensor();
    if (!HasProjections(spec().attention())) return Output(AttendAsRead(x, keys, values, score_bias, tape), tape);
    const InWeights w = ReadInWeights(x.scalar_type(), tape);
    const Tensor bias = Cast(Parameter(kRoleInProjBias, tape), x.scalar_type());
    const auto bias_of = [&](int64_t from, int64_t count) {
      return bias.defined() && own_.inside ? bias.narrow(0, from, count) : bias;
    };
    // Outside the mesh all are empty, without as many dims of one.
    const Tensor q = ToHeads(x, w.q, bias_of(0, 1));
    // In one product where keys and values are made of one tensor.
    const Tensor kv = attended < 3 ? ToHeads(keys, w.kv.defined() ? w.kv : at::cat({w.k, w.v}), bias_of(1, 2))
                                   : at::cat({ToHeads(keys, w.k, bias_of(1, 1)), ToHeads(values, w.v, bias_of(2, 1))});
    Tensor y = own_.inside ? Attend(Ring(), q[0] * Scale(), kv.unsqueeze(0), score_bias, tape)
                           : Attend(Ring(), q.reshape({0, 0, 0, 0}), kv.reshape({0, 0, 0, 0, 0, 0}), score_bias, tape);
    y = FromHeads(y, Cast(Parameter(kRoleOutProjWeight, tape), x.scalar_type()));
    const Tensor out_bias = Cast(Parameter(kRoleOutProjBias, tape), x.scalar_type());
    if (out_bias.defined() && out_bias.numel() > 0) y = y + out_bias;
    return Output(y, tape);
  }

 private:
  static Tensor Cast(const Tensor& parameter, at::ScalarType type) {
    return parameter.defined() ? parameter.to(type) : parameter;
  }

  // The features of an input, those of all heads.
  int64_t WidthOf(int input) const { return context().input_shapes[input][2] / spec().attention().heads(); }

  double Scale() const {
    const Attention& attention = spec().attention();
    return attention.has_scale() ? attention.scale() : 1 / std::sqrt(static_cast<double>(WidthOf(0)));
  }

  // The inputs are queries, keys and values of this rank's heads, one head after the other.
  Tensor AttendAsRead(const Tensor& x, const Tensor& keys, const Tensor& values, const Tensor& score_bias, Tape& tape) {
    const int64_t width = WidthOf(0);
    const int64_t value_width =
        WidthOf(AttendedInputs(spec().attention(), static_cast<int>(context().input_shapes.size())) - 1);
    const std::shared_ptr<RingAttention> ring = Ring();
    if (width != value_width) ring->key_width = width;
    if (!own_.inside) {
      const std::vector<int64_t> none(6, 0);
      const Tensor y =
          Attend(ring, x.reshape({0, 0, 0, 0}), at::cat({keys.reshape(none), values.reshape(none)}), score_bias, tape);
      return y.reshape({0, 0, 0});
    }
    const Tensor k = HeadsOf(keys, width), v = HeadsOf(values, value_width);
    const Tensor packed = width == value_width ? at::stack({k, v}) : at::cat({k, v}, -1).unsqueeze(0);
    const Tensor y = Attend(ring, HeadsOf(x, width).contiguous() * Scale(), packed.unsqueeze(0), score_bias, tape);
    return y.transpose(1, 2).reshape({x.size(0), x.size(1), y.size(1) * value_width});
  }

  // Each [1, heads, width, features of what it reads]; `kv`: keys' and values' together, where one parameter has both.
  struct InWeights {
    Tensor q, k, v, kv = {};
  };

  InWeights ReadInWeights(at::ScalarType type, Tape& tape) {
    const Tensor all = Cast(Parameter(kRoleInProjWeight, tape), type);
    if (all.defined()) {
      if (!own_.inside) return {all, all, all, all};
      return {all.narrow(0, 0, 1), all.narrow(0, 1, 1), all.narrow(0, 2, 1), all.narrow(0, 1, 2)};
    }
    const Tensor q = Cast(Parameter(kRoleQProjWeight, tape), type), k = Cast(Parameter(kRoleKProjWeight, tape), type);
    const Tensor v = Cast(Parameter(kRoleVProjWeight, tape), type);
    const int64_t projections = own_.inside ? 1 : 0;
    const auto of_one = [&](const Tensor& weight) { return weight.unsqueeze(0).narrow(0, 0, projections); };
    return {of_one(q), of_one(k), of_one(v)};
  }

  // The attention of the pass that runs.
  std::shared_ptr<RingAttention> Ring() const {
    BlockAttention::Options options;
    options.causal = spec().attention().causal();
    options.first_batch = own_.batch;
    options.first_head = own_.head;
    options.first_query = own_.query;
    if (context().training && spec().attention().dropout() > 0) {
      options.dropout = WeightDropout{Draws(kPurposeDropout),
                                      place().first_sample,
                                      {context().input_shapes[0][0], own_.heads, own_.queries, own_.first_key.back()},
                                      spec().attention().dropout()};
    }
    // From `first` on, as the rule names them; those of the backward pass in training alone.
    const auto moves = [&](std::string (*role)(int64_t), size_t first, bool named) {
      std::vector<std::shared_ptr<Movement>> found(own_.first_key.size());
      for (size_t step = first; named && step + 1 < own_.first_key.size(); ++step) {
        found[step] = MovementOf(role(static_cast<int64_t>(step)));
      }
      return found;
    };
    const bool training = context().training;
    return std::make_shared<RingAttention>(RingAttention{moves(RingRole, 1, true), moves(RingBackRole, 2, training),
                                                         moves(RingGradientRole, 1, training), own_.first_key,
                                                         own_.part, BlockAttention(std::move(options))});
  }

  const OwnPart own_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildAttention(LayerContext context) {
  if (context.plan.reading_size() != context.plan.input_size() || context.plan.reading_size() < 1) {
    return absl::InvalidArgumentError("the plan does not say where heads and keys are");
  }
  const int attended = AttendedInputs(context.plan.spec().attention(), context.plan.input_size());
  if (attended < 1 || attended > context.plan.input_size()) {
    return absl::InvalidArgumentError("the plan does not name what attends");
  }
  // [batch, queries, heads] and [batch, keys, features], of the values where they are an input of their own.
  ADJOIN_ASSIGN_OR_RETURN(const Layout queries, LayoutFromProto(context.plan.reading(0).reader()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout keys, LayoutFromProto(context.plan.reading(attended - 1).reader()));
  OwnPart own;
  own.queries = queries.shape()[1];
  own.heads = queries.shape()[2];
  own.first_key = keys.Boundaries(1);
  const auto coords = queries.mesh().CoordsOf(context.rank);
  own.inside = coords.has_value();
  if (own.inside) {
    const Box box = queries.BoxOf(context.rank);
    own.batch = box[0].lo;
    own.query = box[1].lo;
    own.head = box[2].lo;
    own.part = keys.PartOf(1, *coords);
  }
  return std::make_unique<AttentionLayer>(std::move(context), std::move(own));
}

}  // namespace adjoin
