// A job whose blocks (Layer.transformer) are written out as the layers that they stand for.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ExpandedSpec expanded, ExpandBlocks(spec));
//   expanded.spec.layer(3).name();      // "encoder.self_attn", of the block "encoder"
//   return expanded.AtUsersLayer(spec, status);   // of an error at layer[3].w: at the block's own
//
// Of the block "b" that reads "in" (parts in brackets only with dropout):
//   b.norm1(in) b.self_attn [b.dropout1] b.residual1(in + it)
//   b.norm2 b.linear1 b.activation [b.dropout] b.linear2 [b.dropout2] b(b.residual1 + it)
// with norm_first false
//   b.self_attn(in) [b.dropout1] b.residual1(in + it) b.norm1
//   b.linear1 b.activation [b.dropout] b.linear2 [b.dropout2] b.residual2(b.norm1 + it) b.norm2 b (which only has the name)
// and with a window, after torchvision's SwinTransformerBlock
//   b.norm1(in) b.attn [b.dropout1] b.residual1(in + it) b.norm2 b.mlp.0 b.mlp.1 [b.mlp.2] b.mlp.3 [b.mlp.4] b
// Their names are those of PyTorch's parameters. A layer of the job may not have one of them, and may read any.
//
// x is where the input is read, y where the result lies. Of w, the attention's: its axes that split the last dim split the
// heads, and the MLP's hidden features. Its first linear layer then reads w's cut with whole features and writes w's own, and
// its second one, of w's columns, sums up. For these the layouts "<w>.whole" and "<w>.hidden" are added. Pure; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_
#define ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// Whether Layer.op's field of this name is a block, which has no rule of its own.
inline bool IsBlock(absl::string_view kind) { return kind == "transformer"; }

struct ExpandedSpec {
  JobSpec spec;                 // without blocks
  std::vector<int> user_layer;  // by layer of `spec`: the user's that it comes from
  // By index of a linear layer without out_features: the layer whose last dim says how many they are.
  std::map<int, std::string> features_of;
  // By index of a window attention: how many dims its input must have for the block's other layers to be cut as w says.
  std::map<int, int> dims_of;

  // The same error, located in the job as written, `user`; of a block's part, its message names the part.
  absl::Status AtUsersLayer(const JobSpec& user, const absl::Status& status) const;
};

// Errors: kInvalidArgument, at the block's field, for what is wrong with the block itself, or where a layer's name is taken.
absl::StatusOr<ExpandedSpec> ExpandBlocks(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_BLOCK_EXPANSION_H_
