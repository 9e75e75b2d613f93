// Inflated copies of gzip files in a folder of the node, made once for all its processes.
//
//   const InflateRequest request{.path = "/data/ch2.nii.gz",
//                                .name = "ch2.nii.gz",
//                                .bytes = 352 + 181 * 217 * 181,
//                                .cache_dir = "/var/cache/adjoin"};
//   ADJOIN_ASSIGN_OR_RETURN(OpenFile copy, InflatedCopy(request));
//
// A copy's name has the file's device, inode, size, times and name, so a file that was changed gets a new copy. Where
// several processes want a copy, one inflates it (under a temporary name, synced, then renamed) while the others wait;
// if that one dies, another begins anew. Copies over the folder's limit are removed, the longest unused first, but not
// while a process has them open, even if these exceed the limit. The folder belongs to one user and holds nothing else.
// Where its file system refuses locks, processes cannot wait for each other: each gets a copy without a name, in the
// folder, and logs a warning.
//
// A stream that inflates to more than `bytes` is refused; no more than `bytes` are written.
//
// Errors name the file: kDataLoss (corrupt, truncated, trailing bytes); kResourceExhausted (the limit or the disk is
// too small; nothing is left behind); kDeadlineExceeded; kCancelled (stopped); kUnavailable, kPermissionDenied (the
// folder). Any thread.
#ifndef ADJOIN_WORKER_DATA_INFLATE_CACHE_H_
#define ADJOIN_WORKER_DATA_INFLATE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "worker/data/open_file.h"

namespace adjoin {

struct InflateRequest {
  std::string path;
  std::string name;       // the file's name in messages
  int64_t bytes = 0;      // the exact size of the inflated copy
  std::string cache_dir;  // made where it is missing; empty: a temporary file without a name, of this process only
  int64_t limit = 0;      // for the bytes in the folder that are not in use; 0: 80 % of its disk
  Deadline deadline = Deadline::After(absl::Hours(1));  // for waiting for another process
  const std::atomic<bool>* stop = nullptr;              // true: stops to inflate and to wait; may be null
};

absl::StatusOr<OpenFile> InflatedCopy(const InflateRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_INFLATE_CACHE_H_
