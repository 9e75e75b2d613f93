// Exit codes with which a rank process ends itself, besides 0 (success) and 1 (an error that it has reported).
#ifndef ADJOIN_WORKER_RANK_RANK_EXIT_CODES_H_
#define ADJOIN_WORKER_RANK_RANK_EXIT_CODES_H_

namespace adjoin {

constexpr int kExitDaemonLost = 70;  // its daemon is gone
constexpr int kExitLeaseOver = 71;   // its lease ran out: its daemon, or the coordinator, was not heard of for too long

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_RANK_EXIT_CODES_H_
