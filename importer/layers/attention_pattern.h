// torch.nn.MultiheadAttention of one tensor, batch first, as it stands in an exported graph: some twenty operators that
// are one layer.
//
//   for (const AttentionPattern& found : FindAttention(graph)) {
//     found.nodes;                                   // leave these out ...
//     absl::Status status = AddAttention(graph, found, builder);   // ... and add this in place of found.last
//   }
//
//   x  transpose  linear (in_proj)  unflatten  unsqueeze  transpose  squeeze  contiguous  select 0, 1, 2
//   of each: view  transpose  view;   scaled_dot_product_attention
//   permute  view  linear (out_proj)  view  transpose
//
// Source: multi_head_attention_forward in torch/nn/functional.py of PyTorch 2.
#ifndef ADJOIN_IMPORTER_LAYERS_ATTENTION_PATTERN_H_
#define ADJOIN_IMPORTER_LAYERS_ATTENTION_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {

struct AttentionPattern {
  std::set<size_t> nodes;            // all of them, by their index
  size_t last = 0;                   // the one whose output is the layer's
  std::string input;                 // a value [batch, length, features]
  size_t in_proj = 0, out_proj = 0;  // the two linear operators
  int64_t heads = 0;
  bool causal = false;
};

// Finds what certainly is such a module; what differs in any operator, as with a mask, is not found.
std::vector<AttentionPattern> FindAttention(const OpGraph& graph);

// Errors: as LayerBuilder::Add.
absl::Status AddAttention(const OpGraph& graph, const AttentionPattern& pattern, LayerBuilder& builder);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_ATTENTION_PATTERN_H_
