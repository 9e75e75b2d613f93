// What a fresh result of a movement holds before contributions reach it.
//
//   const InitialCells initial(plan, /*background=*/0, /*covered=*/{});
//   at::Tensor result = initial.New();      // then Communicator::Execute(..., plan, source, result)
//
// Cells that contributions are combined in start as what changes nothing: 0 for a sum, for a maximum minus infinity (of
// a type without it the lowest number, of bools false), for a minimum the opposite.
// A value. Any thread.
#ifndef ADJOIN_PRIMITIVES_INITIAL_CELLS_H_
#define ADJOIN_PRIMITIVES_INITIAL_CELLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/distribution.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {

class InitialCells {
 public:
  // The cells of `plan`'s destination before the movement: those that no contribution reaches get `background`, and 0
  // where they are in `covered`.
  InitialCells(const MovementPlan& plan, double background, const std::vector<Piece>& covered);

  // A contiguous tensor of the plan's shape and type; not initialised where every cell is overwritten.
  at::Tensor New(c10::Device device = c10::Device(c10::kCPU)) const;

 private:
  std::vector<int64_t> shape_;
  c10::ScalarType type_;
  bool overwritten_ = false;
  // The value of a region's cells, and the bytes of one of them.
  struct Value {
    c10::Scalar scalar;
    std::string element;
  };
  static void Fill(at::Tensor& result, const Region& region, const Value& value);

  Value background_;
  std::vector<Region> around_;  // the cells that nothing overwrites, where everything else is one box of cells that are
  std::vector<Region> zeros_;
  Value zero_;
  Value neutral_;
  std::vector<Region> combined_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_INITIAL_CELLS_H_
