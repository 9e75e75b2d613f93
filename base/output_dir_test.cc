#include "base/output_dir.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(OutputDir, KnowsTheNamesThatAttemptsHave) {
  EXPECT_EQ(AttemptFolder(12), "attempt-12");
  for (const char* path :
       {"", "lenet5", "a/b//c/", "./a/.", "attempt-", "attempt-x", "attempt-1x", "attempts", "my-attempt-1", "a.b"}) {
    EXPECT_EQ(ReservedName(path), "") << path;
  }
  EXPECT_EQ(ReservedName("attempt-1"), "attempt-1");
  EXPECT_EQ(ReservedName("bob/attempt-0012/x"), "attempt-0012");
  EXPECT_EQ(ReservedName("bob/.epoch"), ".epoch");
  EXPECT_EQ(ReservedName("./.hidden/x"), ".hidden");
  EXPECT_EQ(ReservedName("a/../b"), "..");
}

}  // namespace
}  // namespace adjoin
