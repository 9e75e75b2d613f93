// What the coordinator tells Prometheus: http://HOST:PORT/metrics.
//
//   Metrics metrics([&] { return hub.Look([](CoordinationService& service) { return service.Snapshot(); }); });
//   ADJOIN_RETURN_IF_ERROR(metrics.Listen("127.0.0.1:9411", /*public_allowed=*/false));
//
// Every scrape looks anew, so a job that has ended and a worker that has gone are not shown any more: there are never more
// time series than running jobs and known workers. Counters count from the start of this coordinator.
#ifndef ADJOIN_COORDINATOR_SERVICES_METRICS_H_
#define ADJOIN_COORDINATOR_SERVICES_METRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/decisions/cluster_snapshot.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace adjoin {

class Metrics {
 public:
  // `look` is called by other threads, one call for each scrape.
  explicit Metrics(std::function<ClusterSnapshot()> look);
  // Ends scrapes that go on.
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Serves from now on. `address` is HOST:PORT, port 0 takes a free one.
  // Errors: kInvalidArgument (no address; one that other machines reach without `public_allowed`, since it is plain HTTP
  // that anybody may read), kUnavailable (nothing can listen there).
  absl::Status Listen(const std::string& address, bool public_allowed);
  int port() const;  // 0: it does not listen

 private:
  std::shared_ptr<prometheus::Collectable> families_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_METRICS_H_
