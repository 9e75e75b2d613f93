#include "tests/fault/random_kills.h"

#include <signal.h>
#include <sys/types.h>

#include <iostream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "tests/harness/leftovers.h"

namespace adjoin {

absl::Status RandomKills::Next() {
  absl::SleepFor(absl::Milliseconds(random_() % 700));  // a random moment is what is wanted
  const absl::Duration pause = random_() % 2 == 0 ? absl::ZeroDuration() : absl::Milliseconds(random_() % 2500);
  const int node = static_cast<int>(random_() % static_cast<uint64_t>(nodes_));
  switch (random_() % 6) {
    case 0:
      std::cerr << "kill the coordinator, for " << pause << std::endl;
      ++done_;
      ADJOIN_RETURN_IF_ERROR(cluster_.KillCoordinator());
      absl::SleepFor(pause);
      return cluster_.StartCoordinator();
    case 1:
      std::cerr << "kill worker-" << node << ", for " << pause << std::endl;
      ++done_;
      ADJOIN_RETURN_IF_ERROR(cluster_.KillWorker(node));
      absl::SleepFor(pause);
      return cluster_.StartWorker(node);
    case 2:
      std::cerr << "stop worker-" << node << ", for " << pause << std::endl;
      cluster_.SignalWorker(node, SIGSTOP);
      absl::SleepFor(pause);
      cluster_.SignalWorker(node, SIGCONT);
      return absl::OkStatus();
    case 3: return SignalRank(SIGSTOP);
    default: return SignalRank(SIGKILL);
  }
}

absl::Status RandomKills::SignalRank(int signal) {
  std::vector<pid_t> ranks;
  for (const auto& [pid, command] : ProcessesIn(cluster_.folder())) {
    if (absl::StrContains(command, absl::StrCat(rank_, " --socket"))) ranks.push_back(pid);
  }
  if (ranks.empty()) return absl::OkStatus();
  const pid_t pid = ranks[random_() % ranks.size()];
  std::cerr << (signal == SIGKILL ? "kill" : "stop") << " rank process " << pid << std::endl;
  if (kill(pid, signal) != 0) return absl::OkStatus();  // it has ended meanwhile
  if (signal == SIGKILL) ++done_;
  if (signal != SIGSTOP) return absl::OkStatus();
  absl::SleepFor(absl::Milliseconds(random_() % 1500));
  kill(pid, SIGCONT);
  return absl::OkStatus();
}

}  // namespace adjoin
