#include "tests/vs_serial/random_jobs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {

std::vector<int> RandomJobs::Ranks(int64_t count, int64_t world) {
  std::vector<int> ranks(world);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), engine_);
  ranks.resize(count);
  return ranks;
}

std::vector<int64_t> RandomJobs::Sizes(int64_t n, int64_t parts) {
  std::vector<int64_t> boundaries = {0, n};
  for (int64_t i = 1; i < parts; ++i) boundaries.push_back(Between(0, n));
  std::sort(boundaries.begin(), boundaries.end());
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(boundaries[i + 1] - boundaries[i]);
  return sizes;
}

std::vector<int64_t> RandomJobs::Partition(int dims, int whole, int64_t most) {
  std::vector<int64_t> partition(dims, 1);
  std::vector<int> order = Ranks(dims, dims);
  for (int dim : order) {
    if (dim == whole) continue;
    partition[dim] = Between(1, most);
    most /= partition[dim];
  }
  return partition;
}

std::map<int, std::vector<int64_t>> RandomJobs::Cuts(const std::vector<int64_t>& shape,
                                                     const std::vector<int64_t>& partition) {
  std::map<int, std::vector<int64_t>> cuts;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (partition[dim] > 1 && OneIn(2)) cuts[dim] = Sizes(shape[dim], partition[dim]);
  }
  return cuts;
}

std::string RandomJobs::MeshLayout(const std::string& name, const std::vector<int64_t>& shape,
                                   const std::vector<int64_t>& partition, int64_t copies, int64_t world) {
  std::vector<std::pair<int64_t, std::string>> axes = {{copies, "B"}};
  int64_t count = copies;
  for (int dim = 0; dim < static_cast<int>(partition.size()); ++dim) {
    const int64_t outer = partition[dim] % 2 == 0 && OneIn(2) ? 2 : 1;
    if (outer > 1) axes.push_back({outer, absl::StrCat("S(", dim, ")")});
    if (partition[dim] > outer) axes.push_back({partition[dim] / outer, absl::StrCat("S(", dim, ")")});
    count *= partition[dim];
  }
  std::shuffle(axes.begin(), axes.end(), engine_);
  std::string text = absl::StrCat("layout { name: \"", name, "\"");
  for (const auto& [size, placement] : axes) {
    absl::StrAppend(&text, " mesh { size: ", size, " } sbp: \"", placement, "\"");
  }
  absl::StrAppend(&text, " rank: [", absl::StrJoin(Ranks(count, world), ", "), "]");
  for (const auto& [dim, sizes] : Cuts(shape, partition)) {
    absl::StrAppend(&text, " cut { dim: ", dim, " size: ", ListText(sizes), " }");
  }
  return text + " }\n";
}

std::string RandomJobs::AnyLayout(const std::string& name, const std::vector<int64_t>& shape, int64_t world,
                                  bool copies) {
  const std::vector<int64_t> partition = Partition(static_cast<int>(shape.size()), /*whole=*/-1, world);
  const int64_t parts = std::accumulate(partition.begin(), partition.end(), int64_t{1}, std::multiplies<int64_t>());
  if (copies && OneIn(2)) return MeshLayout(name, shape, partition, Between(1, world / parts), world);
  return LayoutText(name, partition, Ranks(parts, world), Cuts(shape, partition));
}

at::Tensor RandomJobs::Normal(const std::vector<int64_t>& shape) {
  at::Tensor result = at::empty(shape, at::kDouble);
  std::normal_distribution<double> normal;
  std::generate_n(result.data_ptr<double>(), result.numel(), [&] { return normal(engine_); });
  return result;
}

at::Tensor RandomJobs::Labels(int64_t n, int64_t classes) {
  at::Tensor result = at::empty({n}, at::kLong);
  std::generate_n(result.data_ptr<int64_t>(), n, [&] { return Between(0, classes - 1); });
  return result;
}

std::string ListText(const std::vector<int64_t>& values) { return absl::StrCat("[", absl::StrJoin(values, ", "), "]"); }

std::string LayoutText(const std::string& name, const std::vector<int64_t>& partition, const std::vector<int>& ranks,
                       const std::map<int, std::vector<int64_t>>& cuts) {
  std::string text = absl::StrCat("layout { name: \"", name, "\" partition: ", ListText(partition), " rank: [",
                                  absl::StrJoin(ranks, ", "), "]");
  for (const auto& [dim, sizes] : cuts) absl::StrAppend(&text, " cut { dim: ", dim, " size: ", ListText(sizes), " }");
  return text + " }\n";
}

void AddRandomInput(RandomJobs& random, const std::string& name, const std::vector<int64_t>& shape, JobParts& job) {
  const std::vector<int64_t> sample(shape.begin() + 1, shape.end());
  if (name == "x") {
    job.batch = shape[0];
    job.x_shape = sample;
  } else {
    job.more_fields.push_back({name, sample});
  }
  job.layouts += random.AnyLayout(absl::StrCat("field_", name), shape, job.ranks, /*copies=*/false) +
                 random.AnyLayout(absl::StrCat("in_", name), shape, job.ranks, /*copies=*/true);
  absl::StrAppend(&job.layers, "layer { name: \"in_", name, "\" input: \"", name, "\" x: \"field_", name, "\" y: \"in_",
                  name, "\" repartition {} }\n");
}

std::string JobText(const JobParts& parts) {
  std::string more_fields;
  for (const auto& [name, shape] : parts.more_fields) {
    absl::StrAppend(&more_fields, " field { name: \"", name, "\" shape: ", ListText(shape), " idx { path: \"x\" } }");
  }
  return absl::StrCat("name: \"case\" kind: TRAIN ranks: ", parts.ranks,
                      " seed: 1 precision { compute: \"float64\" }\n", parts.layouts,
                      LayoutText("rank0", std::vector<int64_t>(parts.last_dims, 1), {0}), parts.layers,
                      "layer { name: \"gathered\" y: \"rank0\" repartition {} }\n"
                      "layer { name: \"flat\" flatten { arg: 1 } }\n"
                      "layer { name: \"head\" linear { out_features: 3 } }\n"
                      "loss { kind: \"cross_entropy\" input: \"head\" target: \"label\" }\n"
                      "dataset { name: \"data\" field { name: \"x\" shape: ",
                      ListText(parts.x_shape), " idx { path: \"x\" } }", more_fields,
                      " field { name: \"label\" dtype: \"int64\" idx { path: \"label\" } } }\n"
                      "train { dataset: \"data\" batch: ",
                      parts.batch, " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

}  // namespace adjoin
