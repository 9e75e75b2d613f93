// torch.nn.Embedding: a builder for the registry.
//
//   registry.Register("embedding", BuildEmbedding);
//
// Local shapes: x [...] of int64, y [..., columns of this rank]; where the table's rows are cut, y is a partial sum over
// the ranks along them, which the role "y" adds up. An index that the table does not have is an error of each rank that has
// it (kOutOfRange, from Forward). The padding vector gets no gradient. It can be differentiated any number of times.
// Errors: kInvalidArgument where the plan's layouts are none.
#ifndef ADJOIN_LAYERS_EMBEDDING_H_
#define ADJOIN_LAYERS_EMBEDDING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildEmbedding(LayerContext context);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_EMBEDDING_H_
