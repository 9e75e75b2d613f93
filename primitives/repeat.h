// Repeat: PyTorch's Tensor.repeat on a global tensor. In each dim y[j] = x[j mod n]; new dims come first.
//
//   // x 6x5 on mesh 2: S(0)  ->  y 2x12x5 on mesh 2: S(1), each rank's rows twice as many
//   std::unique_ptr<Repeat> f = *Repeat::Create(&communicator, x, {2, 2, 1}, {.id = 4, .name = "tile"});
//   at::Tensor y = f->Apply(x_local, tape);
//
// 0 repeats make a tensor without cells, whose gradient is zeros.
//
// Legal placements. The input: S, B, P(sum). The output, per axis of the same mesh (d, e: dims as the output counts
// them):
// - P(sum) stays P(sum); S(d) of a dim that is not repeated stays S(d) with its cuts;
// - B stays B, or becomes S(e) of a dim that is repeated or new, cut at will;
// - S(d) of a repeated dim becomes S(e) of any dim that is repeated or new, B, or P(sum).
// Other layouts are refused with what would be legal: Redistribute before or after.
//
// The default output keeps every placement, so a repeated dim that is split stays split: evenly if it was, else each
// part grows by the number of repeats.
//
// What moves: where an axis splits a repeated dim, a rank's part of y is a run of indices that may go around x's end;
// each rank receives the cells of that run which it does not hold, each once however often it repeats them, in one
// exchange. Nothing moves
// - where no repeated dim is split in x, whatever the output's cuts, or one rank has all of it;
// - where copy k of the dim goes to coordinate k of an axis along which x is B and that comes before the axes that
//   split x's dim: x [B, S(0)] on mesh 2x3 repeated twice to y [S(0), S(0)], with y's cuts those of x twice over;
// - to P(sum): each rank repeats its own part within y's whole extent, the rest of which is zeros.
//
// Results are freshly owned. The adjoint adds up the copies on each rank, then goes back along the exchange, adding.
#ifndef ADJOIN_PRIMITIVES_REPEAT_H_
#define ADJOIN_PRIMITIVES_REPEAT_H_

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

class Repeat : public TilingOperator {
 public:
  // To the default output. `repeats` as for Tensor.repeat.
  // Errors: kInvalidArgument (what RepeatedShape and Tiling refuse; a fill); as Movement::Create.
  static absl::StatusOr<std::unique_ptr<Repeat>> Create(Communicator* communicator, const Layout& x,
                                                        const std::vector<int64_t>& repeats, Movement::Options options);
  // To `y`, whose shape says the repeats: every extent is a multiple of x's.
  static absl::StatusOr<std::unique_ptr<Repeat>> CreateTo(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // The default output's layout. Errors: as Create.
  static absl::StatusOr<Layout> OutputLayout(const Layout& x, const std::vector<int64_t>& repeats);

 protected:
  at::Tensor Tile(const at::Tensor& x) const override;
  at::Tensor TileAdjoint(const at::Tensor& y, const std::vector<int64_t>& read) const override;

 private:
  explicit Repeat(Parts parts);

  std::vector<DimTile> tiles_;  // one per dim of y, new ones included; empty where this rank's part of y is
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_REPEAT_H_
