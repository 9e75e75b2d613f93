// The folder in which ranks keep inflated copies of data files: made, and given to the user they run as.
//
//   ADJOIN_RETURN_IF_ERROR(MakeCacheFolder("link/cache", /*named=*/false, settings.rank_user));
//
// Any thread, as long as no rank runs.
#ifndef ADJOIN_WORKER_DAEMON_CACHE_FOLDER_H_
#define ADJOIN_WORKER_DAEMON_CACHE_FOLDER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

// Makes it where it is missing. With a `user` (the caller is root then) the folder is theirs afterwards; locks and
// copies of other users, which the ranks could not open, are removed. `named`: an operator named the folder, who may
// have erred. Such a folder is taken over only where it belongs to the caller and has only locks and copies in it.
// Errors, with what would be right: kFailedPrecondition (it belongs to another user, or has other files), kUnavailable.
absl::Status MakeCacheFolder(const std::string& path, bool named, const std::optional<User>& user);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_CACHE_FOLDER_H_
