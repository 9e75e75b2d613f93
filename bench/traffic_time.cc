// Prints how long the traffic between all pairs of even partitions of a tensor takes: what a search for layouts asks
// for.
//
//   bazel run -c opt //bench:traffic_time -- [RANKS] [PAIRS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

// All partitions of `dims` dims into `parts` parts together.
void AddPartitions(int64_t parts, int dims, std::vector<int64_t>& so_far, std::vector<std::vector<int64_t>>& all) {
  if (dims == 1) {
    so_far.push_back(parts);
    all.push_back(so_far);
    so_far.pop_back();
    return;
  }
  for (int64_t own = 1; own <= parts; ++own) {
    if (parts % own != 0) continue;
    so_far.push_back(own);
    AddPartitions(parts / own, dims - 1, so_far, all);
    so_far.pop_back();
  }
}

int Main(int ranks, int pairs) {
  std::vector<std::vector<int64_t>> partitions;
  std::vector<int64_t> none;
  AddPartitions(ranks, 5, none, partitions);
  std::vector<int> list(ranks);
  std::iota(list.begin(), list.end(), 0);
  std::vector<Layout> layouts;
  for (const std::vector<int64_t>& partition : partitions) {
    layouts.push_back(*Layout::Partition({64, 32, 128, 128, 128}, DType::kFloat32, partition, list));
  }
  const auto begin = std::chrono::steady_clock::now();
  int64_t bytes = 0;
  for (int i = 0; i < pairs; ++i) {
    const Layout& from = layouts[i / layouts.size() % layouts.size()];
    bytes += TrafficOf(from, layouts[i % layouts.size()])->busiest.bytes_sent;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%d pairs of %zu partitions over %d ranks: %.3f s (%lld bytes)\n", pairs, layouts.size(), ranks,
              seconds.count(), static_cast<long long>(bytes));
  return 0;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  return adjoin::Main(argc > 1 ? std::atoi(argv[1]) : 64, argc > 2 ? std::atoi(argv[2]) : 40000);
}
