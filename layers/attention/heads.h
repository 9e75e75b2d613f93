// From features to the heads of attention and back, on what one rank has: plain operations of LibTorch, differentiable
// as often as wanted. Any extent may be 0.
//
//   at::Tensor qkv = ToHeads(x, weight, bias);            // [3, n, heads, length, width]
//   at::Tensor y = DenseAttention(qkv[0] * scale, qkv[1], qkv[2], /*added=*/{}, /*factors=*/{});
//   at::Tensor features = FromHeads(y, out_weight);       // [n, length, features]; a sum over this rank's heads only
#ifndef ADJOIN_LAYERS_ATTENTION_HEADS_H_
#define ADJOIN_LAYERS_ATTENTION_HEADS_H_

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace adjoin {

// x: [n, length, features], weight: [k, heads, width, features], bias: [k, heads, width] or undefined. Returns k
// projections, contiguous: [k, n, heads, length, width].
at::Tensor ToHeads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// x: [n, length, heads * width], one head after the other. Returns a view [n, heads, length, width].
at::Tensor HeadsOf(const at::Tensor& x, int64_t width);

// x: [n, heads, length, width], weight: [features, heads, width]. Returns [n, length, features].
at::Tensor FromHeads(const at::Tensor& x, const at::Tensor& weight);

// softmax(q k^T + added) with each weight times its factor, times v: all scores at once. q: [..., queries, width],
// scaled already; k and v: [..., keys, width], v's may be another one; added and factors, undefined or expandable to
// [..., queries, keys]. Without keys: 0. The softmax of bfloat16 is computed in float32.
at::Tensor DenseAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& added,
                          const at::Tensor& factors);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_HEADS_H_
