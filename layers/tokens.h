// The same trained vectors for every sample: a builder for the registry.
//
//   registry.Register("tokens", BuildTokens);
//
// Local shapes: x [samples, ..., features], y [samples, count, features], the parameter "weight" [count, features]. x, whose
// values do not count, gets a gradient of zeros: it stays in the graph, so that all ranks' graphs are alike.
#ifndef ADJOIN_LAYERS_TOKENS_H_
#define ADJOIN_LAYERS_TOKENS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildTokens(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_TOKENS_H_
