// Changes nothing but the layout (DistDL's transpose): a builder for the registry.
//
//   registry.Register("repartition", BuildRepartition);
#ifndef ADJOIN_LAYERS_REPARTITION_H_
#define ADJOIN_LAYERS_REPARTITION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildRepartition(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_REPARTITION_H_
