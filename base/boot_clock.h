// CLOCK_BOOTTIME: runs on while the machine sleeps, never jumps, and is the same for all processes of a machine. What a
// process may do until some time that another process named is measured with it.
//
//   int64_t until = BootTimeNanos() + absl::ToInt64Nanoseconds(absl::Seconds(120));
#ifndef ADJOIN_BASE_BOOT_CLOCK_H_
#define ADJOIN_BASE_BOOT_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace adjoin {

// Nanoseconds since the machine started.
inline int64_t BootTimeNanos() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_BOOT_CLOCK_H_
