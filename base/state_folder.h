// A folder that one program owns while it runs.
//
//   ADJOIN_ASSIGN_OR_RETURN(StateFolder folder, StateFolder::Lock("/var/lib/adjoin/coordinator"));
//   ADJOIN_RETURN_IF_ERROR(WriteFileAtomically(folder.path() + "/port", "127.0.0.1:7411\n"));
#ifndef ADJOIN_BASE_STATE_FOLDER_H_
#define ADJOIN_BASE_STATE_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

class StateFolder {
 public:
  // Makes the folder where it is missing (then readable by its owner only) and holds a lock on it until the process
  // ends. Errors: kUnavailable (cannot be made or written), kAlreadyExists (another process holds it).
  static absl::StatusOr<StateFolder> Lock(const std::string& path);
  StateFolder(StateFolder&& other) : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}
  StateFolder& operator=(StateFolder&&) = delete;
  ~StateFolder();

  const std::string& path() const { return path_; }  // absolute, without symbolic links

 private:
  StateFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_;
};

// Makes `path` and what is missing above it. Errors: kUnavailable.
absl::Status MakeFolders(const std::string& path);

// The names of files that WriteFileAtomically has not finished are those of the files and ".", a number, this. A crash
// leaves them.
inline constexpr char kUnfinishedSuffix[] = ".tmp";

// Readers see the old content or the new, never a part. Errors: kUnavailable, kFailedPrecondition
// (something else is there than a regular file, or a link to one, which is replaced itself).
absl::Status WriteFileAtomically(const std::string& path, const std::string& content);

}  // namespace adjoin

#endif  // ADJOIN_BASE_STATE_FOLDER_H_
