// torch.cat of all inputs: a builder for the registry.
//
//   registry.Register("concat", BuildConcat);
//
// Of each input the plan brings to a rank what its part of the result holds, which may be nothing.
#ifndef ADJOIN_LAYERS_CONCAT_H_
#define ADJOIN_LAYERS_CONCAT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConcat(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONCAT_H_
