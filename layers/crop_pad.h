// Layers whose outputs each are an element of the input, or zero: pad, crop, roll, flip, repeat, index_select. A builder
// for the registry.
//
//   registry.Register("pad", BuildCropPad);
//   registry.Register("roll", BuildCropPad);
//
// The role "x" brings what this rank's part of the result holds, zeros included: nothing is left to compute.
#ifndef ADJOIN_LAYERS_CROP_PAD_H_
#define ADJOIN_LAYERS_CROP_PAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildCropPad(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CROP_PAD_H_
