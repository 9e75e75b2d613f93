// How long something took, counted by size, for /metrics.
//
//   LatencyHistogram commits;
//   commits.Observe(absl::Milliseconds(3));                       // any thread
//   snapshot.store_commits = commits.Read();
#ifndef ADJOIN_COORDINATOR_DECISIONS_LATENCY_HISTOGRAM_H_
#define ADJOIN_COORDINATOR_DECISIONS_LATENCY_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace adjoin {

struct LatencyCounts {
  // Upper bounds in seconds; what took longer is in `count` only.
  static constexpr std::array<double, 12> kBounds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};
  std::array<uint64_t, kBounds.size()> below = {};  // cumulative: at most so long
  uint64_t count = 0;
  double sum_seconds = 0;
};

// Any thread.
class LatencyHistogram {
 public:
  void Observe(absl::Duration latency) {
    const double seconds = absl::ToDoubleSeconds(latency);
    absl::MutexLock lock(&mutex_);
    ++counts_.count;
    counts_.sum_seconds += seconds;
    for (size_t i = 0; i < counts_.below.size(); ++i) counts_.below[i] += seconds <= LatencyCounts::kBounds[i] ? 1 : 0;
  }
  LatencyCounts Read() const {
    absl::MutexLock lock(&mutex_);
    return counts_;
  }

 private:
  mutable absl::Mutex mutex_;
  LatencyCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_LATENCY_HISTOGRAM_H_
