// Measures how long one rank takes for the kernel of a layer, with the module's call and autograd, as in a job.
#ifndef ADJOIN_WORKER_CALIBRATION_KERNEL_TIMER_H_
#define ADJOIN_WORKER_CALIBRATION_KERNEL_TIMER_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/rates.pb.h"
#include "worker/calibration/kernel_cases.h"

namespace adjoin {

// What comes on top of kernels, in seconds.
struct CallOverhead {
  double launch = 0;    // of a layer that computes nothing, in one direction
  double forward = 0;   // of a network whatever its layers are
  double backward = 0;  // likewise
};

// Runs a network for `limit` for each number. Errors: what planning or LibTorch fail with.
absl::StatusOr<CallOverhead> MeasureOverhead(absl::Duration limit);

// Runs the kernel for `limit`, at least twice. The times are lower quartiles: what else runs on a machine only adds.
// Errors: what planning or LibTorch fail with; kUnimplemented where this processor's LibTorch lacks the kernel.
absl::StatusOr<KernelRate> MeasureKernel(const KernelCase& kernel, const CallOverhead& overhead, absl::Duration limit);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CALIBRATION_KERNEL_TIMER_H_
