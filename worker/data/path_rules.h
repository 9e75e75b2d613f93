// Where a job may read and write: below the worker's --data-root and --output-root and nowhere else.
//
//   ADJOIN_ASSIGN_OR_RETURN(HeldPath file, HoldBelow("/srv/data", "mnist/train-images.idx.gz"));
//   std::ifstream stream(file.path());                       // the file that was found, even if its name is another's
//   now ADJOIN_RETURN_IF_ERROR(CheckOutputPath("/srv/output", "lenet5")); ADJOIN_ASSIGN_OR_RETURN(HeldPath folder,
//   HoldFolder("/srv/output", "lenet5"));
//
// A symbolic link may lead to anything below the root. Messages name a path as the job has it, never the root. Any
// thread.
#ifndef ADJOIN_WORKER_DATA_PATH_RULES_H_
#define ADJOIN_WORKER_DATA_PATH_RULES_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// A file or folder below a root, found so that no link that is put in the way meanwhile can lead elsewhere.
class HeldPath {
 public:
  HeldPath(int fd, std::string shown) : fd_(fd), shown_(std::move(shown)) {}
  HeldPath(HeldPath&& other) : fd_(std::exchange(other.fd_, -1)), shown_(std::move(other.shown_)) {}
  HeldPath& operator=(HeldPath&& other) {
    std::swap(fd_, other.fd_);
    std::swap(shown_, other.shown_);
    return *this;
  }
  ~HeldPath();

  int fd() const { return fd_; }  // O_PATH: no device and no pipe has been opened yet
  // Returns a path that opens the file, or the folder and what is in it; for this process, while this object exists.
  std::string path() const;
  const std::string& shown() const { return shown_; }  // as the job names it
  // Returns the same error with shown() in place of path().
  absl::Status AsShown(const absl::Status& status) const;

 private:
  int fd_;
  std::string shown_;
};

// Finds a file or folder that exists. Errors: kInvalidArgument (empty, absolute, with "..", or a symbolic link that
// leads out of the root), kNotFound, kPermissionDenied, kUnavailable.
absl::StatusOr<HeldPath> HoldBelow(const std::string& root, const std::string& relative);

// Finds a folder; makes it, and those above it, where they are missing. "" is the root itself. Errors: as HoldBelow.
absl::StatusOr<HeldPath> HoldFolder(const std::string& root, const std::string& relative);

// Returns the real path, without symbolic links, of a file or folder that exists: for messages, and to find early the
// errors that HoldBelow would find.
// Errors: as HoldBelow.
absl::StatusOr<std::string> ResolveBelow(const std::string& root, const std::string& relative);

// Checks a folder that need not exist yet by the same rules: the part of the path that exists must not lead out of the
// root, and no part may be a name that attempts have (base/output_dir.h). "" is the root itself.
absl::Status CheckOutputPath(const std::string& root, const std::string& relative);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_PATH_RULES_H_
