// torch.nn.Embedding of int64 indices [...]: vectors [..., dim] of a table [num_embeddings, dim].
//
// With w, a layout of the table: indices go to the ranks of w, the same for all parts of the table. Along axes that cut its
// rows each rank looks up those that it has, zeros standing for the others: partial sums, which y adds up. Along axes that
// cut its columns the vectors are cut. Axes along which w is the same (B) cut the batch, or what the input cuts along them.
// Absent y: along rows cut as the input is where that is on the same mesh, else the same on all ranks.
//
// Without w, every rank has the table, or of its columns what y cuts along axes of the same mesh along which the input is the
// same. Absent y: cut like the input.
#ifndef ADJOIN_LAYERS_PLAN_EMBEDDING_RULE_H_
#define ADJOIN_LAYERS_PLAN_EMBEDDING_RULE_H_

#include "layers/plan/layer_rule.h"

namespace adjoin {

class EmbeddingRule : public LayerRule {
 public:
  absl::StatusOr<LayerOutcome> Apply(const LayerRequest& request) const override;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_PLAN_EMBEDDING_RULE_H_
