// Inflated copies of gzip files in a folder of the node, made once for all its processes.
//
//   InflateRequest request;
//   request.path = "/data/ch2.nii.gz"; request.name = "ch2.nii.gz"; request.bytes = 352 + 181 * 217 * 181;
//   request.cache_dir = "/var/cache/adjoin";
//   ADJOIN_ASSIGN_OR_RETURN(OpenFile copy, InflatedCopy(request));
//
// A copy is called by the file's device, inode, size, times and name, so a file that was changed gets a new one. Of
// several processes that want a copy, one inflates it (under a temporary name, synced, then renamed) while the others
// wait; if it dies, another begins anew. Copies over the folder's limit go, those first that were used longest ago, but none
// that a process has open: those may have more than the limit. The folder belongs to one user and holds nothing else.
// Where its file system refuses locks, nobody could wait for another: each process then gets a copy without a name, in the
// folder, and says so in its log.
//
// A stream that inflates to more than `bytes`, what its header says, is refused before more is written than that.
//
// Errors name the file: kDataLoss (corrupt, truncated, trailing bytes); kResourceExhausted (the limit or the disk is too
// small; nothing is left behind); kDeadlineExceeded; kCancelled (stopped); kUnavailable,
// kPermissionDenied (the folder). Any thread.
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
  std::string name;       // what messages call it
  int64_t bytes = 0;      // inflated: exactly so many
  std::string cache_dir;  // made where it is missing; empty: a temporary file without a name, of this process only
  int64_t limit = 0;      // bytes in the folder that are not in use; 0: 80 % of its disk
  Deadline deadline = Deadline::After(absl::Hours(1));  // of waiting for another process
  const std::atomic<bool>* stop = nullptr;  // true: neither inflates nor waits any longer; may be null
};

absl::StatusOr<OpenFile> InflatedCopy(const InflateRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_INFLATE_CACHE_H_
