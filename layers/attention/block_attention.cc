#include "layers/attention/block_attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "layers/placed_random.h"
#include "primitives/geometry/box.h"
#include "primitives/to_device.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Rows and columns of a tile: enough for matrix products to be efficient, and few enough scores for a cache.
constexpr int64_t kRows = 128, kColumns = 256;
constexpr int64_t kScores = int64_t{1} << 18;

// [n, heads, length, width] as [n * heads, length, width].
Tensor Merged(const Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)}); }

}  // namespace

// Pairs of a sample and a head, queries, keys: as the rank's tensors count them.
struct BlockAttention::Tile {
  int64_t pair, pairs;
  int64_t row, rows;
  int64_t column, columns;
  int64_t key;    // global index of the first column's key
  int64_t heads;  // how many this rank has

  Tensor Pairs(const Tensor& x) const { return x.narrow(0, pair, pairs); }
  Tensor Rows(const Tensor& x) const { return Pairs(x).narrow(1, row, rows); }
  Tensor Columns(const Tensor& x, at::ScalarType type) const { return Pairs(x).narrow(1, column, columns).to(type); }

  // Calls use(part of `scores`, part of `bias`) for each sample: [heads, rows, columns], and the same or 1 where the
  // bias repeats. Both are views.
  template <typename Use>
  void ForEachSample(const Tensor& scores, const Tensor& bias, const Use& use) const {
    const auto part = [](const Tensor& x, int64_t dim, int64_t first, int64_t count) {
      return x.size(dim) == 1 ? x : x.narrow(dim, first, count);
    };
    for (int64_t first = pair; first < pair + pairs;) {
      const int64_t sample = first / heads, head = first % heads;
      const int64_t count = std::min(heads - head, pair + pairs - first);
      const Tensor of_sample = bias.select(0, bias.size(0) == 1 ? 0 : sample);
      use(scores.narrow(0, first - pair, count),
          part(part(part(of_sample, 0, head, count), 1, row, rows), 2, key, columns));
      first += count;
    }
  }
};

template <typename Use>
void BlockAttention::ForEachTile(const Tensor& q, const Tensor& k, int64_t first_key, const Use& use) const {
  const int64_t pairs = q.size(0) * q.size(1), rows = q.size(2), columns = k.size(2);
  if (pairs == 0 || rows == 0 || columns == 0) return;
  const int64_t group = std::max<int64_t>(1, kScores / (std::min(rows, kRows) * std::min(columns, kColumns)));
  for (int64_t pair = 0; pair < pairs; pair += group) {
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t last_query = options_.first_query + std::min(row + kRows, rows) - 1;
      for (int64_t column = 0; column < columns; column += kColumns) {
        if (options_.causal && first_key + column > last_query) break;
        use(Tile{pair, std::min(group, pairs - pair), row, std::min(kRows, rows - row), column,
                 std::min(kColumns, columns - column), first_key + column, q.size(1)});
      }
    }
  }
}

void BlockAttention::Mask(const Tile& tile, Tensor& scores) const {
  const int64_t query = options_.first_query + tile.row;
  if (!options_.causal || tile.key + tile.columns - 1 <= query) return;
  const at::TensorOptions places = scores.options().dtype(at::kLong);
  const Tensor queries = at::arange(query, query + tile.rows, places).unsqueeze(1);
  const Tensor keys = at::arange(tile.key, tile.key + tile.columns, places);
  scores.masked_fill_(keys > queries, kMinusInfinity);
}

// Undefined without dropout.
Tensor BlockAttention::Factors(const Tile& tile, at::ScalarType type, at::Device device) const {
  if (!options_.dropout.has_value()) return Tensor();
  const WeightDropout& dropout = *options_.dropout;
  std::vector<Tensor> kept;
  for (int64_t pair = tile.pair; pair < tile.pair + tile.pairs; ++pair) {
    const int64_t sample = options_.first_batch + pair / tile.heads, head = options_.first_head + pair % tile.heads;
    const int64_t query = options_.first_query + tile.row;
    const Box box(
        {{sample, sample + 1}, {head, head + 1}, {query, query + tile.rows}, {tile.key, tile.key + tile.columns}});
    kept.push_back(PlacedKept(dropout.stream, dropout.first_sample, dropout.shape, box, dropout.p)
                       .reshape({tile.rows, tile.columns}));
  }
  return ToDevice(at::stack(kept), device).to(type).mul_(dropout.p < 1 ? 1 / (1 - dropout.p) : 0.0);
}

Tensor BlockAttention::DropoutFactors(const Tensor& q, int64_t keys) const {
  const Tile all{0, q.size(0) * q.size(1), 0, q.size(2), 0, keys, 0, q.size(1)};
  if (!options_.dropout.has_value() || all.pairs == 0) return Tensor();
  return Factors(all, SumType(q.scalar_type()), q.device()).reshape({q.size(0), q.size(1), q.size(2), keys});
}

Tensor BlockAttention::CausalScores(const Tensor& q, int64_t keys) const {
  // A rank outside the mesh has no scores, though there are keys.
  if (!options_.causal || q.numel() == 0) return Tensor();
  Tensor scores = at::zeros({q.size(2), keys}, q.options().dtype(SumType(q.scalar_type())));
  Mask(Tile{0, 0, 0, q.size(2), 0, keys, 0, 0}, scores);
  return scores;
}

