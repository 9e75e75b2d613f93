// Measures what movements between two ranks cost.
#ifndef ADJOIN_WORKER_CALIBRATION_LANE_TIMER_H_
#define ADJOIN_WORKER_CALIBRATION_LANE_TIMER_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"
#include "proto/rates.pb.h"

namespace adjoin {

// Collective: ranks 0 and 1 of a transport that has two or more; the others take no part. Takes about `limit`. Both
// return what they have measured. Errors: as Movement::Create, and what the transport fails with.
absl::StatusOr<LaneRate> MeasureLane(Transport& transport, absl::Duration limit);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CALIBRATION_LANE_TIMER_H_
