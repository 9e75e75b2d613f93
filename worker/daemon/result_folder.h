// The folder of a job's results, made by a daemon that is root for ranks that are not.
//
//   ADJOIN_RETURN_IF_ERROR(MakeResultFolder("/srv/output", "lenet5/run-1", user.uid, user.gid));
//
// Any thread.
#ifndef ADJOIN_WORKER_DAEMON_RESULT_FOLDER_H_
#define ADJOIN_WORKER_DAEMON_RESULT_FOLDER_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace adjoin {

// Makes what is missing of `relative` below `root`, and gives what it made to the user; what was there keeps its owner.
// No link leads out of `root`, even where another process changes the folders meanwhile. Errors: as ErrnoStatus
// (base/errno_status.h); kPermissionDenied also for a symbolic link in the way.
absl::Status MakeResultFolder(const std::string& root, const std::string& relative, uid_t uid, gid_t gid);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_RESULT_FOLDER_H_
