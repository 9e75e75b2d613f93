// The rule of `attention`: torch.nn.MultiheadAttention, batch first, of one input or of two.
//
//   ADJOIN_RETURN_IF_ERROR(rules.Register("attention", std::make_unique<AttentionRule>()));
//
// Of Layer.w, a layout of [batch, length, features], the axes that split dim 0 split the batch, those of dim 1 the sequence,
// those of dim 2 the heads. Absent: x's own. Movements "ring<s>", "back<s>", "gradient<s>" (layers/attention/ring_attention.h)
// where the sequence is cut. The builder finds in LayerPlan.reading where [batch, queries, heads] and where the memory lies.
#ifndef ADJOIN_LAYERS_PLAN_ATTENTION_RULE_H_
#define ADJOIN_LAYERS_PLAN_ATTENTION_RULE_H_

#include "absl/status/statusor.h"
#include "layers/plan/layer_rule.h"

namespace adjoin {

class AttentionRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_ATTENTION_RULE_H_
