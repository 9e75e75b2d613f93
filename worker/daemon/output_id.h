// The id of the file system of a daemon's --output-root: nodes with the same id see each other's files there.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string id, OutputId("/srv/results"));
//
// The id is a random number in the folder's file .adjoin-output-id, which the first daemon that looks makes: that two
// daemons know the same number proves that they read the same file.
#ifndef ADJOIN_WORKER_DAEMON_OUTPUT_ID_H_
#define ADJOIN_WORKER_DAEMON_OUTPUT_ID_H_

#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

// 32 hexadecimal digits. Any number of daemons may call it at once, on one machine or on several.
// Errors: as ErrnoStatus (base/errno_status.h), with the path; kDataLoss (the file is no id of an output root).
absl::StatusOr<std::string> OutputId(const std::string& root);

// The same, but makes none: "" where there is no file.
absl::StatusOr<std::string> ReadOutputId(const std::string& root);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_OUTPUT_ID_H_
