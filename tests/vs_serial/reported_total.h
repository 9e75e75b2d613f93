// The type in which LibTorch reports a device's totals of memory: size_t, or int64_t in LibTorch 1.
//
//   void reportMemoryUsage(void*, int64_t size, ReportedTotal, ReportedTotal, c10::Device) override { ... }
#ifndef ADJOIN_TESTS_VS_SERIAL_REPORTED_TOTAL_H_
#define ADJOIN_TESTS_VS_SERIAL_REPORTED_TOTAL_H_

#include <cstdint>

#include <c10/core/Allocator.h>

namespace adjoin {
namespace internal {

template <typename Total>
Total TypeOfTotal(void (c10::MemoryReportingInfoBase::*)(void*, int64_t, Total, Total, c10::Device));

}  // namespace internal

using ReportedTotal = decltype(internal::TypeOfTotal(&c10::MemoryReportingInfoBase::reportMemoryUsage));

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_REPORTED_TOTAL_H_
