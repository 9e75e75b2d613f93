// Attention over a sequence that may be cut: a rank's queries stay, keys and values travel past them in a ring, and are
// moved one rank further while the block that is there is computed. One node of autograd; on the tape where its
// backward pass moves something.
//
//   auto ring = std::make_shared<RingAttention>(RingAttention{...});
//   Tensor y = Attend(ring, q, packed, bias, tape);        // packed: keys and values; bias: undefined for none
//
// For the backward pass are kept: q, this rank's own keys and values, those that came last, the result, the bias and
// one number per row. There keys and values go the ring backwards, and their gradients with them, to where they belong.
// A bias stays where its queries are: each rank has what all keys need of it.
#ifndef ADJOIN_LAYERS_ATTENTION_RING_ATTENTION_H_
#define ADJOIN_LAYERS_ATTENTION_RING_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/attention/block_attention.h"
#include "primitives/movement.h"
#include "primitives/tape.h"

namespace adjoin {

// One rank's part in one layer's attention, in one pass.
struct RingAttention {
  // [s], from 1 on: brings the part that is s further along the ring from the rank that has it after s - 1 steps; null
  // where nothing moves. `back` brings it back to there, for s from 2 on, and `gradient` its gradient.
  std::vector<std::shared_ptr<Movement>> ring, back, gradient;
  // Where each part of the keys begins, and last how many there are; this rank's own part.
  std::vector<int64_t> first_key;
  int64_t part = 0;
  BlockAttention blocks;
  // The width of the keys' heads, where the values' heads have another: each position then has both side by side.
  // 0: both have one width.
  int64_t key_width = 0;

  int64_t parts() const { return static_cast<int64_t>(first_key.size()) - 1; }
  int64_t keys() const { return first_key.back(); }
  // The first key of the part that is here after `step` steps.
  int64_t FirstKeyAt(int64_t step) const { return first_key[(part + step) % parts()]; }
  // Whether its backward pass moves anything: then its node is on the tape, on all ranks.
  bool MovesBack() const;
};

// q: [n, heads, queries, width], scaled. `packed`: [1, 2, n, heads, keys, width], keys and values of this rank's part,
// or with a key_width [1, 1, n, heads, keys, both widths]; (0, ..., 0) outside the mesh. `bias` as BlockAttention has
// it, with a gradient if it requires one. Returns [n, heads, queries, the values' width]. Differentiable twice where
// the sequence is not cut. Collective. Throws as Movement::Start; c10::Error for a second derivative of a cut sequence.
at::Tensor Attend(std::shared_ptr<RingAttention> ring, const at::Tensor& q, const at::Tensor& packed,
                  const at::Tensor& bias, Tape& tape);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_RING_ATTENTION_H_
