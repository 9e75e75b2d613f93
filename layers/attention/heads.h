// From features to the heads of attention and back, on what one rank has: plain operations of LibTorch, differentiable as
// often as wanted. Any extent may be 0.
//
//   torch::Tensor qkv = ToHeads(x, weight, bias);            // [3, n, heads, length, width]
//   torch::Tensor y = DenseAttention(qkv[0] * scale, qkv[1], qkv[2], /*added=*/{}, /*factors=*/{});
//   torch::Tensor features = FromHeads(y, out_weight);       // [n, length, features]; a sum over this rank's heads only
#ifndef ADJOIN_LAYERS_ATTENTION_HEADS_H_
#define ADJOIN_LAYERS_ATTENTION_HEADS_H_

#include <torch/torch.h>

namespace adjoin {

// x: [n, length, features], weight: [k, heads, width, features], bias: [k, heads, width] or undefined. Returns k projections,
// contiguous: [k, n, heads, length, width].
torch::Tensor ToHeads(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias);

// x: [n, heads, length, width], weight: [features, heads, width]. Returns [n, length, features].
torch::Tensor FromHeads(const torch::Tensor& x, const torch::Tensor& weight);

// softmax(q k^T + added) with each weight times its factor, times v: all scores at once. q: [..., queries, width], scaled
// already; k and v: [..., keys, width]; added and factors, undefined or expandable to [..., queries, keys]. Without keys: 0.
// The softmax of bfloat16 is computed in float32.
torch::Tensor DenseAttention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const torch::Tensor& added, const torch::Tensor& factors);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_HEADS_H_
