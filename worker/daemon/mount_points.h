// Which mounted file system a path is on, told without touching it: one that does not answer would hold up who asks.
//
//   const MountPoints mounts = MountPoints::Read();
//   mounts.Of("/srv/data/a/b.npy");        // "/srv/data"
//
// By the text of the path alone: a symbolic link may lead to another one of them. Any thread.
#ifndef ADJOIN_WORKER_DAEMON_MOUNT_POINTS_H_
#define ADJOIN_WORKER_DAEMON_MOUNT_POINTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

class MountPoints {
 public:
  // Those of this process.
  static MountPoints Read();
  // `text`: as /proc/self/mountinfo has it (proc(5)); lines that make no sense are left out.
  explicit MountPoints(absl::string_view text);

  // `path`: absolute. Returns the folder at which its file system is mounted; "/" where none is known.
  std::string Of(const std::string& path) const;
  // The same for a file below one of these roots; "" where a link may lead to another one: where it is a root's own,
  // and others are mounted below the root. "" also for an empty path.
  std::string OfBelow(const std::vector<std::string>& roots, const std::string& path) const;
  // True where a file system is mounted below this folder.
  bool AnyBelow(const std::string& folder) const;

 private:
  std::set<std::string> folders_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MOUNT_POINTS_H_
