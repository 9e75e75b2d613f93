// torchvision's ShiftedWindowAttention (Swin) as it stands in an exported graph: some eighty operators that are one
// layer, found by their module.
//
//   for (const WindowAttentionPattern& found : FindWindowAttention(graph, constants)) {
//     found.nodes;                                          // leave these out ...
//     absl::Status status = AddWindowAttention(graph, found, builder);   // ... and add this in place of found.last
//   }
//
// Source: shifted_window_attention in torchvision/models/swin_transformer.py.
#ifndef ADJOIN_IMPORTER_LAYERS_WINDOW_ATTENTION_PATTERN_H_
#define ADJOIN_IMPORTER_LAYERS_WINDOW_ATTENTION_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "importer/constants/constant_evaluator.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {

struct WindowAttentionPattern {
  std::set<size_t> nodes;  // all of them, by their index
  size_t last = 0;         // the one whose output is the layer's
  std::string input;       // a value [batch, rows, columns, channels]
  std::string table;       // values that are parameters
  std::string qkv_weight, qkv_bias, proj_weight, proj_bias;
  int64_t heads = 0;
  double dropout = 0;  // of the weights
  std::vector<int64_t> window = {0, 0}, shift = {0, 0};
};

// Finds what certainly is such a module: its operators one by one, with their arguments; the table's index and the mask
// are compared with those of the layer, element by element.
std::vector<WindowAttentionPattern> FindWindowAttention(const OpGraph& graph, ConstantEvaluator& constants);

// Errors: as LayerBuilder::Add.
absl::Status AddWindowAttention(const OpGraph& graph, const WindowAttentionPattern& pattern, LayerBuilder& builder);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_WINDOW_ATTENTION_PATTERN_H_
