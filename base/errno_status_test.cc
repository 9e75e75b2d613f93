#include "base/errno_status.h"

#include <errno.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(ErrnoStatusTest, MessageNamesWhatFailedAndTheReason) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "/a/b").message(), "/a/b: No such file or directory");
}

TEST(ErrnoStatusTest, CodeSaysWhoCanMendIt) {
  for (const int error : {ENOENT, ENOTDIR}) EXPECT_TRUE(absl::IsNotFound(ErrnoStatus(error, "x")));
  for (const int error : {EACCES, EPERM, EROFS}) EXPECT_TRUE(absl::IsPermissionDenied(ErrnoStatus(error, "x")));
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(error, "x")));
  for (const int error : {EIO, EBUSY, EMFILE}) EXPECT_TRUE(absl::IsUnavailable(ErrnoStatus(error, "x")));
}

}  // namespace
}  // namespace adjoin
