// Waits until every rank is there, by messages of a transport's own.
//
//   ADJOIN_RETURN_IF_ERROR(Barrier(*this, Meeting::kConnect, deadline));   // in a transport's Connect
//
// For implementations of Transport: each calls it once per meeting, in Connect and in Close.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_BARRIER_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_BARRIER_H_

#include "absl/status/status.h"
#include "base/deadline.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// The generation in the tags of the barrier's messages.
enum class Meeting { kConnect = 0, kClose = 1 };

// Collective: returns once every rank of `transport` is in it. Errors: as StartSend, StartRecv and Wait.
absl::Status Barrier(Transport& transport, Meeting meeting, Deadline deadline);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_BARRIER_H_
