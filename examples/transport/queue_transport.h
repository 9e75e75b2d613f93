// A small but whole transport: ranks are threads of one process, and each has a queue of messages under one mutex.
//
//   ADJOIN_ASSIGN_OR_RETURN(const auto transport, OpenQueueTransport({.rank = rank, .size = size}));
//   std::vector<std::string> addresses = ExchangeSomehow(transport->Address());     // one per rank, by rank
//   ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, deadline));
//
// It is an example for those who write a transport (docs/extending/transport.md): a send is over at once, because it
// copies its bytes into the receiver's queue; a wait sleeps until any queue changes. Host memory only.
#ifndef ADJOIN_EXAMPLES_TRANSPORT_QUEUE_TRANSPORT_H_
#define ADJOIN_EXAMPLES_TRANSPORT_QUEUE_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_options.h"

namespace adjoin {

// The options other than rank and size have no meaning here. Errors: kInvalidArgument (no such rank).
absl::StatusOr<std::unique_ptr<Transport>> OpenQueueTransport(const TransportOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_TRANSPORT_QUEUE_TRANSPORT_H_
