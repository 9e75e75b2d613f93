// Shapes in messages.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_SHAPE_TEXT_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_SHAPE_TEXT_H_

#include <string>

#include "absl/strings/str_join.h"

namespace adjoin {

// Returns "64x1x28x28"; "scalar" where there are no dims. `shape` is any list of extents: a vector, a message's field,
// a torch::IntArrayRef.
template <typename Shape>
std::string ShapeText(const Shape& shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_SHAPE_TEXT_H_
