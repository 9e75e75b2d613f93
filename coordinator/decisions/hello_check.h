// Whether what a daemon says of itself can be kept and shown: names and lists of a reasonable length, in printable
// text.
//
//   ADJOIN_RETURN_IF_ERROR(CheckHello(hello));   // "the worker's name has 10000000 bytes; at most 256 are possible
//   ..."
#ifndef ADJOIN_COORDINATOR_DECISIONS_HELLO_CHECK_H_
#define ADJOIN_COORDINATOR_DECISIONS_HELLO_CHECK_H_

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Errors: kInvalidArgument, which ends the daemon: another try would be refused alike.
absl::Status CheckHello(const WorkerHello& hello);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_HELLO_CHECK_H_