void BlockAttention::AddBias(const Tile& tile, const Tensor& bias, const Tensor& scores) {
  if (!bias.defined()) return;
  tile.ForEachSample(scores, bias, [](Tensor of_scores, const Tensor& of_bias) {
    of_scores.add_(of_bias.to(of_scores.scalar_type()));
  });
}

SoftmaxSums BlockAttention::Start(const Tensor& q, int64_t value_width) const {
  const at::TensorOptions options = q.options().dtype(SumType(q.scalar_type()));
  const int64_t pairs = q.size(0) * q.size(1);
  return {at::full({pairs, q.size(2)}, kMinusInfinity, options), at::zeros({pairs, q.size(2)}, options),
          at::zeros({pairs, q.size(2), value_width}, options)};
}

void BlockAttention::Add(const Tensor& q, const Tensor& k, const Tensor& v, int64_t first_key, const Tensor& bias,
                         SoftmaxSums& sums) const {
  const at::ScalarType type = SumType(q.scalar_type());
  const Tensor rows = Merged(q), keys = Merged(k), values = Merged(v);
  ForEachTile(q, k, first_key, [&](const Tile& tile) {
    Tensor scores = at::bmm(tile.Rows(rows).to(type), tile.Columns(keys, type).transpose(1, 2));
    AddBias(tile, bias, scores);
    Mask(tile, scores);
    Tensor largest = tile.Rows(sums.largest), sum = tile.Rows(sums.sum), weighted = tile.Rows(sums.weighted);
    const Tensor larger = at::maximum(largest, scores.amax(-1));
    // Nothing is subtracted from a row that has no key yet: minus infinity from itself would be NaN.
    const Tensor shift = larger.masked_fill(larger == kMinusInfinity, 0);
    scores.sub_(shift.unsqueeze(-1)).exp_();
    const Tensor shrinks = at::exp(largest - shift);
    sum.mul_(shrinks).add_(scores.sum(-1));
    const Tensor factors = Factors(tile, type, scores.device());
    if (factors.defined()) scores.mul_(factors);
    weighted.mul_(shrinks.unsqueeze(-1)).baddbmm_(scores, tile.Columns(values, type));
    largest.copy_(larger);
  });
}

AttendedRows BlockAttention::Finish(const SoftmaxSums& sums, at::IntArrayRef shape, int64_t keys) const {
  if (keys == 0) return {sums.weighted.reshape(shape), sums.largest, sums.largest};
  // A row that sees no key has the sum 0. With an infinite logarithm its weights are 0 in the backward pass, too.
  const Tensor unseen = sums.sum == 0;
  const Tensor divisor = sums.sum.masked_fill(unseen, 1);
  return {(sums.weighted / divisor.unsqueeze(-1)).reshape(shape), sums.largest.masked_fill(unseen, 0),
          at::log(divisor).masked_fill_(unseen, -kMinusInfinity)};
}

Tensor BlockAttention::Delta(const Tensor& gradient, const Tensor& values) {
  const at::ScalarType type = SumType(gradient.scalar_type());
  return (Merged(gradient).to(type) * Merged(values).to(type)).sum(-1);
}

void BlockAttention::AddGradients(const RowGradients& of, const Tensor& k, const Tensor& v, int64_t first_key,
                                  const BlockGradients& to) const {
  const at::ScalarType type = SumType(of.q.scalar_type());
  const Tensor rows = Merged(of.q), gradients = Merged(of.gradient), keys = Merged(k), values = Merged(v);
  // Views: what they get, dq, dk and dv have.
  const auto view = [](const Tensor& x) { return x.view({x.size(0) * x.size(1), x.size(2), x.size(3)}); };
  const Tensor to_q = view(to.q), to_k = view(to.k), to_v = view(to.v);
  ForEachTile(of.q, k, first_key, [&](const Tile& tile) {
    const Tensor q = tile.Rows(rows).to(type), g = tile.Rows(gradients).to(type), key = tile.Columns(keys, type);
    Tensor weights = at::bmm(q, key.transpose(1, 2));
    AddBias(tile, of.bias, weights);
    Mask(tile, weights);
    weights.sub_(tile.Rows(of.largest).unsqueeze(-1)).sub_(tile.Rows(of.log_sums).unsqueeze(-1)).exp_();
    Tensor scores = at::bmm(g, tile.Columns(values, type).transpose(1, 2));  // their gradient, in the end
    const Tensor factors = Factors(tile, type, scores.device());
    if (factors.defined()) scores.mul_(factors);
    tile.Columns(to_v, type).baddbmm_((factors.defined() ? weights * factors : weights).transpose(1, 2), g);
    scores.sub_(tile.Rows(of.delta).unsqueeze(-1)).mul_(weights);
    tile.Rows(to_q).baddbmm_(scores, key);
    tile.Columns(to_k, type).baddbmm_(scores.transpose(1, 2), q);
    if (!to.bias.defined()) return;
    tile.ForEachSample(scores, to.bias, [](const Tensor& of_scores, Tensor of_bias) {
      of_bias.add_(of_scores.sum_to_size(of_bias.sizes()));
    });
  });
}

}  // namespace adjoin
