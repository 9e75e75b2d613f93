// Exact softmax attention, a tile of scores at a time: keys and values come in blocks, in any order, and no more than a
// tile of the scores is ever held.
//
//   BlockAttention blocks(options);
//   SoftmaxSums sums = blocks.Start(q, v.size(3));
//   blocks.Add(q, k, v, /*first_key=*/512, bias, sums);        // for every block
//   AttendedRows rows = blocks.Finish(sums, {n, heads, queries, v.size(3)}, /*keys=*/4096);
//   // backward, again for every block:
//   Tensor g = ..., delta = blocks.Delta(g, rows.values);
//   blocks.AddGradients({q, g, rows.largest, rows.log_sums, delta, bias}, k, v, first_key, {dq, dk, dv, dbias});
//
// Source: online softmax (Milakov and Gimelshein 2018) and FlashAttention's backward pass (Dao et al. 2022). Shapes:
// [n, heads, length, width], q scaled already; the values' width may be another one. What is kept per row: [n * heads,
// length]. A bias, undefined where there is none, is added to the scores: [n or 1, heads or 1, queries or 1, keys or
// 1], of all keys and not only of a block's; minus infinity masks a pair. Sums are float32 for types of fewer bits,
// else of q's type. Without autograd: callers hold a NoGradGuard. Any extent may be 0. Const; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_
#define ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/sum_type.h"
#include "primitives/random/philox.h"

namespace adjoin {

// Which weights are set to 0: by their places in the whole tensor of the step's weights, as PlacedKept.
struct WeightDropout {
  RandomStream stream;
  int64_t first_sample = 0;
  std::vector<int64_t> shape;  // global: [batch, heads, queries, keys]
  double p = 0;
};

// State of the rows seen so far: largest score, sum of the exponentials above it, and the same of their values.
struct SoftmaxSums {
  at::Tensor largest;   // [n * heads, queries]
  at::Tensor sum;       // likewise
  at::Tensor weighted;  // [n * heads, queries, the values' width]
};

struct AttendedRows {
  at::Tensor values;  // [n, heads, queries, the values' width], of SumType
  // [n * heads, queries]: the largest score, 0 where a row sees no key, and the logarithm of the sum of the
  // exponentials above it, infinite there. Apart: beside a score of -1e9 the logarithm would be rounded away.
  at::Tensor largest, log_sums;
};

// What the gradients of a block are made of.
struct RowGradients {
  at::Tensor q;         // scaled
  at::Tensor gradient;  // the values' gradient
  at::Tensor largest, log_sums;
  at::Tensor delta;
  at::Tensor bias;
};

// The gradients of the scaled q, k, v and the bias: contiguous or slices of such, of SumType, shaped as these. `bias`
// is undefined where its gradient is not asked for.
struct BlockGradients {
  at::Tensor q, k, v, bias;
};

class BlockAttention {
 public:
  struct Options {
    bool causal = false;  // query i sees keys 0 ... i, in global positions
    // The first one's global place.
    int64_t first_batch = 0, first_head = 0, first_query = 0;
    std::optional<WeightDropout> dropout = std::nullopt;
  };
  explicit BlockAttention(Options options) : options_(std::move(options)) {}

  SoftmaxSums Start(const at::Tensor& q, int64_t value_width) const;
  void Add(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t first_key, const at::Tensor& bias,
           SoftmaxSums& sums) const;
  // A row without any key is 0, as LibTorch's product with an empty matrix, and so is one with keys of which none has a
  // score above minus infinity, as PyTorch 2.5 and later have it (_safe_softmax). `keys`: how many there are in all.
  // `shape`: that of the values attended to, [n, heads, queries, the values' width].
  AttendedRows Finish(const SoftmaxSums& sums, at::IntArrayRef shape, int64_t keys) const;

  static at::Tensor Delta(const at::Tensor& gradient, const at::Tensor& values);
  // Adds what this block gives to `gradients`.
  void AddGradients(const RowGradients& rows, const at::Tensor& k, const at::Tensor& v, int64_t first_key,
                    const BlockGradients& gradients) const;
  // [queries, keys]: what is added to the scores of all keys, 0 or minus infinity; undefined where none is masked.
  at::Tensor CausalScores(const at::Tensor& q, int64_t keys) const;
  // Factors of all scores, n and heads as in `q`, keys 0 ... keys - 1: 1 / (1 - p) or 0; undefined without dropout.
  at::Tensor DropoutFactors(const at::Tensor& q, int64_t keys) const;

 private:
  struct Tile;
  template <typename Use>
  void ForEachTile(const at::Tensor& q, const at::Tensor& k, int64_t first_key, const Use& use) const;
  at::Tensor Factors(const Tile& tile, at::ScalarType type, at::Device device) const;
  void Mask(const Tile& tile, at::Tensor& scores) const;
  static void AddBias(const Tile& tile, const at::Tensor& bias, const at::Tensor& scores);

  const Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_
