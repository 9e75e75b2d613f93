// Exact softmax attention, a tile of scores at a time: keys and values come in blocks, in any order, and no more than a tile
// of the scores is ever held.
//
//   BlockAttention blocks(options);
//   SoftmaxSums sums = blocks.Start(q);
//   blocks.Add(q, k, v, /*first_key=*/512, sums);              // for every block
//   AttendedRows rows = blocks.Finish(sums, q.sizes(), /*keys=*/4096);
//   // backward, again for every block:
//   Tensor g = ..., delta = blocks.Delta(g, rows.values);
//   blocks.AddGradients({q, g, rows.log_sums, delta}, k, v, first_key, dq, dk, dv);
//
// Source: online softmax (Milakov and Gimelshein 2018) and FlashAttention's backward pass (Dao et al. 2022). Shapes:
// [n, heads, length, width], q scaled already; what is kept per row: [n * heads, length]. Sums are float32 for types of fewer
// bits, else of q's type. Without autograd: callers hold a NoGradGuard. Any extent may be 0. Const; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_
#define ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "primitives/random/philox.h"

namespace adjoin {

// Which weights are set to 0: by their places in the whole tensor of the step's weights, as PlacedKept.
struct WeightDropout {
  RandomStream stream;
  int64_t first_sample = 0;
  std::vector<int64_t> shape;  // global: [batch, heads, queries, keys]
  double p = 0;
};

// Sums in this type: float32 for bfloat16 and float16.
torch::ScalarType SumType(torch::ScalarType type);

// Of the rows seen so far: largest score, sum of the exponentials above it, and the same of their values.
struct SoftmaxSums {
  torch::Tensor largest;   // [n * heads, queries]
  torch::Tensor sum;       // likewise
  torch::Tensor weighted;  // [n * heads, queries, width]
};

struct AttendedRows {
  torch::Tensor values;    // [n, heads, queries, width], of SumType
  torch::Tensor log_sums;  // [n * heads, queries]: of the exponentials of the scores
};

// What the gradients of a block are made of.
struct RowGradients {
  torch::Tensor q;         // scaled
  torch::Tensor gradient;  // of the values
  torch::Tensor log_sums;
  torch::Tensor delta;
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

  SoftmaxSums Start(const torch::Tensor& q) const;
  void Add(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, int64_t first_key,
           SoftmaxSums& sums) const;
  // A row without any key is 0, as LibTorch's product with an empty matrix; with keys of which none has a score above
  // minus infinity, NaN. `keys`: how many there are in all. `shape`: q's.
  AttendedRows Finish(const SoftmaxSums& sums, torch::IntArrayRef shape, int64_t keys) const;

  static torch::Tensor Delta(const torch::Tensor& gradient, const torch::Tensor& values);
  // Adds what this block gives to the gradients of the scaled q, of k and of v: contiguous, of SumType, shaped as these.
  void AddGradients(const RowGradients& rows, const torch::Tensor& k, const torch::Tensor& v, int64_t first_key,
                    torch::Tensor& dq, torch::Tensor dk, torch::Tensor dv) const;
  // [queries, keys]: what is added to the scores of all keys, 0 or minus infinity; undefined where none is masked.
  torch::Tensor CausalScores(const torch::Tensor& q, int64_t keys) const;
  // Of all scores of n and heads as in `q` and keys 0 ... keys - 1: 1 / (1 - p) or 0; undefined without dropout.
  torch::Tensor DropoutFactors(const torch::Tensor& q, int64_t keys) const;

 private:
  struct Tile;
  template <typename Use>
  void ForEachTile(const torch::Tensor& q, const torch::Tensor& k, int64_t first_key, const Use& use) const;
  torch::Tensor Factors(const Tile& tile, torch::ScalarType type) const;
  void Mask(const Tile& tile, torch::Tensor& scores) const;

  const Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_BLOCK_ATTENTION_H_
