#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace adjoin {
namespace {

TEST(ProcessMemoryTest, CountsAnonymousMemoryAndWhatWasTouched) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  constexpr int64_t kOfOthers = int64_t{4} << 20;  // what the runtime of a sanitizer may take or give back meanwhile
  const ProcessMemory before = ProcessMemoryInUse();
  EXPECT_GT(before.data, 0);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_NEAR(ProcessMemoryInUse().data, before.data + kBytes, kOfOthers);
  memset(mapped, 1, kBytes);
  munmap(mapped, kBytes);
  EXPECT_GE(ProcessMemoryInUse().most_resident, kBytes);
  EXPECT_NEAR(ProcessMemoryInUse().data, before.data, kOfOthers);
}

TEST(ProcessMemoryTest, TheMachineHasWhatSysconfTells) {
  const MachineMemory machine = MachineMemoryNow();
  const int64_t pages = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_NEAR(static_cast<double>(machine.total), static_cast<double>(pages), 0.01 * static_cast<double>(pages));
  EXPECT_GT(machine.available, 0);
  EXPECT_LE(machine.available, machine.total);
}

}  // namespace
}  // namespace adjoin
