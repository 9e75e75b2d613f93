// A new or changed name in a folder survives a crash of the machine only once the folder was synced.
#ifndef ADJOIN_BASE_SYNC_FOLDER_H_
#define ADJOIN_BASE_SYNC_FOLDER_H_

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace adjoin {

// Returns when the names in `folder` are on the disk: 0, or the errno.
inline int SyncFolder(const std::string& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.get() >= 0 && fsync(fd.get()) == 0 ? 0 : errno;
}

// Returns the folder that `path` is in, "." where it names none.
inline std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_SYNC_FOLDER_H_
