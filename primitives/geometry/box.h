// Intervals and boxes of global indices.
//
//   Box a({{0, 4}, {2, 6}});                 // rows 0..3, columns 2..5
//   Box b = Box::Whole({8, 8});
//   a.Intersect(b).Volume();                 // 16
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_BOX_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_BOX_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace adjoin {

// Half-open: lo <= i < hi. Any interval with hi <= lo is empty; all empty intervals have size 0.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi > lo ? hi - lo : 0; }
  bool empty() const { return hi <= lo; }
  bool Contains(int64_t i) const { return lo <= i && i < hi; }
  Interval Intersect(Interval other) const;
  // The smallest interval that holds both; an empty one adds nothing.
  Interval Hull(Interval other) const;
  std::string ToString() const;  // "[2, 6)"

  friend bool operator==(Interval a, Interval b) { return a.lo == b.lo && a.hi == b.hi; }
  friend bool operator!=(Interval a, Interval b) { return !(a == b); }
};

// A product of intervals, one per tensor dim. A box without dims (a scalar's) has volume 1.
class Box {
 public:
  Box() = default;
  explicit Box(std::vector<Interval> dims) : dims_(std::move(dims)) {}

  static Box Whole(const std::vector<int64_t>& shape);
  // [0, 0) in each of `dims` dims: volume 0, except that no box without dims is empty.
  static Box Nothing(int dims) { return Box(std::vector<Interval>(dims)); }

  int dims() const { return static_cast<int>(dims_.size()); }
  const Interval& operator[](int dim) const { return dims_[dim]; }
  Interval& operator[](int dim) { return dims_[dim]; }

  int64_t Volume() const;
  bool empty() const { return Volume() == 0; }
  std::vector<int64_t> Shape() const;
  std::vector<int64_t> Origin() const;
  // The index of the cell that is number `position`, from 0, in row-major order. Requires 0 <= position < Volume().
  std::vector<int64_t> CellAt(int64_t position) const;
  // Both boxes have the same number of dims.
  Box Intersect(const Box& other) const;
  bool Contains(const Box& other) const;  // an empty box is contained in any
  std::string ToString() const;           // "[0, 4) x [2, 6)"

  friend bool operator==(const Box& a, const Box& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Box& a, const Box& b) { return !(a == b); }

 private:
  std::vector<Interval> dims_;
};

int64_t VolumeOf(const std::vector<int64_t>& shape);

// Which number, from 0, the cell at `index` has in row-major order: Box::Whole(shape).CellAt's inverse.
int64_t RowMajorPlace(const std::vector<int64_t>& index, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_BOX_H_
