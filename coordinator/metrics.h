// What the coordinator tells Prometheus: http://HOST:PORT/metrics.
//
//   Metrics metrics([&] { return hub.Look([](CoordinationService& service) { return SnapshotOf(service); }); });
//   ADJOIN_RETURN_IF_ERROR(metrics.Listen("127.0.0.1:9411", /*public_allowed=*/false));
//
// Every scrape looks anew, so a job that has ended and a worker that has gone are not shown any more: there are never more
// time series than running jobs and known workers. Counters count from the start of this coordinator unless said otherwise.
#ifndef ADJOIN_COORDINATOR_METRICS_H_
#define ADJOIN_COORDINATOR_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/latency_histogram.h"
#include "proto/coordinator.pb.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace adjoin {

struct ClusterSnapshot {
  struct Worker {
    std::string name;
    std::string state;  // "ready" "suspect" "draining" "lost"
    double heartbeat_age_seconds = 0;
    uint32_t slots = 0;
    uint32_t free_slots = 0;
  };
  // RUNNING; means over its ranks.
  struct RunningJob {
    std::string id;
    uint64_t step = 0;
    double step_seconds = 0;     // one step; 0: not known yet, and then not shown
    double compute_seconds = 0;  // of one step, T_comp
    double sync_seconds = 0;     // of one step, T_sync
    int64_t bytes_sent = 0;      // all ranks together, since the attempt's start
  };
  std::map<JobState, uint64_t> jobs;  // all that are known, by state
  uint64_t queue_length = 0;
  double queue_oldest_seconds = 0;    // since its submission
  std::vector<Worker> workers;
  std::vector<RunningJob> running;
  uint64_t submits = 0;                      // accepted
  std::map<std::string, uint64_t> restarts;  // by what ended the attempt: "rank_lost" "node_lost" "error" ...
  // Time in which attempts ran that made progress; of all jobs ever, so that it goes on over restarts of the coordinator.
  double goodput_seconds = 0;
  LatencyCounts store_commits;
};

class Metrics {
 public:
  // `look` is called by other threads, one call for each scrape.
  explicit Metrics(std::function<ClusterSnapshot()> look);
  // Ends scrapes that go on.
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves from now on. `address` is HOST:PORT, port 0 takes a free one.
  // Errors: kInvalidArgument (no address; one that other machines reach without `public_allowed`, since it is plain HTTP that
  // anybody may read), kUnavailable (nothing can listen there).
  absl::Status Listen(const std::string& address, bool public_allowed);
  int port() const;  // 0: it does not listen

 private:
  std::shared_ptr<prometheus::Collectable> families_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_METRICS_H_
