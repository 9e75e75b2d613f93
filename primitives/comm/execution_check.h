// Finds ranks that do not execute the same operator: before an execution, ranks that exchange data in it tell each
// other what it is. Without it such a program hangs until a deadline, or moves one operator's data into another.
//
//   ExecutionCheck check(&transport, /*communicator=*/0);
//   ADJOIN_RETURN_IF_ERROR(check.Compare(execution, generation, peers, deadline));
//
// Threads: as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_EXECUTION_CHECK_H_
#define ADJOIN_PRIMITIVES_COMM_EXECUTION_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/deadline.h"
#include "primitives/comm/channel.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class ExecutionCheck {
 public:
  // `transport` outlives this.
  ExecutionCheck(Transport* transport, int communicator) : transport_(transport), communicator_(communicator) {}

  // Tells `peers` what this rank executes and waits for what they do.
  // Errors: kFailedPrecondition (a peer executes something else, or the same with another shape, type or layouts; names
  // both); kDeadlineExceeded (a peer executes nothing with this rank); the transport's.
  absl::Status Compare(const Execution& execution, int64_t generation, const std::vector<int>& peers,
                       Deadline deadline);

 private:
  Transport* transport_;
  int communicator_;
  absl::flat_hash_map<int, int64_t> compared_;  // executions with each peer
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_EXECUTION_CHECK_H_
