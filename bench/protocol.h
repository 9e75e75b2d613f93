// How the programs of this folder measure primitives: a batch of executions of one operator takes as long as it takes
// its slowest rank; what is reported is the median, and the least, over batches. Standard library only, so that the
// program that measures MPI can be compiled without the rest.
//
//   const std::vector<double> times = bench::Measure(bench::CountsFor(bytes), run, slowest);
//   bench::Report("adjoin", "broadcast", ranks, bytes, times);  // on rank 0
//
// prints "adjoin,broadcast,4,1024,12.34,11.98": implementation, operator, ranks, bytes, median, least.
#ifndef ADJOIN_BENCH_PROTOCOL_H_
#define ADJOIN_BENCH_PROTOCOL_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace adjoin::bench {

inline double NowMicroseconds() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Counts {
  int64_t executions = 1;  // per batch
  int64_t batches = 1;
};
// The counts for a movement of `bytes`. gloo_primitives.py has the same numbers.
inline Counts CountsFor(int64_t bytes) {
  if (bytes <= 8 << 10) return {100, 31};
  if (bytes <= 64 << 10) return {50, 31};
  if (bytes <= 1 << 20) return {8, 31};
  return {bytes <= 16 << 20 ? 2 : 1, 9};
}
// No batch is longer, unless one execution is.
inline constexpr double kLongestBatch = 100e3;  // us

// Microseconds per execution, one for each batch. `run(i)` is the i-th execution on this rank; roots rotate with i.
// `slowest(t)` is collective: the largest of all ranks' t, and a barrier. One batch before the others warms up.
template <class Run, class Slowest>
std::vector<double> Measure(Counts counts, const Run& run, const Slowest& slowest) {
  std::vector<double> times;
  int64_t next = 0;
  for (int64_t batch = -1; batch < counts.batches; ++batch) {
    slowest(0);
    const double start = NowMicroseconds();
    for (int64_t i = 0; i < counts.executions; ++i) run(next++);
    const double time = slowest((NowMicroseconds() - start) / counts.executions);
    if (batch >= 0) {
      times.push_back(time);
    } else {
      counts.executions = std::clamp(static_cast<int64_t>(kLongestBatch / time), int64_t{1}, counts.executions);
    }
  }
  return times;
}

inline void Report(const std::string& implementation, const std::string& op, int ranks, int64_t bytes,
                   std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s,%s,%d,%lld,%.2f,%.2f\n", implementation.c_str(), op.c_str(), ranks, static_cast<long long>(bytes),
              times[times.size() / 2], times[0]);
  std::fflush(stdout);
}

// The images of the halo exchange: `channels` x `side` x `side` floats are a rank's patch of `bytes`. Square, with the
// most channels of 16, 8 and 4 that leave 8 x 8 or more. {0, 0} where there is none.
struct Patch {
  int64_t channels = 0;
  int64_t side = 0;
};
inline Patch PatchOf(int64_t bytes) {
  for (const int64_t channels : {16, 8, 4}) {
    int64_t side = 8;
    while (4 * channels * side * side < bytes) side *= 2;
    if (4 * channels * side * side == bytes) return {channels, side};
  }
  return {};
}

// The rows of ranks, and ranks per row, that an image is cut into.
struct Grid {
  int rows = 1;
  int columns = 1;
};
inline Grid GridOf(int ranks) { return ranks % 2 == 0 && ranks >= 4 ? Grid{2, ranks / 2} : Grid{ranks, 1}; }

// The halo of one large image: 1 x 8 x 512 x 512 floats, kernel 3, cut by rows; `bytes` is what one rank sends.
inline constexpr int64_t kImageChannels = 8;
inline constexpr int64_t kImageSide = 512;
inline constexpr int64_t kImageRowBytes = 4 * kImageChannels * kImageSide;

// Work between halos: so much time of the processor, however often the kernel takes it away meanwhile.
inline constexpr double kWorkMicroseconds = 200;
inline constexpr int64_t kWorkHaloBytes = 8 << 10;
inline void Work() {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
  };
  const double end = now() + kWorkMicroseconds;
  while (now() < end) {
  }
}

}  // namespace adjoin::bench

#endif  // ADJOIN_BENCH_PROTOCOL_H_
