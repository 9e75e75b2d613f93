// Who computes what of a convolution: one mesh of ranks, and what each of its axes cuts.
//
//   ADJOIN_ASSIGN_OR_RETURN(ConvGrid grid, ConvGrid::Create(request, extents));
//   grid.Parts(ConvAxis::Kind::kIn);    // so many partial sums of each output
//
// Along an axis of the mesh
//
//              input    weight      bias   product   is cut
//   kDim       S(d)     B           B      S(d)      the batch, or a spatial dim (the input's: what the outputs read)
//   kGroup     S(1)     S(0)        S(0)   S(1)      the channels into runs of whole groups
//   kOut       B        S(w_out)    S(0)   S(1)      the output channels of each group
//   kIn        S(1)     S(w_in)     0      P(sum)    the input channels of each group
//   kCopies    B        B           B      B         nothing
//
// where the weight is [out, in / groups, kernel...]: w_out = 0, w_in = 1; of a transposed convolution
// [in, out / groups, kernel...]: w_out = 1, w_in = 0. Batch, feature, channel and general convolution (the words of
// DistDL) are this with some axes of size 1. The bias is added on index 0 along kIn: once per output.
#ifndef ADJOIN_LAYERS_CONV_CONV_GRID_H_
#define ADJOIN_LAYERS_CONV_CONV_GRID_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

// Global numbers of the layer.
struct ConvExtents {
  int64_t groups = 1;
  int64_t in = 0;  // channels, of all groups
  int64_t out = 0;
  bool transposed = false;
  std::vector<int64_t> weight;  // shape
  std::vector<int64_t> output;  // shape
};

struct ConvAxis {
  enum class Kind { kDim, kGroup, kOut, kIn, kCopies };
  Kind kind = Kind::kCopies;
  int dim = -1;  // of kDim
};

class ConvGrid {
 public:
  // With Layer.w from the weight's layout. Without, from the input's: nothing of it moves, but for what a halo exchange
  // fetches, and where its channels are cut within groups, and not alike in all of them. Then y, on the same mesh, may
  // cut the output's channels along axes along which the input is the same.
  // Errors: kInvalidArgument, at "w" or "y".
  static absl::StatusOr<ConvGrid> Create(const LayerRequest& request, const ConvExtents& extents);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<ConvAxis>& axes() const { return axes_; }  // one per axis of the mesh
  // Along all axes of a kind; of kDim: of its dim.
  int64_t Parts(ConvAxis::Kind kind, int dim = -1) const;
  bool HasWholeWeight() const;  // on every rank
  // Sizes of the channels' parts: the input's along kGroup and kIn, the output's along kGroup and kOut; in one group.
  std::vector<int64_t> InputParts() const;
  std::vector<int64_t> OutputParts() const;
  const std::vector<int64_t>& InputPartsOfGroup() const { return in_; }
  const std::vector<int64_t>& OutputPartsOfGroup() const { return out_; }

 private:
  explicit ConvGrid(Mesh mesh) : mesh_(std::move(mesh)) {}
  static absl::StatusOr<ConvGrid> FromInput(const Layout& x, const ConvExtents& extents);
  static absl::StatusOr<ConvGrid> FromWeight(const Layout& w, const Layout& x, const ConvExtents& extents);
  void CutOutputsLike(const Layout& y);
  void NameExtraAxes(const std::vector<int>& extra, const Layout& x);
  absl::Status GroupWeightAxes(const Layout& w, const ConvExtents& extents);
  // Puts the axes `first`, then `second`, last and reads them as axes of the given sizes and kinds.
  absl::Status Regroup(const std::vector<int>& first, const std::vector<int>& second,
                       const std::vector<std::pair<int64_t, ConvAxis::Kind>>& as);

  Mesh mesh_;
  std::vector<ConvAxis> axes_;
  // Along kGroup, in groups; along kIn and kOut, in channels of one group. Where one of these has several parts, no
  // part along kGroup has several groups.
  std::vector<int64_t> groups_;
  std::vector<int64_t> in_;
  std::vector<int64_t> out_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_CONV_GRID_H_
