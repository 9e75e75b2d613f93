// A job whose blocks (Layer.transformer) are written out as the layers that they stand for.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ExpandedSpec expanded, ExpandBlocks(spec));
//   expanded.spec.layer(3).name();      // "encoder.self_attn", of the block "encoder"
//   expanded.CompleteLayer(3, shape_of, &layer);  // what follows only from the shapes of earlier layers
//   return expanded.AtUsersLayer(spec, status);   // an error at layer[3].w is moved to the block's own w
//
// The block "b" that reads "in" stands for these layers (those in brackets only with dropout):
//   b.norm1(in) b.self_attn [b.dropout1] b.residual1(in + it)
//   b.norm2 b.linear1 b.activation [b.dropout] b.linear2 [b.dropout2] b(b.residual1 + it)
// with norm_first false
//   b.self_attn(in) [b.dropout1] b.residual1(in + it) b.norm1
//   b.linear1 b.activation [b.dropout] b.linear2 [b.dropout2] b.residual2(b.norm1 + it) b.norm2 b (which only has the
//   name)
// and with a window, after torchvision's SwinTransformerBlock
//   b.norm1(in) b.attn [b.dropout1] b.residual1(in + it) b.norm2 b.mlp.0 b.mlp.1 [b.mlp.2] b.mlp.3 [b.mlp.4] b
// Their names are those of PyTorch's parameters. No other layer of the job may have one of these names; any may read
// them.
//
// x is the layout in which the input is read, y the result's. w is the attention's: its axes that split the last dim
// split the heads, and the MLP's hidden features. The MLP's first linear layer then reads w's cut with whole features
// and writes w's own; the second one adds up over w's columns. For these the layouts "<w>.whole" and "<w>.hidden" are
// added. Pure; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_
#define ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// Returns true where Layer.op's field of this name is a block, which has no rule of its own.
inline bool IsBlock(absl::string_view kind) { return kind == "transformer"; }

struct ExpandedSpec {
  JobSpec spec;                 // without blocks
  std::vector<int> user_layer;  // by index in `spec`: the index of the user's layer that it comes from
  // By index of a linear layer without out_features: the layer whose last dim has as many.
  std::map<int, std::string> features_of;
  // By index of a window attention: how many dims its input must have, so that w cuts the block's other layers.
  std::map<int, int> dims_of;

  // Returns the shape of the output of an earlier layer of `spec`.
  using ShapeOf = std::function<std::vector<int64_t>(const std::string& layer)>;
  // Fills in what layer `index` takes from the shapes of earlier layers. `*layer`: a copy of the one in `spec`.
  // Errors: kInvalidArgument, at the layer's field, where the shapes do not fit the block.
  absl::Status CompleteLayer(int index, const ShapeOf& shape_of, Layer* layer) const;

  // Returns the same error with its location in the job as written, `user`. Where the layer is part of a block, the
  // message names it.
  absl::Status AtUsersLayer(const JobSpec& user, const absl::Status& status) const;
};

// Errors: kInvalidArgument, at the block's field, for what is wrong with the block itself, or where a layer's name is
// taken.
absl::StatusOr<ExpandedSpec> ExpandBlocks(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_
