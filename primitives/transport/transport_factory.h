// Opens a transport by its name: the one place of a program that knows which transports there are.
//
//   ADJOIN_ASSIGN_OR_RETURN(const auto transport, MakeTransport({.rank = rank, .size = size}));
//   std::vector<std::string> addresses = ExchangeSomehow(transport->Address());     // one per rank, by rank
//   ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, Deadline::After(absl::Seconds(60))));
//
// How to add one: docs/extending/transport.md.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_FACTORY_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_options.h"

namespace adjoin {

// Errors: kInvalidArgument (no transport of this name: the message names those there are; options that it refuses);
// kInternal (the error of the library beneath it).
absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TransportOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_FACTORY_H_
