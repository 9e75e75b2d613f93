#include "layers/registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/batch_norm.h"
#include "layers/concat.h"
#include "layers/conv.h"
#include "layers/crop_pad.h"
#include "layers/flatten.h"
#include "layers/linear.h"
#include "layers/plan/layer_kind.h"
#include "layers/pool.h"
#include "layers/repartition.h"
#include "layers/softmax.h"
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
  registry.Register("concat", BuildConcat);
  registry.Register("conv", BuildConv);
  registry.Register("crop", BuildCropPad);
  registry.Register("flatten", BuildFlatten);
  registry.Register("linear", BuildLinear);
  registry.Register("norm", BuildBatchNorm);
  registry.Register("pad", BuildCropPad);
  registry.Register("pool", BuildPool);
  registry.Register("repartition", BuildRepartition);
  registry.Register("softmax", BuildSoftmax);
  registry.Register("upsample", BuildUpsample);
  return registry;
}

}  // namespace adjoin
