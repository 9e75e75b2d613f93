// The layers that layers.cc times: as a job writes them, and in plain LibTorch, whole and in halves.
#ifndef ADJOIN_BENCH_LAYER_CASES_H_
#define ADJOIN_BENCH_LAYER_CASES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace adjoin {

// One layer on one machine.
struct SerialLayer {
  std::vector<int64_t> x_shape;
  std::map<std::string, std::vector<int64_t>> parameter_shapes;  // "weight", "bias"
  std::function<at::Tensor(const at::Tensor& x, const std::map<std::string, at::Tensor>& parameters)> forward;
};

struct LayerCase {
  std::string name;
  std::string what;     // for people
  std::string layer;    // the job's layer without its name, input and layouts: "conv { ... }"
  std::string layouts;  // of 2 ranks: "layout { name: 'x' ... }", and of the weight 'w' where the layer has one
  std::string uses;     // of these: "x: 'x'"
  SerialLayer whole;
  SerialLayer half;  // what one of two processes computes that know nothing of each other
};

std::vector<LayerCase> LayerCases();

}  // namespace adjoin

#endif  // ADJOIN_BENCH_LAYER_CASES_H_
