// What the coordinator tells Prometheus: http://HOST:PORT/metrics.
//
//   Metrics metrics([&] { return hub.Look([](CoordinationService& service) { return service.Snapshot(); }); },
//                   hub.commit_seconds());
//   ADJOIN_RETURN_IF_ERROR(metrics.Listen("127.0.0.1:9411", /*public_allowed=*/false));
//
// Every scrape looks anew, so jobs that have ended and workers that have gone are not shown any more: the number of
// time series is that of running jobs and known workers. Counters count from the start of this coordinator.
#ifndef ADJOIN_COORDINATOR_SERVICES_METRICS_H_
#define ADJOIN_COORDINATOR_SERVICES_METRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/decisions/cluster_snapshot.h"
#include "prometheus/histogram.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace adjoin {

// The upper bounds, in seconds, of the buckets of adjoin_store_commit_seconds.
prometheus::Histogram::BucketBoundaries CommitSecondsBounds();

class Metrics {
 public:
  // `look` is called by other threads, one call for each scrape. `commit_seconds` outlives the metrics.
  Metrics(std::function<ClusterSnapshot()> look, const prometheus::Histogram& commit_seconds);
  // Waits for the scrapes that have begun.
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves from now on. `address` is HOST:PORT; port 0 takes a free one.
  // Errors: kInvalidArgument (no address; one that other machines reach without `public_allowed`, since anybody may
  // read plain HTTP), kUnavailable (nothing can listen there).
  absl::Status Listen(const std::string& address, bool public_allowed);
  int port() const;  // 0 before Listen

 private:
  std::shared_ptr<prometheus::Collectable> families_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_METRICS_H_
