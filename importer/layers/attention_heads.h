// Attention without projections as one layer, of queries, keys and values that are made elsewhere.
//
//   HeadsRequest request;
//   request.query = {"q", *builder.ViewOf("q")};   // likewise key and value: [..., length, features]
//   request.causal = true;
//   absl::Status status = AddHeads(node, builder, std::move(request));
#ifndef ADJOIN_IMPORTER_LAYERS_ATTENTION_HEADS_H_
#define ADJOIN_IMPORTER_LAYERS_ATTENTION_HEADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "importer/constants/constant_tensor.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"
#include "importer/layers/value_view.h"

namespace adjoin {

// What the layer computes.
struct HeadsRequest {
  std::pair<std::string, ValueView> query, key, value;  // [..., length, features], the same before these two
  double scale = 0;                                     // 0: that of the features
  double dropout = 0;
  bool causal = false;
  std::optional<ConstantTensor> bias = std::nullopt;  // of the scores, in float64
  std::string bias_value;                             // or a value of the graph
  std::vector<int64_t> result_order = {};             // of the result's dims, where it is another one
};

// What a mask adds to the scores: truth values say which pairs take part; numbers are added.
ConstantTensor BiasOf(ConstantTensor mask, bool true_is_kept);

// Adds the layer, whose output is the node's first one. Errors: kInvalidArgument, where no layer computes that. Nothing
// has been added then but layers that change shapes.
absl::Status AddHeads(const OpNode& node, LayerBuilder& builder, HeadsRequest request);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_ATTENTION_HEADS_H_
