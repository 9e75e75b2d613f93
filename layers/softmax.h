// torch.nn.Softmax and LogSoftmax: a builder for the registry.
//
//   registry.Register("softmax", BuildSoftmax);
//
// Over a dim that is cut, each row is shifted by its largest element of all ranks ("max") and divided by the sum of its
// exponentials over all ranks ("sum"). A part without cells has the maximum minus infinity and the sum 0. It can be
// differentiated any number of times. Local shapes: x and y alike; of what moves, 1 in the dim.
// Errors: kInvalidArgument where the plan's layout is none.
#ifndef ADJOIN_LAYERS_SOFTMAX_H_
#define ADJOIN_LAYERS_SOFTMAX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildSoftmax(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SOFTMAX_H_
