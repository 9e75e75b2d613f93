// Random numbers, meshes and layouts for property tests.
//
//   Draw draw = Draw::FromEnvironment();     // prints the seed; ADJOIN_TEST_SEED sets it
//   Layout x = RandomLayout(draw, {4, 6}, RandomMesh(draw));
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_CASES_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_CASES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  static Draw FromEnvironment();

  // lo <= result <= hi.
  int64_t Between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(engine_); }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  // `parts` sizes that sum to `n`, zeros included.
  std::vector<int64_t> Sizes(int64_t n, int64_t parts);
  std::vector<int64_t> Integers(int64_t count, int64_t lo, int64_t hi);
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// One to eight of the ranks 0 to 8, in any order, with zero to three axes.
Mesh RandomMesh(Draw& draw);
// The same ranks in another order or shape, or other ranks, or the same mesh.
Mesh RelatedMesh(Draw& draw, const Mesh& mesh);
// Any placements (P is P(sum)); every third time explicit cuts.
Layout RandomLayout(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_RANDOM_CASES_H_
