#include "primitives/geometry/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace adjoin {
namespace {

// Every list with its length before it, so that no two distributions give the same numbers.
class FingerprintNumbers {
 public:
  void Add(int64_t number) { numbers_.push_back(number); }
  template <typename T>
  void AddList(const std::vector<T>& list) {
    Add(static_cast<int64_t>(list.size()));
    for (const T& number : list) Add(number);
  }

  void Add(const Distribution& distribution) {
    AddList(distribution.global_shape());
    Add(static_cast<int64_t>(distribution.dtype()));
    AddList(distribution.mesh().shape());
    AddList(distribution.mesh().ranks());
    for (const Placement& placement : distribution.placements()) {
      Add(static_cast<int64_t>(placement.kind));
      Add(placement.dim);
      Add(static_cast<int64_t>(placement.reduce));
    }
    for (int64_t position = 0; position < distribution.mesh().size(); ++position) Add(distribution.ViewAt(position));
  }

  uint64_t Hash() const { return XXH3_64bits(numbers_.data(), numbers_.size() * sizeof(int64_t)); }

 private:
  void Add(const LocalView& view) {
    AddList(view.shape);
    Add(static_cast<int64_t>(view.pieces.size()));
    for (const Piece& piece : view.pieces) {
      AddList(piece.at);
      AddList(piece.box.Origin());
      AddList(piece.box.Shape());
    }
  }

  std::vector<int64_t> numbers_;
};

}  // namespace

uint64_t FingerprintOf(const Distribution& from, const Distribution& to) {
  FingerprintNumbers numbers;
  numbers.Add(from);
  numbers.Add(to);
  return std::max<uint64_t>(1, numbers.Hash());
}

}  // namespace adjoin
