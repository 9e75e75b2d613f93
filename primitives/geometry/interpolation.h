// Interpolation in one spatial dim: from which input cells, with which weights, each output cell is made.
//
//   Interpolation twice = *Interpolation::Create({.mode = Interpolation::Mode::kLinear, .inputs = 4, .outputs = 8});
//   twice.taps();           // 2
//   twice.TapOf(3, 0);      // {1, 0.75}: output 3 is at 0.5 * 3.5 - 0.5 = 1.25
//   twice.TapOf(3, 1);      // {2, 0.25}
//   twice.Reads({3, 5});    // [1, 3)
//
// Output o is at the global input coordinate
//   r (o + 1/2) - 1/2   (linear: at least 0)     or, with align_corners and for nearest,     r o;
//   r = 1 / scale where the user gave one, else inputs / outputs;
//   with align_corners (inputs - 1) / (outputs - 1), or 0 for a single output.
// Nearest reads the cell below, nearest-exact the one that r (o + 1/2) lies in, linear the two around it, cubic four
// (a = -0.75); beyond the borders are copies of the border's cell. r is rounded to the tensor's type. Equal extents
// copy, except that all but linear follow a scale other than 1.
//
// LibTorch has several definitions of the nearest modes, which round at other places, so a coordinate close to a cell's
// border may lie on either side of it. Which one holds depends on the release, the type, the number of channels and
// dims, and the memory format. Reads has the cells of all of them; the layer asks LibTorch which of these an output
// is a copy of. They are one and the same for most pairs of extents, and for all scales that are powers of 2.
// Source: ATen/native/UpSample.h and cpu/UpSampleKernel.cpp of LibTorch 1.13 and 2.6.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_INTERPOLATION_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_INTERPOLATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

class Interpolation {
 public:
  enum class Mode { kNearest, kLinear, kCubic, kNearestExact };

  struct Options {
    Mode mode = Mode::kNearest;
    int64_t inputs = 0;  // the global extents
    int64_t outputs = 0;
    bool align_corners = false;
    double scale = 0;  // the user's factor; 0: from the extents
    DType dtype = DType::kFloat32;
  };

  // One input cell and its weight.
  struct Tap {
    int64_t index = 0;
    double weight = 0;
    friend bool operator==(const Tap& a, const Tap& b) { return a.index == b.index && a.weight == b.weight; }
  };

  // Errors: kInvalidArgument (an extent below 1; align_corners with a nearest mode; a scale that does not lead from
  // `inputs` to `outputs`).
  static absl::StatusOr<Interpolation> Create(const Options& options);

  // floor(inputs * scale). Errors: kInvalidArgument where the scale is not a positive number, and where that leaves no
  // output or more than 2^56.
  static absl::StatusOr<int64_t> OutputSize(int64_t inputs, double scale);

  const Options& options() const { return options_; }
  // True where output i is input i, for every i.
  bool copies() const;
  // How many input cells an output is made of: 1, 2 or 4. Some may be the same cell (at the borders), or weigh 0.
  int taps() const;
  // 0 <= output < outputs, 0 <= tap < taps(). Indices grow with the output and with the tap. Not for the nearest modes,
  // unless it copies.
  Tap TapOf(int64_t output, int tap) const;
  // The input cells that `outputs`, within [0, outputs), may read: their hull. Empty for no outputs.
  Interval Reads(Interval outputs) const;

  std::string ToString() const;  // "linear 4 to 8", "cubic 4 to 8 align_corners", "nearest 4 to 9 scale 2.3"

 private:
  Interpolation(const Options& options, double ratio) : options_(options), ratio_(ratio) {}
  double Coordinate(int64_t output) const;
  Interval NearestCells(int64_t output) const;
  Options options_;
  double ratio_;  // r
};

bool IsNearest(Interpolation::Mode mode);

// "nearest", "linear", "cubic", "nearest-exact".
absl::StatusOr<Interpolation::Mode> ParseInterpolationMode(absl::string_view name);
std::string ToString(Interpolation::Mode mode);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_INTERPOLATION_H_
