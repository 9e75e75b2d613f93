// Where a job may read and write: below the worker's --data-root and --output-root and nowhere else.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string path, ResolveBelow("/srv/data", "mnist/train-images.idx.gz"));
//   ADJOIN_RETURN_IF_ERROR(CheckOutputPath("/srv/output", "lenet5"));
//
// Any thread.
#ifndef ADJOIN_WORKER_RUNTIME_PATH_RULES_H_
#define ADJOIN_WORKER_RUNTIME_PATH_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// The real path, without symbolic links, of something that exists. Errors: kInvalidArgument (empty, absolute, with "..",
// or a symbolic link that leads out of the root), kNotFound, kPermissionDenied, kUnavailable. Messages name `relative`,
// never the root.
absl::StatusOr<std::string> ResolveBelow(const std::string& root, const std::string& relative);

// The same rules for a folder that need not exist yet: what exists of the path must not lead out of the root. "" is the
// root itself.
absl::Status CheckOutputPath(const std::string& root, const std::string& relative);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_PATH_RULES_H_
