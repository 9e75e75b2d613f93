// When a connection on which nothing comes is given up: the same for the coordinator, daemons and commands.
#ifndef ADJOIN_PROTO_KEEPALIVE_H_
#define ADJOIN_PROTO_KEEPALIVE_H_

namespace adjoin {

// A side that has heard nothing for so long sends a ping.
inline constexpr int kPingAfterMillis = 10'000;
// It gives the connection up where the ping is not answered in this time. A daemon that gets no acknowledgement
// connects again after 15 s, and the coordinator loses a daemon by its heartbeats: both know more than an unanswered
// ping, which on a machine without a free core only says that gRPC's threads have much to do.
inline constexpr int kPingTimeoutMillis = 20'000;

}  // namespace adjoin

#endif  // ADJOIN_PROTO_KEEPALIVE_H_
