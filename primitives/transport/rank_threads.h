// Threads as ranks: runs a function on every rank's transport, each on a thread of its own.
//
//   ADJOIN_RETURN_IF_ERROR(RunRanksInMemory(4, [&](Transport& transport) -> absl::Status {
//     ...
//     return absl::OkStatus();
//   }, absl::Minutes(5)));
//
// A rank that returns an error aborts the others with that error, and a watchdog aborts all of them when the time is
// up. A rank that does not return even then (it waits outside its transport) ends the process with a message that names
// it.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_RANK_THREADS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_RANK_THREADS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// Returns every rank's own status, in the order of `transports`; `first` becomes the rank whose error came first in
// time, or -1.
std::vector<absl::Status> RunRankThreads(std::vector<std::unique_ptr<Transport>> transports,
                                         std::function<absl::Status(Transport&)> fn, absl::Duration timeout,
                                         int* first);

// The same, after every rank has connected to all of them; so `transports` are those of ranks 0 to n-1, in this order.
std::vector<absl::Status> RunConnectedRankThreads(std::vector<std::unique_ptr<Transport>> transports,
                                                  std::function<absl::Status(Transport&)> fn, absl::Duration timeout,
                                                  int* first);

// Runs `fn` on ranks 0 to n-1 that exchange data within the process. Errors: the one that came first in time, with
// "rank r: " before its message; kDeadlineExceeded.
absl::Status RunRanksInMemory(int n, std::function<absl::Status(Transport&)> fn, absl::Duration timeout);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_RANK_THREADS_H_
