// Which elements layers may return that are not finite, as far as this follows of the layers before them. A number that
// is written over some elements becomes a product with 0 and a sum, which is the same only where they are finite.
//
// Fields, trained parameters and what overflows are taken as finite.
#ifndef ADJOIN_IMPORTER_LAYERS_LAYER_ELEMENTS_H_
#define ADJOIN_IMPORTER_LAYERS_LAYER_ELEMENTS_H_

#include <string>
#include <vector>

#include "importer/constants/constant_tensor.h"
#include "proto/job.pb.h"

namespace adjoin {

struct LayerElements {
  enum class Kind { kFinite, kMinusInfinity, kUnknown };  // the second one: finite or minus infinity
  enum class Sign { kAny, kNotNegative, kPositive };
  Kind kind = Kind::kFinite;
  Sign sign = Sign::kAny;
  std::string from;  // of what is not finite: the layer where it begins
};

LayerElements ElementsOf(const ConstantTensor& constant);

// Returns what is known of a layer's output. `inputs`: what is known of its inputs; `weight`: of the tensor that a
// layer `parameter` has.
LayerElements ElementsOf(const Layer& layer, const std::vector<LayerElements>& inputs, const LayerElements& weight);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_LAYER_ELEMENTS_H_
