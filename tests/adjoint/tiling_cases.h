// Random cases of expand and repeat with their truth: LibTorch's own on the gathered tensor.
//
//   const TilingCase c = RandomTilingCase(draw, /*expand=*/true, /*ranks=*/4, DType::kFloat64);
//   ...                                        // results: of every rank, what it makes of c.x_state.local[rank]
//   HoldsParts(c.what, c.y, results, Reference(c, c.x_state.global));
#ifndef ADJOIN_TESTS_ADJOINT_TILING_CASES_H_
#define ADJOIN_TESTS_ADJOINT_TILING_CASES_H_

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

// A global tensor and what each rank holds of it: copies equal, partials adding up to it.
struct GatheredState {
  at::Tensor global;
  std::vector<at::Tensor> local;
};

struct TilingCase {
  TilingCase(bool is_expand, Layout from, Layout to) : expand(is_expand), x(std::move(from)), y(std::move(to)) {}
  std::string what;
  bool expand;
  Layout x;
  Layout y;
  GatheredState x_state;
  GatheredState w_state;           // the state of a cotangent: in y's dual layout
  GatheredState v_state;           // the state of a direction: in x's layout
  std::vector<at::Tensor> x_free;  // per rank, drawn independently, copies differing
  std::vector<at::Tensor> y_free;
};

// States are of whole numbers, so that no sum is rounded in any order; in float64 the free cells are normal.
TilingCase RandomTilingCase(Draw& draw, bool expand, int ranks, DType dtype);
// The serial result for any tensor of c.x's shape, with autograd.
at::Tensor Reference(const TilingCase& c, const at::Tensor& x);

// A box of a global tensor, as a tensor of its own.
at::Tensor SliceOf(at::Tensor global, const Box& box);
// Same shape, dtype and numbers; false for an undefined `a`.
bool SameNumbers(const at::Tensor& a, const at::Tensor& b);
// OK if every rank holds its part of `global`, partials added up.
absl::Status HoldsParts(const std::string& what, const Layout& layout, const std::vector<at::Tensor>& local,
                        const at::Tensor& global);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_TILING_CASES_H_
