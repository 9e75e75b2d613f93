// Where a file of a job lies: the paths of a spec are relative to a root that the worker's owner chose, and stay
// below it.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string path, PathBelow("/srv/data", "mnist/train-images.idx.gz"));
#ifndef ADJOIN_WORKER_RUNTIME_DATA_PATH_H_
#define ADJOIN_WORKER_RUNTIME_DATA_PATH_H_

#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

// Errors: kInvalidArgument for a relative path that is empty, absolute, or has a ".." in it, or an empty root.
absl::StatusOr<std::string> PathBelow(const std::string& root, const std::string& relative);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_DATA_PATH_H_
