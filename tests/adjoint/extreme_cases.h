// Random movements from P(max) and P(min) with their truth: torch.amax and torch.amin of the stacked partials, and what
// LibTorch's autograd makes of them.
//
//   ExtremeCase c = RandomExtremeCase(draw, /*ranks=*/4, DType::kFloat64);
//   auto movement = *Redistribute::Create(&communicator, c.from, c.to, {.id = 1});   // on every rank, on c.x[rank]
//   ExpectAmax(c, results, /*ranks=*/4);
//
// Nothing here knows of schedules: only of which box of the global tensor a layout gives a rank.
#ifndef ADJOIN_TESTS_ADJOINT_EXTREME_CASES_H_
#define ADJOIN_TESTS_ADJOINT_EXTREME_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

struct ExtremeCase {
  std::string what;  // for messages
  Layout from;
  Layout to;
  ReduceOp reduce;
  bool named = false;    // by AllMaxReduce or AllMinReduce
  bool special = false;  // NaN and infinities among the cells
  at::Tensor stack;      // every partial of the global tensor
  // Per rank: its part of its partial; of the destination a cotangent (the same on all partials of a cell); of the
  // source a weight for second derivatives; cells as x, of which no two are equal: replicas differ.
  std::vector<at::Tensor> x;
  std::vector<at::Tensor> cotangent;
  std::vector<at::Tensor> weight;
  std::vector<at::Tensor> free;
};

// Any layouts on some of the ranks 0 .. ranks-1, all partial axes of the source with one reduction.
ExtremeCase RandomExtremeCase(Draw& draw, int ranks, DType dtype);
// A case between given layouts: random cells, half the time few different ones.
ExtremeCase ExtremeCaseOf(Draw& draw, const Layout& from, const Layout& to, ReduceOp reduce, int ranks);

// True where the case's second derivatives are compared: in float64, without NaN, and without replicas of the source.
// (The selection says which of these has the gradient, and its square depends on that.)
bool HasSecond(const ExtremeCase& c);

// What the ranks found, per rank.
struct ExtremeResults {
  explicit ExtremeResults(int ranks) : y(ranks), first(ranks), second(ranks), of_cotangent(ranks), free_slope(ranks) {}
  std::vector<at::Tensor> y;
  std::vector<at::Tensor> first;         // the gradient of sum(c y)
  std::vector<at::Tensor> second;        // the gradient of sum(v g^2), with g the gradient of sum(c y^2)
  std::vector<at::Tensor> of_cotangent;  // the same in c
  std::vector<at::Tensor> free_slope;    // (by the gradient, by differences), of the free cells
};

// Fails the test where the ranks' results are not those of LibTorch on the whole tensor. A rank's gradients may be
// undefined where the type has none.
void ExpectAmax(const ExtremeCase& c, const ExtremeResults& results, int ranks);

// What `rank` holds of `global`, a view.
at::Tensor SliceOf(at::Tensor global, const Layout& layout, int rank);
// `layout` with other placements, and the same cuts.
Layout WithPlacements(const Layout& layout, const std::function<Placement(Placement)>& change);
// Same shape and type, and no cell further off than `tolerance`, absolute or relative; NaN is near NaN.
bool Near(const at::Tensor& a, const at::Tensor& b, double tolerance);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_EXTREME_CASES_H_
