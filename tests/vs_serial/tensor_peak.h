// How much memory a thread's tensors take at most.
//
//   const auto peak = std::make_shared<TensorPeak>();
//   const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
//   ...
//   peak->bytes();
#ifndef ADJOIN_TESTS_VS_SERIAL_TENSOR_PEAK_H_
#define ADJOIN_TESTS_VS_SERIAL_TENSOR_PEAK_H_

#include <algorithm>
#include <cstdint>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "tests/vs_serial/reported_total.h"

namespace adjoin {

// Adds up what the thread allocates and frees while the guard stands.
class TensorPeak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, ReportedTotal, ReportedTotal, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return peak_; }
  // Allocated and not freed yet.
  int64_t held() const { return now_; }

 private:
  int64_t now_ = 0;
  int64_t peak_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_TENSOR_PEAK_H_
