#include "tests/adjoint/random_meshes.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace adjoin {

Mesh RandomMeshOf(Draw& draw, int ranks) {
  std::vector<int64_t> shape;
  int64_t size = 1;
  // Mostly more than one rank: else nothing moves.
  const int64_t axes = draw.OneIn(16) ? 0 : draw.Between(1, 3);
  for (int64_t axis = 0; axis < axes; ++axis) {
    const int64_t most = std::min<int64_t>(ranks / size, draw.OneIn(2) ? ranks : 3);
    shape.push_back(draw.Between(std::min<int64_t>(draw.OneIn(6) ? 1 : 2, most), most));
    size *= shape.back();
  }
  std::shuffle(shape.begin(), shape.end(), draw.engine());
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  std::shuffle(members.begin(), members.end(), draw.engine());
  members.resize(size);
  return *Mesh::Create(shape, members);
}

}  // namespace adjoin
