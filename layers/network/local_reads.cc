#include "layers/network/local_reads.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <ATen/ops/tensor.h>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

absl::StatusOr<std::vector<std::map<int, LocalReads>>> LocalReadsOf(const ProgramPlan& program, const LayerPlan& layer,
                                                                    int rank, c10::Device device) {
  std::vector<std::map<int, LocalReads>> result(layer.input_size());
  for (int i = 0; i < std::min(layer.input_size(), layer.reading_size()); ++i) {
    if (layer.reading(i).dim().empty()) continue;
    ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(program.value(layer.input(i)).layout()));
    ADJOIN_ASSIGN_OR_RETURN(const Layout reader, LayoutFromProto(layer.reading(i).reader()));
    const Box outputs = reader.BoxOf(rank);
    for (const ReadingPlan& message : layer.reading(i).dim()) {
      ADJOIN_ASSIGN_OR_RETURN(Reading reading, ReadingFromProto(message, x, reader));
      const int dim = static_cast<int>(message.dim());
      const std::vector<int64_t> map = reading.IndexMap(outputs[dim], x.shape()[dim]);
      at::Tensor boundary;
      if (!map.empty()) boundary = at::tensor(map, at::kLong).to(device);
      result[i].emplace(dim, LocalReads{std::move(reading), outputs[dim], x.shape()[dim], std::move(boundary)});
    }
  }
  return result;
}

}  // namespace adjoin
