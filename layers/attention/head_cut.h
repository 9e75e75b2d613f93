// How the heads of attention are cut over ranks, and where what belongs to a head is: for the rules of layers that
// attend.
//
//   ADJOIN_ASSIGN_OR_RETURN(const HeadCut cut, HeadCutOf(w, /*heads=*/8));            // by the cut of w's last dim
//   ADJOIN_ASSIGN_OR_RETURN(ParameterNeed weight, HeadParameter(spec, cut, dtype, "in_proj_weight",
//                                                               {3, 8, width, features}, /*dim=*/1));
//   weight.stored_shape = {3 * 8 * width, features};
//
// A head is never cut. Pure; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_HEAD_CUT_H_
#define ADJOIN_LAYERS_ATTENTION_HEAD_CUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "proto/job.pb.h"

namespace adjoin {

struct HeadCut {
  Mesh mesh;
  std::vector<bool> axis;      // whether an axis cuts the heads; one of a single rank does not
  std::vector<int64_t> sizes;  // heads of each part; one entry where no axis cuts them
  int64_t width = 0;           // features of a head

  bool cut() const { return sizes.size() > 1; }
  // S(dim) along the axes that cut the heads, B along the others.
  std::vector<Placement> Placements(int dim) const;
};

// By the axes of `w` that split its last dim, the features of all heads. Where each part has whole heads they stay
// there; otherwise the heads are cut evenly over the same parts, some of which may get none. `heads` divides the
// features. Errors: as Layout::Create.
absl::StatusOr<HeadCut> HeadCutOf(const Layout& w, int64_t heads);

// The same parts of other dims as `w`, of `shape`, which has as many dims; its last dim whole, with `along` on the axes
// that cut the heads. Errors: as Layout::Create.
absl::StatusOr<Layout> WithoutHeads(const Layout& w, const HeadCut& cut, std::vector<int64_t> shape, Placement along);

// A parameter of which each head has its own part, along dim `dim` of `shape`: each rank needs that of its heads. Its
// home is there, too, unless the layer says otherwise. Drawn from fan_in 1: see to init, initial or fan_in. Errors: as
// HomeOf.
absl::StatusOr<ParameterNeed> HeadParameter(const Layer& spec, const HeadCut& cut, DType dtype, std::string role,
                                            std::vector<int64_t> shape, int dim);

// A bias [features] of sums over all heads: needed by the first of the ranks that share the heads, so that it is added
// once; it starts as 0. Errors: as HomeOf.
absl::StatusOr<ParameterNeed> BiasOverHeads(const Layer& spec, const HeadCut& cut, DType dtype, std::string role,
                                            int64_t features);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_HEAD_CUT_H_
