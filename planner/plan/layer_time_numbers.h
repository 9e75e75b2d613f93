// The numbers that ranks bring together of a step whose layers were measured (Train.measure_layers_every).
//
//   const std::vector<double> numbers = LayerTimeNumbers::ToVector(layers, step_seconds);   // on each rank
//   const LayerTimeNumbers::Parts parts = LayerTimeNumbers::FromVector(sums);
#ifndef ADJOIN_PLANNER_PLAN_LAYER_TIME_NUMBERS_H_
#define ADJOIN_PLANNER_PLAN_LAYER_TIME_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adjoin {

// Seconds of one layer in one step. Each is finite, 0 or more.
struct LayerSeconds {
  double forward = 0;   // compute
  double backward = 0;  // likewise, with what is computed again
  double movement = 0;  // packing, sending, adding; forward and backward
  double wait = 0;      // for messages, likewise

  double sum() const { return forward + backward + movement + wait; }
};

class LayerTimeNumbers {
 public:
  // A layer's four numbers and their sum, whose largest over ranks is that of one rank.
  static constexpr int64_t kOfLayer = 5;
  // How many numbers there are: those of each layer, and the whole step's seconds.
  static constexpr int64_t Count(int64_t layers) { return kOfLayer * layers + 1; }

  static std::vector<double> ToVector(const std::vector<LayerSeconds>& layers, double step) {
    std::vector<double> numbers;
    for (const LayerSeconds& layer : layers) {
      numbers.insert(numbers.end(), {layer.forward, layer.backward, layer.movement, layer.wait, layer.sum()});
    }
    numbers.push_back(step);
    return numbers;
  }
  struct Parts {
    std::vector<LayerSeconds> layers;
    std::vector<double> sums;  // by layer
    double step = 0;
  };
  // `numbers`: Count(n) of them, in the order of ToVector.
  static Parts FromVector(const std::vector<double>& numbers) {
    Parts parts;
    for (size_t i = 0; i + kOfLayer < numbers.size(); i += kOfLayer) {
      parts.layers.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
      parts.sums.push_back(numbers[i + 4]);
    }
    if (!numbers.empty()) parts.step = numbers.back();
    return parts;
  }
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_LAYER_TIME_NUMBERS_H_
