// The part of a calibration that a rank's program does: it measures kernels side by side with others, and movements
// between the first two.
#ifndef ADJOIN_WORKER_CALIBRATION_CALIBRATE_H_
#define ADJOIN_WORKER_CALIBRATION_CALIBRATE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"
#include "proto/rates.pb.h"

namespace adjoin {

// Takes about `limit`. Collective over the transport's ranks: each measures every kernel, at the same time as the
// others. A kernel that LibTorch lacks here is left out. `log`: what is left out and why.
// Errors: as MeasureOverhead and MeasureLane.
absl::StatusOr<RateTable> Calibrate(Transport& transport, absl::Duration limit,
                                    const std::function<void(const std::string&)>& log);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CALIBRATION_CALIBRATE_H_
