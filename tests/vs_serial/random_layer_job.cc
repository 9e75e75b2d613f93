#include "tests/vs_serial/random_layer_job.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"

namespace adjoin {

JobParts RandomLayerJob(RandomJobs& random, const std::string& op, int64_t ranks, const std::vector<int64_t>& x_shape,
                        const std::vector<int64_t>& y_shape) {
  const int dims = static_cast<int>(x_shape.size());
  const std::vector<int64_t> partition = random.Partition(dims, /*whole=*/-1, ranks);
  const int64_t parts = VolumeOf(partition), copies = random.OneIn(4) ? random.Between(1, ranks / parts) : 0;
  const std::vector<int> on = random.Ranks(parts, ranks);
  JobParts job;
  job.ranks = ranks;
  job.batch = x_shape[0];
  job.x_shape.assign(x_shape.begin() + 1, x_shape.end());
  job.last_dims = dims;
  const auto cuts = random.Cuts(x_shape, partition);
  job.layouts =
      copies > 0 ? random.MeshLayout("x", x_shape, partition, copies, ranks) : LayoutText("x", partition, on, cuts);
  std::string head = "name: \"y\" input: \"x\"", y;
  // A field with copies would have partial gradients, and the comparison is with whole ones.
  if (copies > 0 || random.OneIn(3)) {
    const std::vector<int64_t> other = random.Partition(dims, -1, ranks);
    job.layouts += LayoutText("other", other, random.Ranks(VolumeOf(other), ranks), random.Cuts(x_shape, other));
    job.layers = "layer { name: \"before\" input: \"x\" x: \"other\" y: \"other\" repartition {} }\n";
    head = "name: \"y\"";
  }
  if (random.OneIn(3)) {
    const bool same_mesh = copies == 0 && random.OneIn(2);
    const std::vector<int64_t> of_y = same_mesh ? partition : random.Partition(dims, -1, ranks);
    auto cuts_of_y = random.Cuts(y_shape, of_y);
    // Cut alike in batch and channels, it is computed where it lies.
    for (int dim : {0, 1}) {
      if (!same_mesh || x_shape[dim] != y_shape[dim]) continue;
      cuts_of_y.erase(dim);
      if (cuts.count(dim) > 0) cuts_of_y[dim] = cuts.at(dim);
    }
    const int64_t copies_of_y = !same_mesh && random.OneIn(3) ? random.Between(1, ranks / VolumeOf(of_y)) : 0;
    job.layouts += copies_of_y > 0
                       ? random.MeshLayout("y", y_shape, of_y, copies_of_y, ranks)
                       : LayoutText("y", of_y, same_mesh ? on : random.Ranks(VolumeOf(of_y), ranks), cuts_of_y);
    y = "y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { ", head, " x: \"x\" ", y, " ", op, " }\n");
  return job;
}

}  // namespace adjoin
