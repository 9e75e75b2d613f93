#include "worker/calibration/calibrate.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/Version.h>
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/calibration/kernel_cases.h"
#include "worker/calibration/kernel_timer.h"
#include "worker/calibration/lane_timer.h"

namespace adjoin {

absl::StatusOr<RateTable> Calibrate(Transport& transport, absl::Duration limit,
                                    const std::function<void(const std::string&)>& log) {
  RateTable rates;
  rates.set_software(absl::StrCat("LibTorch ", TORCH_VERSION));
  rates.set_measured_unix_ms(absl::ToUnixMillis(absl::Now()));
  rates.set_ranks_at_once(transport.size());
  const std::vector<KernelCase> cases = KernelCases();
  // A part for the overhead, one for the movements.
  const absl::Duration each = limit / static_cast<double>(cases.size() + 20);
  ADJOIN_ASSIGN_OR_RETURN(const CallOverhead overhead, MeasureOverhead(10 * each));
  rates.set_launch_seconds(overhead.launch);
  rates.set_step_seconds(overhead.forward + overhead.backward);
  for (const KernelCase& kernel : cases) {
    absl::StatusOr<KernelRate> rate = MeasureKernel(kernel, overhead, each);
    if (rate.ok()) {
      *rates.add_kernel() = *std::move(rate);
    } else {
      log(absl::StrCat("left out: ", std::string(rate.status().message())));
    }
  }
  if (transport.size() > 1) {
    ADJOIN_ASSIGN_OR_RETURN(LaneRate lane, MeasureLane(transport, 10 * each));
    *rates.add_lane() = lane;
  }
  return rates;
}

}  // namespace adjoin
