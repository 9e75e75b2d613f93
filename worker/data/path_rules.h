// Where a job may read and write: below the worker's --data-root and --output-root and nowhere else.
//
//   ADJOIN_ASSIGN_OR_RETURN(HeldPath file, HoldBelow("/srv/data", "mnist/train-images.idx.gz"));
//   std::ifstream stream(file.path());                       // what was found, whatever has come under that name since
//   ADJOIN_RETURN_IF_ERROR(CheckOutputPath("/srv/output", "lenet5"));
//   ADJOIN_ASSIGN_OR_RETURN(HeldPath folder, HoldFolder("/srv/output", "lenet5"));
//
// A symbolic link may lead from one place below the root to another. Messages name a path as the job has it, never the
// root. Any thread.
#ifndef ADJOIN_WORKER_DATA_PATH_RULES_H_
#define ADJOIN_WORKER_DATA_PATH_RULES_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// Something below a root, found without a moment in which a link could have been put in the way.
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

  int fd() const { return fd_; }  // O_PATH: nothing has been opened yet, no device and no pipe
  // Opens what was found, or names what is in it where it is a folder; for this process, and only while this lives.
  std::string path() const;
  const std::string& shown() const { return shown_; }  // as the job names it
  // The same error with shown() wherever it says path().
  absl::Status AsShown(const absl::Status& status) const;

 private:
  int fd_;
  std::string shown_;
};

// Something that exists. Errors: kInvalidArgument (empty, absolute, with "..", or a symbolic link that leads out of the
// root), kNotFound, kPermissionDenied, kUnavailable.
absl::StatusOr<HeldPath> HoldBelow(const std::string& root, const std::string& relative);

// A folder, made with those above it where they are missing. "" is the root itself. Errors: as HoldBelow.
absl::StatusOr<HeldPath> HoldFolder(const std::string& root, const std::string& relative);

// The real path, without symbolic links, of something that exists: for people, and to say early what HoldBelow would.
// Errors: as HoldBelow.
absl::StatusOr<std::string> ResolveBelow(const std::string& root, const std::string& relative);

// The same rules for a folder that need not exist yet: what exists of the path must not lead out of the root, and no
// part of it may be a name that attempts have (base/output_dir.h). "" is the root itself.
absl::Status CheckOutputPath(const std::string& root, const std::string& relative);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_PATH_RULES_H_
