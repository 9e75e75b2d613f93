#include "layers/registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/attention/attention.h"
#include "layers/attention/window_attention.h"
#include "layers/concat.h"
#include "layers/conv.h"
#include "layers/crop_pad.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/expand.h"
#include "layers/linear.h"
#include "layers/multiply.h"
#include "layers/permute.h"
#include "layers/pixel_shuffle.h"
#include "layers/norm.h"
#include "layers/noise.h"
#include "layers/plan/layer_kind.h"
#include "layers/pool.h"
#include "layers/position.h"
#include "layers/repartition.h"
#include "layers/reshape.h"
#include "layers/softmax.h"
#include "layers/tokens.h"
#include "layers/upsample.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> LayerRegistry::Build(LayerContext context) const {
  const std::string name = context.plan.name();
  const std::string kind = KindOf(context.plan.spec());
  auto builder = builders_.find(kind);
  if (builder == builders_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer \"", name, "\": no builder for kind \"", kind, "\"; known: ",
        absl::StrJoin(builders_, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); })));
  }
  auto module = builder->second(std::move(context));
  if (!module.ok()) {
    return absl::Status(module.status().code(), absl::StrCat("layer \"", name, "\": ", module.status().message()));
  }
  return module;
}

LayerRegistry BuiltinLayers() {
  LayerRegistry registry;
  registry.Register("activation", BuildActivation);
  registry.Register("add", BuildAdd);
  registry.Register("attention", BuildAttention);
  registry.Register("concat", BuildConcat);
  registry.Register("conv", BuildConv);
  registry.Register("crop", BuildCropPad);
  registry.Register("dropout", BuildDropout);
  registry.Register("embedding", BuildEmbedding);
  registry.Register("expand", BuildExpand);
  registry.Register("flatten", BuildReshape);
  registry.Register("flip", BuildCropPad);
  registry.Register("index_select", BuildCropPad);
  registry.Register("linear", BuildLinear);
  registry.Register("multiply", BuildMultiply);
  registry.Register("noise", BuildNoise);
  registry.Register("norm", BuildNorm);
  registry.Register("pad", BuildCropPad);
  registry.Register("permute", BuildPermute);
  registry.Register("pixel_shuffle", BuildPixelShuffle);
  registry.Register("pixel_unshuffle", BuildPixelUnshuffle);
  registry.Register("pool", BuildPool);
  registry.Register("position", BuildPosition);
  registry.Register("repartition", BuildRepartition);
  registry.Register("repeat", BuildCropPad);
  registry.Register("reshape", BuildReshape);
  registry.Register("roll", BuildCropPad);
  registry.Register("softmax", BuildSoftmax);
  registry.Register("tokens", BuildTokens);
  registry.Register("upsample", BuildUpsample);
  registry.Register("window_attention", BuildWindowAttention);
  return registry;
}

}  // namespace adjoin
