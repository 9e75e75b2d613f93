// Limits of a gRPC server, for one caller and for all together. The longest message is proto/message_limits.h's.
//
//   grpc::ServerBuilder builder;
//   builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
//   SetServerLimits(builder);
#ifndef ADJOIN_BASE_SECURITY_SERVER_LIMITS_H_
#define ADJOIN_BASE_SECURITY_SERVER_LIMITS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include "absl/time/time.h"

namespace adjoin {

// The longest headers of a call; a token has about 60 bytes.
inline constexpr int kMaxMetadataBytes = 8 << 10;
// The most calls at once on one connection: a daemon has one stream and at most 64 uploads that have a file open, a
// command one or two.
inline constexpr int kMaxCallsPerConnection = 100;
// The most threads for all connections. A daemon's stream, a health check and a first contact hold none; every other
// call holds one for as long as it lasts, as an `adjoin follow` or an upload of results. Admission keeps well below it
// (coordinator/services/access.h).
inline constexpr int kMaxServerThreads = 8000;
// The most memory for messages in flight on all connections.
inline constexpr size_t kMaxServerBytes = size_t{1} << 30;

// Times of one connection, also of a stranger's, who has no certificate.
struct ConnectionLimits {
  absl::Duration handshake = absl::Seconds(10);  // until TLS and HTTP/2 have begun, whatever is sent meanwhile
  absl::Duration idle = absl::Minutes(2);        // without a call; a client connects again
};

inline void SetServerLimits(grpc::ServerBuilder& builder, const ConnectionLimits& limits = {}) {
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(limits.handshake)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(absl::ToInt64Milliseconds(limits.idle)));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two coordinators on one port would share its clients
  grpc::ResourceQuota quota("adjoin");
  quota.SetMaxThreads(kMaxServerThreads).Resize(kMaxServerBytes);
  builder.SetResourceQuota(quota);
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_SERVER_LIMITS_H_
