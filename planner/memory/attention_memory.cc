// What attention holds on a rank.
#include <algorithm>
#include <cstdint>

#include "layers/attention/attention_inputs.h"
#include "planner/memory/layer_kernel.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/tensor_bytes.h"

namespace adjoin {

// Queries, keys and values as heads, what is attended to, and two numbers for each row.
LayerMemory MemoryOfAttention(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  const Attention& attention = layer.spec().attention();
  const bool projects = HasProjections(attention);
  const int attended = AttendedInputs(attention, static_cast<int>(sizes.input.size()));
  k.memory.keeps_input.assign(sizes.input.size(), projects);
  if (attention.score_bias()) k.memory.keeps_input.back() = true;
  k.memory.keeps_parameters = projects;
  if (attended < 1) return k.memory;
  using Shape = LayerSizes::Shape;
  const Shape &x = sizes.input[0], &keys_of = sizes.input[attended > 1 ? 1 : 0], &values_of = sizes.input[attended - 1];
  if (x.size() != 3 || keys_of.size() != 3 || values_of.size() != 3) return k.memory;
  // The first parameter is that of this rank's heads, of the queries alone or of all: [3 or none, heads, width,
  // features].
  const Shape weight = sizes.parameter.empty() ? Shape() : sizes.parameter[0];
  const int64_t features = !projects || weight.size() < 3
                               ? x.back()
                               : BoundedProduct({weight[weight.size() - 3], weight[weight.size() - 2]});
  const int64_t value_features = projects ? features : values_of.back();
  const int64_t queries = BoundedProduct({x[0], x[1], features, k.element});
  const int64_t result = BoundedProduct({x[0], x[1], value_features, k.element});
  const int64_t memory = BoundedProduct({keys_of[0], keys_of[1], features + value_features, k.element});
  // Scores are computed in tiles (layers/attention/block_attention.cc).
  constexpr int64_t kScores = int64_t{1} << 18, kRows = 128, kColumns = 256;
  const int64_t sum_element = std::max<int64_t>(4, k.element);
  const int64_t pairs = BoundedProduct({x[0], sizes.heads});
  const int64_t rows = std::min(x[1], kRows), columns = std::min(keys_of[1], kColumns);
  const int64_t group = std::max<int64_t>(1, kScores / std::max<int64_t>(1, rows * columns));
  const int64_t tile = std::min(pairs, group) * rows * columns * sum_element;
  const int64_t travels = sizes.key_parts > 1 ? memory : 0;
  const int64_t sums = BoundedProduct({pairs, x[1], sum_element});
  const int64_t moving = std::min<int64_t>(sizes.key_parts, 4) * travels;
  if (projects) {
    k.memory.keeps = 2 * queries + result + memory + travels + 2 * sums;
    k.memory.forward_work = std::max(result + tile + travels - k.out, k.out);
    k.memory.backward_work = std::max<int64_t>(0, 2 * queries + result + memory + 2 * tile + moving - k.out - k.in);
  } else {
    k.memory.keeps = queries + result + memory + travels + 2 * sums;
    k.memory.forward_work = std::max<int64_t>(0, std::max(queries, result + tile + travels) - k.out);
    k.memory.backward_work = std::max<int64_t>(0, memory + sums + 2 * tile + moving - k.in);
  }
  // The gradient of a bias before it is rounded.
  if (attention.score_bias() && sum_element > k.element) {
    k.memory.backward_work += BoundedProduct(sizes.input.back()) * sum_element;
  }
  return k.memory;
}

// As attention, but the scores of each window are kept. Windows are whole, so a rank may attend to more cells than it
// returns, or to none.
LayerMemory MemoryOfWindowAttention(const LayerPlan& layer, const LayerSizes& sizes) {
  LayerKernel k(layer, sizes);
  k.memory.keeps_input[0] = k.memory.keeps_parameters = true;
  const WindowAttention& attention = layer.spec().window_attention();
  const int64_t cells = BoundedProduct({attention.window().begin(), attention.window().end()});
  const LayerSizes::Shape& x = sizes.input[0];
  const int64_t positions = BoundedProduct(x) / std::max<int64_t>(1, x.empty() ? 1 : x.back());
  const int64_t scores = BoundedProduct({positions, cells, attention.heads(), k.element});
  // What is added to the scores differs by window where windows are shifted, and is the same for all samples.
  const auto& shift = attention.shift();
  const bool shifted = std::any_of(shift.begin(), shift.end(), [](int64_t cells) { return cells != 0; });
  const int64_t added = shifted ? scores / std::max<int64_t>(1, x.empty() ? 1 : x[0]) : 0;
  k.memory.keeps = 4 * k.in + k.out + scores;
  k.memory.forward_work = 2 * scores;
  // The scores' gradients, or, when these are gone, those of queries, keys and values.
  k.memory.backward_work = std::max({int64_t{0}, 2 * scores - k.in, 3 * k.in - scores + added});
  return k.memory;
}

}  // namespace adjoin
