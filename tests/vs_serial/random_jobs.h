// Random layouts and the text of jobs around one layer, for comparisons with serial LibTorch.
//
//   RandomJobs random(seed);
//   std::string layouts = LayoutText("x", {1, 1, 3}, random.Ranks(3, 4), {{2, random.Sizes(9, 3)}});
//   std::string spec = JobText({.ranks = 4, .batch = 2, .x_shape = {3, 9}, .layouts = layouts,
//                               .layers = "layer { ... }", .last_dims = 3});
#ifndef ADJOIN_TESTS_VS_SERIAL_RANDOM_JOBS_H_
#define ADJOIN_TESTS_VS_SERIAL_RANDOM_JOBS_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace adjoin {

class RandomJobs {
 public:
  explicit RandomJobs(uint64_t seed) : engine_(seed) {}

  int64_t Between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool OneIn(int n) { return Between(1, n) == 1; }
  template <typename T>
  T Of(const std::vector<T>& choices) {
    return choices[Between(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  // `count` distinct ranks below `world`, in any order.
  std::vector<int> Ranks(int64_t count, int64_t world);
  // Sizes of `parts` parts that sum to n; zeros are likely.
  std::vector<int64_t> Sizes(int64_t n, int64_t parts);
  // Parts per dim for `shape`, whose product is at most `most`; 1 in dim `whole`.
  std::vector<int64_t> Partition(int dims, int whole, int64_t most);
  // Explicit cuts for some of the dims that have several parts.
  std::map<int, std::vector<int64_t>> Cuts(const std::vector<int64_t>& shape, const std::vector<int64_t>& partition);
  // A layout of a tensor of `shape` on a mesh: the parts of each dim along one axis or two, and `copies` of everything
  // along an axis of its own, in any order; on ranks below `world`, at least as many as parts times copies.
  std::string MeshLayout(const std::string& name, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& partition, int64_t copies, int64_t world);
  // A layout of a tensor of `shape` on some of the ranks below `world`: a partition or, with `copies`, also a mesh that
  // may hold several copies of each part.
  std::string AnyLayout(const std::string& name, const std::vector<int64_t>& shape, int64_t world, bool copies);
  // Draws from the standard normal distribution, float64; the same state draws the same.
  at::Tensor Normal(const std::vector<int64_t>& shape);
  at::Tensor Labels(int64_t n, int64_t classes);

 private:
  std::mt19937_64 engine_;
};

// "layout { name: ... }".
std::string LayoutText(const std::string& name, const std::vector<int64_t>& partition, const std::vector<int>& ranks,
                       const std::map<int, std::vector<int64_t>>& cuts = {});
// "[1, 2]".
std::string ListText(const std::vector<int64_t>& values);

struct JobParts {
  int64_t ranks = 1;
  int64_t batch = 1;
  std::vector<int64_t> x_shape;  // of the field "x", without the batch dim
  std::string layouts;
  std::string layers;  // the first reads "x"
  int last_dims = 2;   // dims of the last layer's result
  // Further fields, with their shapes without the batch dim.
  std::vector<std::pair<std::string, std::vector<int64_t>>> more_fields = {};
};
// Adds the field `name` of `shape` (with the batch dim) and a layer "in_<name>" that reads it in one random layout and
// leaves it in another one, which may hold copies. (A field with copies would have partial gradients, and comparisons
// are with whole ones.)
void AddRandomInput(RandomJobs& random, const std::string& name, const std::vector<int64_t>& shape, JobParts& job);
// A float64 training job: the layers, then everything is brought to rank 0 ("gathered"), flattened ("flat"), reduced
// to three classes by a linear layer ("head") and compared with "label" by cross-entropy. The data set is called
// "data".
std::string JobText(const JobParts& parts);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_RANDOM_JOBS_H_
