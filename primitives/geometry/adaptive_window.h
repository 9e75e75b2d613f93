// Adaptive pooling in one spatial dim: so many outputs, each of a share of the input.
//
//   AdaptiveWindow w = *AdaptiveWindow::Create(3);
//   w.Reads({1, 2}, 7);      // [2, 5)
//
// With m outputs over n inputs, output o reads [floor(o n / m), ceil((o + 1) n / m)): neighbours may overlap.
// Source: ATen/native/AdaptivePooling.h of LibTorch 1.13.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_ADAPTIVE_WINDOW_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_ADAPTIVE_WINDOW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/need.h"

namespace adjoin {

class AdaptiveWindow {
 public:
  // Errors: kInvalidArgument for less than one output.
  static absl::StatusOr<AdaptiveWindow> Create(int64_t outputs);

  int64_t outputs() const { return outputs_; }
  // Errors: kInvalidArgument where the input is empty.
  absl::StatusOr<int64_t> OutputSize(int64_t n) const;
  // What `outputs`, within [0, outputs()), read of n inputs: their hull. Empty for no outputs.
  Interval Reads(Interval outputs, int64_t n) const;
  Need Needed(Interval outputs, int64_t n) const { return Need::Of(Reads(outputs, n)); }

  std::string ToString() const;  // "adaptive 3"

 private:
  explicit AdaptiveWindow(int64_t outputs) : outputs_(outputs) {}
  int64_t outputs_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_ADAPTIVE_WINDOW_H_
