#include "proto/killed_by_signal.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace adjoin {
namespace {

TEST(KilledBySignalTest, OnlySignalsThatOthersSendAreFromOutside) {
  EXPECT_EQ(KilledBySignal(9), "was killed by signal 9 (SIGKILL)");
  for (int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    EXPECT_TRUE(WasKilledFromOutside(KilledBySignal(signal) + " after it had finished")) << signal;
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGXCPU, 19, 29, 64}) {
    EXPECT_FALSE(WasKilledFromOutside(KilledBySignal(signal))) << signal;
  }
  EXPECT_FALSE(WasKilledFromOutside("exited with code 9 without a result"));
  EXPECT_FALSE(WasKilledFromOutside("failed: was killed by signal 9 (SIGKILL)")) << "a rank's own words";
}

}  // namespace
}  // namespace adjoin
