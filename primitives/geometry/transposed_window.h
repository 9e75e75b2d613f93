// A transposed convolution in one spatial dim: output size, and what of the input a range of outputs reads.
//
//   TransposedWindow w = *TransposedWindow::Create({.kernel = 4, .stride = 2, .pad_lo = 1, .pad_hi = 1});
//   *w.OutputSize(5);          // 10
//   w.Reads({4, 8}, 5);        // [1, 5): what outputs 4..7 receive
//   w.Writes({1, 5});          // [1, 11): what inputs 1..4 give to
//
// With input size n, kernel k, stride s, dilation d, padding pl and pr, output padding op:
//   m = (n - 1) s - pl - pr + d (k - 1) + op + 1;
//   output o receives input i when o = i s - pl + d j for a j in [0, k).
// Source: LibTorch's documentation of ConvTranspose2d.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_TRANSPOSED_WINDOW_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_TRANSPOSED_WINDOW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

class TransposedWindow {
 public:
  struct Options {
    int64_t kernel = 1;
    int64_t stride = 1;
    int64_t dilation = 1;
    int64_t pad_lo = 0;
    int64_t pad_hi = 0;
    int64_t output_padding = 0;
  };

  // Errors: kInvalidArgument (kernel, stride or dilation below 1; a padding below 0; an output padding that is not
  // below the stride or the dilation; one of them above 2^31).
  static absl::StatusOr<TransposedWindow> Create(const Options& options);

  const Options& options() const { return options_; }

  // Errors: kInvalidArgument where the input is empty or no output is left.
  absl::StatusOr<int64_t> OutputSize(int64_t n) const;

  // The inputs, within [0, n), that give to `outputs`: their hull. It may be empty where the outputs are not: these are
  // zeros then.
  Interval Reads(Interval outputs, int64_t n) const;
  Need Needed(Interval outputs, int64_t n) const { return Need::Of(Reads(outputs, n)); }

  // The outputs that `inputs` give to, possibly outside [0, m): their hull, which is what a transposed convolution of
  // these inputs without padding returns. Empty for no inputs.
  Interval Writes(Interval inputs) const;

  std::string ToString() const;  // "transposed kernel 4 stride 2 dilation 1 padding 1,1 output_padding 0"

 private:
  explicit TransposedWindow(const Options& options) : options_(options) {}
  Options options_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_TRANSPOSED_WINDOW_H_
