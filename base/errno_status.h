// The status for a system call that failed.
//
//   if (fd < 0) return ErrnoStatus(errno, path);                                // "/x/y: No such file or directory"
//   return ErrnoStatus(errno, absl::StrCat(path, " cannot be written"));        // "/x/y cannot be written: Disk quota
//   exceeded"
#ifndef ADJOIN_BASE_ERRNO_STATUS_H_
#define ADJOIN_BASE_ERRNO_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adjoin {

// Returns "what: the system's reason". `error` is an errno other than 0:
//   kNotFound           ENOENT, ENOTDIR
//   kPermissionDenied   EACCES, EPERM, EROFS
//   kResourceExhausted  ENOSPC, EDQUOT, EFBIG: the disk or the quota is full, or the file may not become as long
//   kUnavailable        any other: another try may succeed
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace adjoin

#endif  // ADJOIN_BASE_ERRNO_STATUS_H_
