// Attention of queries, keys and values that are made elsewhere: scaled_dot_product_attention, and the same written as
// products of matrices with a softmax between them, as one layer without projections.
//
//   for (const AttentionChain& found : FindAttentionChains(graph)) {
//     found.nodes;                                                    // leave these out ...
//     absl::Status status = AddAttentionChain(graph, found, builder);    // ... and add this in place of found.last
//   }
#ifndef ADJOIN_IMPORTER_LAYERS_ATTENTION_PRODUCT_H_
#define ADJOIN_IMPORTER_LAYERS_ATTENTION_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {

// A product of matrices, by matmul or einsum: the order of each tensor's dims in which the last two are its matrices,
// and that of the result's dims. Empty where they are in this order.
struct MatrixProduct {
  std::vector<int64_t> left, right, result;
};

// softmax(factor * query @ key_turned + masks) @ value; key_turned is [..., features, keys].
struct AttentionChain {
  std::set<size_t> nodes;  // all of them, by their index
  size_t last = 0;         // the one whose output is the layer's
  std::string query, key_turned, value;
  std::vector<size_t> factors;      // operators that multiply or divide the scores by a number
  std::vector<size_t> masks;        // those that add to them, or fill them
  std::vector<std::string> scores;  // of each mask: its argument that is the scores
  std::optional<MatrixProduct> score_product, value_product;  // of query and key_turned, of the weights and value
  double dropout = 0;
};

// Finds what has this form, and of which nothing but the result is read.
std::vector<AttentionChain> FindAttentionChains(const OpGraph& graph);

// Errors: kInvalidArgument, where it is no such layer after all: a mask that depends on the input or is not of minus
// infinity, numbers that are not known. Nothing has been added then but layers that change shapes.
absl::Status AddAttentionChain(const OpGraph& graph, const AttentionChain& chain, LayerBuilder& builder);

// The rule of scaled_dot_product_attention.
absl::Status ScaledDotProductAttention(const OpNode& node, LayerBuilder& builder);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_ATTENTION_PRODUCT_H_
