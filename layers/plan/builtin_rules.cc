#include "layers/plan/builtin_rules.h"

#include <memory>

#include "base/status_macros.h"
#include "layers/plan/activation_rule.h"
#include "layers/plan/add_rule.h"
#include "layers/plan/attention_rule.h"
#include "layers/plan/concat_rule.h"
#include "layers/plan/conv_rule.h"
#include "layers/plan/crop_pad_rule.h"
#include "layers/plan/dropout_rule.h"
#include "layers/plan/embedding_rule.h"
#include "layers/plan/expand_rule.h"
#include "layers/plan/flatten_rule.h"
#include "layers/plan/linear_rule.h"
#include "layers/plan/permute_rule.h"
#include "layers/plan/pixel_shuffle_rule.h"
#include "layers/plan/norm_rule.h"
#include "layers/plan/noise_rule.h"
#include "layers/plan/pool_rule.h"
#include "layers/plan/position_rule.h"
#include "layers/plan/repartition_rule.h"
#include "layers/plan/reshape_rule.h"
#include "layers/plan/selection_rule.h"
#include "layers/plan/softmax_rule.h"
#include "layers/plan/tokens_rule.h"
#include "layers/plan/upsample_rule.h"
#include "layers/plan/window_attention_rule.h"

namespace adjoin {

absl::Status AddBuiltinLayerRules(LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(rules.Register("activation", std::make_unique<ActivationRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("add", std::make_unique<AddRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("attention", std::make_unique<AttentionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("concat", std::make_unique<ConcatRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("conv", std::make_unique<ConvRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("crop", std::make_unique<CropPadRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("dropout", std::make_unique<DropoutRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("embedding", std::make_unique<EmbeddingRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("expand", std::make_unique<ExpandRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("flatten", std::make_unique<FlattenRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("flip", std::make_unique<SelectionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("index_select", std::make_unique<SelectionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("linear", std::make_unique<LinearRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("multiply", std::make_unique<AddRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("noise", std::make_unique<NoiseRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("norm", std::make_unique<NormRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pad", std::make_unique<CropPadRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("permute", std::make_unique<PermuteRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pixel_shuffle", std::make_unique<PixelShuffleRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pixel_unshuffle", std::make_unique<PixelShuffleRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pool", std::make_unique<PoolRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("position", std::make_unique<PositionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("repartition", std::make_unique<RepartitionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("repeat", std::make_unique<SelectionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("reshape", std::make_unique<ReshapeRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("roll", std::make_unique<SelectionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("softmax", std::make_unique<SoftmaxRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("tokens", std::make_unique<TokensRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("window_attention", std::make_unique<WindowAttentionRule>()));
  return rules.Register("upsample", std::make_unique<UpsampleRule>());
}

const LayerRules& BuiltinLayerRules() {
  static const LayerRules* rules = [] {
    auto* made = new LayerRules;
    // Cannot fail: the registry is empty and the names differ.
    AddBuiltinLayerRules(*made).IgnoreError();
    return made;
  }();
  return *rules;
}

}  // namespace adjoin
