// Sliding windows in one spatial dim: output size, and what of the input a range of outputs reads.
//
//   Window w = *Window::Create({.kernel = 5, .pad_lo = 2, .pad_hi = 2});
//   *w.OutputSize(11);                       // 11
//   w.Needed({4, 8}, 11);                    // outputs 4..7 read inputs 2..9: one segment {[2, 10), at 0}, extent 8
//
// With input size n, kernel k, stride s, dilation d, padding pl and pr:
//   A = n + pl + pr - d (k - 1) - 1,  m = floor(A / s) + 1,
//   with ceil_mode m = floor((A + s - 1) / s) + 1, less 1 if (m - 1) s >= n + pl;
//   outputs [o0, o1) read [o0 s - pl, (o1 - 1) s - pl + d (k - 1) + 1).
// Source: LibTorch's documentation of Conv2d and MaxPool2d.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

// The values outside the input.
enum class Boundary { kZeros, kCircular, kReflect, kReplicate };
// "zeros" (also ""), "circular", "reflect", "replicate".
absl::StatusOr<Boundary> ParseBoundary(absl::string_view name);
std::string ToString(Boundary boundary);

class Window {
 public:
  struct Options {
    int64_t kernel = 1;
    int64_t stride = 1;
    int64_t dilation = 1;
    int64_t pad_lo = 0;  // negative: so many inputs are left out
    int64_t pad_hi = 0;
    Boundary boundary = Boundary::kZeros;
    bool ceil_mode = false;
  };

  // Errors: kInvalidArgument (kernel, stride or dilation below 1; one of them above 2^31; a padding below 0, or
  // ceil_mode, with another boundary than zeros; a padding below -2^31).
  static absl::StatusOr<Window> Create(const Options& options);

  const Options& options() const { return options_; }

  // Outputs for an input of `n` cells.
  // Errors: kInvalidArgument where there is none (the dilated kernel is larger than the padded input), or a circular
  // or reflect padding reaches further than the input allows (PyTorch's limits: n for circular, n - 1 for reflect).
  absl::StatusOr<int64_t> OutputSize(int64_t n) const;

  // The input indices, possibly outside [0, n), that `outputs` read: their hull. Empty for no outputs.
  Interval Reads(Interval outputs) const;

  // The cells that `outputs`, within [0, OutputSize(n)), need of an input of `n` cells. Every boundary is resolved to
  // indices within [0, n).
  Need Needed(Interval outputs, int64_t n) const;
  // At a mirrored boundary: cell i of what the kernel reads is cell IndexMap[i] of what is fetched (its adjoint is an
  // index-add). Empty where the two are the same tensor. As long as what is read: for a rank's own part.
  std::vector<int64_t> IndexMap(Interval outputs, int64_t n) const;

  std::string ToString() const;  // "kernel 5 stride 1 dilation 1 padding 2,2 zeros"

 private:
  explicit Window(const Options& options) : options_(options) {}
  Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_WINDOW_H_
