#include "worker/calibration/calibrate.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/version.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/all_gather.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"
#include "primitives/status_exception.h"
#include "worker/calibration/kernel_cases.h"
#include "worker/calibration/kernel_timer.h"
#include "worker/calibration/lane_timer.h"

namespace adjoin {
namespace {

constexpr absl::Duration kMeetingTimeout = absl::Seconds(60);

// Where ranks wait for each other.
class Meeting {
 public:
  explicit Meeting(Transport& transport) : communicator_(&transport, &memory_, {/*id=*/1, kMeetingTimeout}) {}

  absl::Status Create() {
    std::vector<int> all;
    for (int rank = 0; rank < communicator_.size(); ++rank) all.push_back(rank);
    ADJOIN_ASSIGN_OR_RETURN(const Layout each,
                            Layout::Partition({communicator_.size()}, DType::kFloat64, {communicator_.size()}, all));
    ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({communicator_.size()}, DType::kFloat64, all));
    ADJOIN_ASSIGN_OR_RETURN(gather_, AllGather::Create(&communicator_, each, everywhere,
                                                       {.id = 1, .name = "calibration", .differentiable = false}));
    return absl::OkStatus();
  }
  absl::Status Wait() {
    try {
      gather_->Forward(at::zeros({1}, at::kDouble));
      return absl::OkStatus();
    } catch (...) {
      return StatusFromCurrentException();
    }
  }

 private:
  HostMemory memory_;
  Communicator communicator_;
  std::shared_ptr<Movement> gather_;
};

}  // namespace

absl::StatusOr<RateTable> Calibrate(Transport& transport, absl::Duration limit,
                                    const std::function<void(const std::string&)>& log) {
  RateTable rates;
  rates.set_software(absl::StrCat("LibTorch ", TORCH_VERSION));
  rates.set_measured_unix_ms(absl::ToUnixMillis(absl::Now()));
  rates.set_ranks_at_once(transport.size());
  const std::vector<KernelCase> cases = KernelCases();
  // A part for the overhead, one for the movements.
  const absl::Duration each = limit / static_cast<double>(cases.size() + 20);
  Meeting meeting(transport);
  ADJOIN_RETURN_IF_ERROR(meeting.Create());
  ADJOIN_ASSIGN_OR_RETURN(const CallOverhead overhead, MeasureOverhead(10 * each));
  rates.set_launch_seconds(overhead.launch);
  rates.set_step_seconds(overhead.forward + overhead.backward);
  for (const KernelCase& kernel : cases) {
    // All measure it at one time, and share the memory's bandwidth as the ranks of a job do.
    ADJOIN_RETURN_IF_ERROR(meeting.Wait());
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
