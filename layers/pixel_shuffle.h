// torch.nn.PixelShuffle and PixelUnshuffle over any number of spatial dims: builders for the registry.
//
//   registry.Register("pixel_shuffle", BuildPixelShuffle);        // [n, c r^k, h, w] -> [n, c, h r, w r]
//   registry.Register("pixel_unshuffle", BuildPixelUnshuffle);    // [n, c, h r, w r] -> [n, c r^k, h, w]
//
// The plan cuts the local tensor between groups of r^k channels, or between blocks of r pixels per dim.
#ifndef ADJOIN_LAYERS_PIXEL_SHUFFLE_H_
#define ADJOIN_LAYERS_PIXEL_SHUFFLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPixelShuffle(LayerContext context);
absl::StatusOr<std::unique_ptr<LayerModule>> BuildPixelUnshuffle(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PIXEL_SHUFFLE_H_
