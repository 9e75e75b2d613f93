#include "primitives/expand.h"

#include "base/status_macros.h"
#include "primitives/geometry/tiling.h"

namespace adjoin {

absl::StatusOr<Layout> Expand::OutputLayout(const Layout& x, const std::vector<int64_t>& sizes) {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, ExpandedShape(x.shape(), sizes));
  return Tiling::OutputLayout("expand", x, std::move(shape));
}

absl::StatusOr<std::unique_ptr<Expand>> Expand::Create(Communicator* communicator, const Layout& x,
                                                       const std::vector<int64_t>& sizes, Movement::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(x, sizes));
  return CreateTo(communicator, x, y, std::move(options));
}

absl::StatusOr<std::unique_ptr<Expand>> Expand::CreateTo(Communicator* communicator, const Layout& x, const Layout& y,
                                                         Movement::Options options) {
  // More than one tile of several cells would be a repeat.
  ADJOIN_RETURN_IF_ERROR(ExpandedShape(x.shape(), y.shape()).status());
  ADJOIN_ASSIGN_OR_RETURN(Parts parts, Prepare("expand", communicator, x, y, std::move(options)));
  return std::unique_ptr<Expand>(new Expand(std::move(parts)));
}

at::Tensor Expand::Tile(const at::Tensor& x) const { return x.expand(output_shape()); }

at::Tensor Expand::TileAdjoint(const at::Tensor& y, const std::vector<int64_t>& read) const {
  const std::size_t new_dims = y.dim() - read.size();
  std::vector<int64_t> grown;
  for (std::size_t d = 0; d < output_shape().size(); ++d) {
    if (d < new_dims || output_shape()[d] != read[d - new_dims]) grown.push_back(static_cast<int64_t>(d));
  }
  // Without dims to add up over, LibTorch would add up all of them.
  return grown.empty() ? y.clone(at::MemoryFormat::Contiguous)
                       : y.sum(grown, /*keepdim=*/true, y.scalar_type()).reshape(read);
}

}  // namespace adjoin
