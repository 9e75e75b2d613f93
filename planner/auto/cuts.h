// The ways in which a layer may be cut, as layouts with names.
//
//   for (const WorkCut& cut : CutsOf({64, 3, 224, 224}, /*outputs=*/true, /*ranks=*/8)) {
//     InputLayout(cut, {64, 3, 224, 224});        // 2x1x4x1: partition [2, 1, 4, 1]
//   }
//
// A cut divides the work by axes of ranks: each cuts one dim of the input, or what the layer returns while its input is
// the same on all ranks of the axis. Factors in every order, of the number of ranks and of its divisors.
#ifndef ADJOIN_PLANNER_AUTO_CUTS_H_
#define ADJOIN_PLANNER_AUTO_CUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

inline constexpr int kMostCutDims = 3;

struct WorkCut {
  struct Axis {
    int parts = 1;
    int dim = 0;           // of the input; with `outputs`: of none
    bool outputs = false;  // cuts what the layer returns
  };
  std::vector<Axis> axis;  // in order of the dims, that of the outputs last; each has 2 parts or more
  int ranks = 1;           // the product

  bool CutsOutputs() const { return !axis.empty() && axis.back().outputs; }
};

// Cuts of an input of `shape` over `ranks` and fewer ranks, the latter in at most two dims. No dim has more parts than
// cells. Of more than 8 ranks not all: no uneven ones, none of three dims that mix channels with others, fewer ranks in
// one dim only. `outputs`: also of what the layer returns. The first one is on one rank alone.
std::vector<WorkCut> CutsOf(const std::vector<int64_t>& shape, bool outputs, int ranks);

// How an input of `shape` lies: cut as `cut` says of `of`, another input whose dims its own are the last of; where it
// has no such dim, or too short a one, it is the same along the axis. Named: "1x1x2x2", a partition, where every rank
// has a part of its own; else "2x4.S0.B", a mesh.
LayoutSpec InputLayout(const WorkCut& cut, const std::vector<int64_t>& of, const std::vector<int64_t>& shape);

// The same mesh for a tensor whose `dim` is cut by the axis of the outputs; the other axes cut the dims of the input.
LayoutSpec OutputLayout(const WorkCut& cut, int dims, int dim);

// "batch/4", "batch/2 dim2/2", "outputs/4", "one rank"; for people.
std::string Describe(const WorkCut& cut);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_CUTS_H_
