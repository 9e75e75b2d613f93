// Expand: PyTorch's Tensor.expand on a global tensor. Dims of extent 1 grow, new dims come first; no cell is copied.
//
//   // x 4x3x1x2 on mesh 2: S(3)  ->  y 2x4x3x4x2 on mesh 2: S(4); on each rank 4x3x1x1 -> a view 2x4x3x4x1
//   std::unique_ptr<Expand> f = *Expand::Create(&communicator, x, {2, -1, -1, 4, -1}, {.id = 3, .name = "fc1.x"});
//   at::Tensor y = f->Apply(x_local, tape);
//
// -1 keeps the extent of a dim that exists; a size of 0 makes a tensor without cells, whose gradient is zeros.
//
// Legal placements. The input: S, B, P(sum). The output, per axis of the same mesh (d, e: dims as the output counts
// them):
// - P(sum) stays P(sum); S(d) of a dim that does not grow stays S(d) with its cuts;
// - B stays B, or becomes S(e) of a dim that grows or is new, cut at will: each rank then expands only to its own part;
// - S(d) of a dim that grows becomes S(e) of any dim that grows or is new, B, or P(sum).
// Other layouts are refused with what would be legal: Redistribute before or after.
//
// The default output keeps every placement. A grown dim that is split stays split: cut evenly if it was (1, 0, ...,
// 0), else on the one rank that had it.
//
// Without bytes: everything, except where an axis splits a dim that grows and a rank other than the owner of that one
// index has a part of it; then its cells are sent to each rank that makes something of them. To P(sum) without bytes:
// the owner expands, the others hold zeros.
//
// Where nothing moves, the result is a view of `x` (strides 0 along what grew), as in PyTorch: to write to it, or to
// keep it while `x` changes, clone it. The adjoint adds up what grew on each rank (in the dual layouts: of B along
// which the output is split that is a partial sum), then goes back along the movement.
#ifndef ADJOIN_PRIMITIVES_EXPAND_H_
#define ADJOIN_PRIMITIVES_EXPAND_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"
#include "primitives/tiling_operator.h"

namespace adjoin {

class Expand : public TilingOperator {
 public:
  // To the default output. `sizes` as for Tensor.expand.
  // Errors: kInvalidArgument (what ExpandedShape and Tiling refuse; a fill); as Movement::Create.
  static absl::StatusOr<std::unique_ptr<Expand>> Create(Communicator* communicator, const Layout& x,
                                                        const std::vector<int64_t>& sizes, Movement::Options options);
  // To `y`, whose shape says the sizes.
  static absl::StatusOr<std::unique_ptr<Expand>> CreateTo(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // The default output's layout. Errors: as Create.
  static absl::StatusOr<Layout> OutputLayout(const Layout& x, const std::vector<int64_t>& sizes);

 protected:
  at::Tensor Tile(const at::Tensor& x) const override;
  at::Tensor TileAdjoint(const at::Tensor& y, const std::vector<int64_t>& read) const override;

 private:
  explicit Expand(Parts parts) : TilingOperator(std::move(parts)) {}
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_EXPAND_H_
