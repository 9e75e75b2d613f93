// How near the first two cores that this process may use are: the time, in ns, that a cache line takes from one to the
// other. On virtual machines it changes between runs (20 to 200 ns), and with it what small messages cost.
//
//   bazel-bin/bench/core_latency        # prints e.g. 22
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "bench/protocol.h"

namespace {

constexpr int kBursts = 100, kTurns = 500;

alignas(128) std::atomic<int> turn{0};

void PinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void AwaitTurn(int value) {
  while (turn.load(std::memory_order_acquire) != value) {
  }
}

}  // namespace

int main() {
  cpu_set_t usable;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
    for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core) {
      if (CPU_ISSET(core, &usable)) cores.push_back(core);
    }
  }
  if (cores.size() < 2) {
    std::fprintf(stderr, "core_latency: needs two cores\n");
    return 1;
  }
  std::thread other([&] {
    PinTo(cores[1]);
    for (int i = 0; i < kBursts * kTurns; ++i) {
      AwaitTurn(2 * i + 1);
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  PinTo(cores[0]);
  double least = 1e9;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double start = adjoin::bench::NowMicroseconds();
    for (int i = burst * kTurns; i < (burst + 1) * kTurns; ++i) {
      turn.store(2 * i + 1, std::memory_order_release);
      AwaitTurn(2 * i + 2);
    }
    least = std::min(least, (adjoin::bench::NowMicroseconds() - start) * 1e3 / kTurns / 2);
  }
  other.join();
  std::printf("%.0f\n", least);
}
