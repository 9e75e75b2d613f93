// Division that rounds down, or up, for negative numbers too: C++'s rounds towards zero.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_INTEGER_DIVISION_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_INTEGER_DIVISION_H_

#include <cstdint>

namespace adjoin {

// `b` is positive.
inline int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
inline int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }
inline int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_INTEGER_DIVISION_H_
