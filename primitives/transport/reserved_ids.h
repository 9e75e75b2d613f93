// The numbers in a message's tag that have a limit or a fixed meaning. Integers only: the planner uses them as well.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_RESERVED_IDS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_RESERVED_IDS_H_

#include <cstdint>

namespace adjoin {

// Communicators have ids from 0 to kTransportCommunicator - 1. A transport's own messages (barriers, notices) have
// kTransportCommunicator and kTransportOperator in their tags.
inline constexpr int64_t kTransportCommunicator = 63;
inline constexpr int64_t kTransportOperator = 65535;
// In the same communicator: what ranks send each other beside their movements (worker/trace/rank_messages.h).
inline constexpr int64_t kRankMessagesOperator = 65534;

// Movements have ids from 1 to kLargestOperator; other communicators than the transport's may use all of them.
inline constexpr int64_t kLargestOperator = 65535;
// Plans number theirs up to here. The others are those that ranks make themselves (worker/training/layer_timing.h).
inline constexpr int64_t kLargestPlannedOperator = 65533;
inline constexpr int64_t kLayerTimesSum = 65534;
inline constexpr int64_t kLayerTimesMost = 65535;

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_RESERVED_IDS_H_
