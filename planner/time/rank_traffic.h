// RankTraffic, until primitives/geometry/traffic.h has it.
#ifndef ADJOIN_PLANNER_TIME_RANK_TRAFFIC_H_
#define ADJOIN_PLANNER_TIME_RANK_TRAFFIC_H_

#if __has_include("primitives/geometry/traffic.h")
#include "primitives/geometry/traffic.h"
#else
#include <cstdint>

namespace adjoin {

// What one execution of a movement makes one rank do.
struct RankTraffic {
  int64_t bytes_sent = 0;  // over the transport
  int64_t bytes_received = 0;
  int64_t messages_sent = 0;
  int64_t messages_received = 0;
  int64_t bytes_kept = 0;   // copied within the rank
  int64_t bytes_added = 0;  // that arrive and are added to others
  int rounds = 0;           // messages in a row that depend on one another
};

}  // namespace adjoin
#endif

#endif  // ADJOIN_PLANNER_TIME_RANK_TRAFFIC_H_
