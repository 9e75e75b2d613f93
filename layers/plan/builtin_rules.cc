#include "layers/plan/builtin_rules.h"

#include <memory>

#include "base/status_macros.h"
#include "layers/plan/activation_rule.h"
#include "layers/plan/add_rule.h"
#include "layers/plan/batch_norm_rule.h"
#include "layers/plan/concat_rule.h"
#include "layers/plan/conv_rule.h"
#include "layers/plan/crop_pad_rule.h"
#include "layers/plan/flatten_rule.h"
#include "layers/plan/linear_rule.h"
#include "layers/plan/pool_rule.h"
#include "layers/plan/repartition_rule.h"
#include "layers/plan/softmax_rule.h"
#include "layers/plan/upsample_rule.h"

namespace adjoin {

absl::Status AddBuiltinLayerRules(LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(rules.Register("activation", std::make_unique<ActivationRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("add", std::make_unique<AddRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("concat", std::make_unique<ConcatRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("conv", std::make_unique<ConvRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("crop", std::make_unique<CropPadRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("flatten", std::make_unique<FlattenRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("linear", std::make_unique<LinearRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("norm", std::make_unique<BatchNormRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pad", std::make_unique<CropPadRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("pool", std::make_unique<PoolRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("repartition", std::make_unique<RepartitionRule>()));
  ADJOIN_RETURN_IF_ERROR(rules.Register("softmax", std::make_unique<SoftmaxRule>()));
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
