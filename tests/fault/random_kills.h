// Kills and stops the processes of a cluster at random moments, and starts them again, at once or after a while.
//
//   RandomKills kills(cluster, /*nodes=*/3, /*rank=*/"adjoin-rank", seed);
//   for (int i = 0; i < 300; ++i) ADJOIN_RETURN_IF_ERROR(kills.Next());
#ifndef ADJOIN_TESTS_FAULT_RANDOM_KILLS_H_
#define ADJOIN_TESTS_FAULT_RANDOM_KILLS_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {

class RandomKills {
 public:
  // `rank`: the name of the ranks' program. The same seed makes the same choices.
  RandomKills(LocalCluster& cluster, int nodes, std::string rank, uint64_t seed)
      : cluster_(cluster), nodes_(nodes), rank_(std::move(rank)), random_(seed) {}

  // Kills the coordinator, a daemon or a rank, or stops a daemon or a rank for less than three seconds. It waits first,
  // and it returns when what it stopped goes on. Errors: what could not be killed or started again.
  absl::Status Next();
  // How many processes were killed and stopped.
  int done() const { return done_; }

 private:
  absl::Status SignalRank(int signal);

  LocalCluster& cluster_;
  const int nodes_;
  const std::string rank_;
  std::mt19937_64 random_;
  int done_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FAULT_RANDOM_KILLS_H_
