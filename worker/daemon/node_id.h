// The id of a daemon: it names the state folder and the machine.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string id, NodeId("/var/lib/adjoin-worker"));
//
// Two daemons with the same id are one after the other on one machine: the later one has ended what the earlier one
// left.
#ifndef ADJOIN_WORKER_DAEMON_NODE_ID_H_
#define ADJOIN_WORKER_DAEMON_NODE_ID_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

// Returns 32 hexadecimal digits: a hash of a random number, kept in the folder's file "node-id", and of the first of
// `machine_files` that is not empty, whose content cannot be read from it. A copy of the folder on another machine has
// another id. Where no file names the machine, the id is new each time. The caller holds the folder's lock.
// Errors: kUnavailable (the folder cannot be written).
absl::StatusOr<std::string> NodeId(const std::string& folder,
                                   const std::vector<std::string>& machine_files = {"/etc/machine-id",
                                                                                    "/proc/sys/kernel/random/boot_id"});

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_NODE_ID_H_
