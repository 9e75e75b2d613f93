// Whose a folder below the output root is. The folder itself tells, in the note `.adjoin-owner`, so it stays its
// owner's when the coordinator has forgotten all jobs, or has lost its store.
//
//   const FolderUser user{.owner = "alice", .job_id = "job-12", .store_id = 77};
//   ADJOIN_RETURN_IF_ERROR(CheckMayWrite("/srv/output", "lenet5", user));     // before the folder is made
//   ADJOIN_RETURN_IF_ERROR(OwnFolder("/srv/output", "lenet5", user));         // writes the note where there is none
//   ADJOIN_RETURN_IF_ERROR(CheckMayRead("/srv/output", "unet/model.safetensors", user));
//
// A folder is its owner's with all that is below it. The root is nobody's: its note counts for files and jobs in the
// root itself only. Jobs without an owner (of a coordinator that does not authenticate its callers) are one owner.
// Folders are compared as they are, not by their names: a link to a folder is that folder. Several daemons may call at
// once, for one root that they share. Any thread; waits for as long as the file system does.
#ifndef ADJOIN_WORKER_DAEMON_FOLDER_OWNER_H_
#define ADJOIN_WORKER_DAEMON_FOLDER_OWNER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

inline constexpr char kOwnerFile[] = ".adjoin-owner";

// A job that uses folders.
struct FolderUser {
  std::string owner;  // empty: none
  std::string job_id;
  uint64_t store_id = 0;    // of the coordinator that the job's id belongs to
  bool any_folder = false;  // an admin's job: it may use folders of all owners
};

// Errors of all: kFailedPrecondition (the folder is another owner's; a note that cannot be read), which no other
// attempt of the job can change; those of path_rules.h for paths that lead out; kResourceExhausted and others as
// ErrnoStatus.

// Checks the folder `relative`, or where it does not exist the one above it in which it would be made.
absl::Status CheckMayWrite(const std::string& root, const std::string& relative, const FolderUser& user);

// As CheckMayWrite; the folder exists. Then writes the note, durably, where no folder from here up to the root has one.
// A folder with folders of other owners below it is refused; where `user` may use any, it just gets no note.
absl::Status OwnFolder(const std::string& root, const std::string& relative, const FolderUser& user);

// Checks a file or folder that is to be read. One that does not exist is nobody's.
absl::Status CheckMayRead(const std::string& root, const std::string& relative, const FolderUser& user);

// Returns what the note in an open folder names; nothing where there is none. Errors: kFailedPrecondition (it is no
// such note), as ErrnoStatus.
absl::StatusOr<std::optional<FolderUser>> ReadOwner(int folder);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_FOLDER_OWNER_H_
