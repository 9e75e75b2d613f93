// Builds `attention`: torch.nn.MultiheadAttention, batch first, over any cut of batch, sequence and heads.
//
//   registry.Register("attention", BuildAttention);
//
// AttentionRule (layers/plan/attention_rule.h) says what lies where.
#ifndef ADJOIN_LAYERS_ATTENTION_ATTENTION_H_
#define ADJOIN_LAYERS_ATTENTION_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

// Errors: kInvalidArgument for a plan that AttentionRule did not make.
absl::StatusOr<std::unique_ptr<LayerModule>> BuildAttention(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_ATTENTION_H_
