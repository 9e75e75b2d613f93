#include "bench/decision_time.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/decisions/coordination_service.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

using Clock = std::chrono::steady_clock;

// The service with daemons that do at once what they are told, and a store that is never late.
class Cluster {
 public:
  Cluster() : service_(Options()) {}

  void Connect(int workers) {
    for (int i = 1; i <= workers; ++i) {
      WorkerHello hello;
      hello.set_name(absl::StrCat("rack-", i / 64, "-node-", i));
      hello.set_slots(1);
      hello.set_incarnation(1);
      hello.set_memory_bytes(uint64_t{64} << 30);
      hello.set_output_id("a-file-system-that-all-nodes-share");
      hello.set_rank_program("the-sum-of-the-program-of-a-rank");
      if (!service_.WorkerConnected(static_cast<ConnectionId>(i), hello).ok()) abort();
    }
    Settle();
  }
  double Submit(int ranks = 1) {
    NewJob job;
    job.spec.set_name("job");
    job.spec.set_ranks(static_cast<uint32_t>(ranks));
    const double time = Time([&] { service_.Submit(std::move(job)).IgnoreError(); });
    return time + Settle();
  }
  // Ends the job that started first. Returns the seconds until the next one is told to start.
  double EndOneJob() {
    const auto [worker, message] = running_.front();
    running_.erase(running_.begin());
    WorkerMessage ended;
    *ended.mutable_header() = message.header();
    ended.mutable_rank_ended()->set_job_id(message.start_ranks().job_id());
    ended.mutable_rank_ended()->set_end(RANK_SUCCEEDED);
    WorkerMessage cleared;
    *cleared.mutable_header() = message.header();
    cleared.mutable_attempt_cleared()->set_job_id(message.start_ranks().job_id());
    service_.WorkerSaid(worker, ended);
    Settle();
    const double time = Time([&, id = worker] { service_.WorkerSaid(id, cleared); });
    Settle();
    return time;
  }
  double Heartbeat(ConnectionId worker) {
    WorkerMessage message;
    *message.mutable_header() = MakeHeader();
    message.mutable_heartbeat()->set_sequence(1);
    message.mutable_heartbeat()->set_incarnation(1);
    const double time = Time([&] { service_.WorkerSaid(worker, message); });
    service_.TakeActions();
    return time;
  }
  double Tick() {
    return Time([&] { service_.Tick(); });
  }
  size_t running() const { return running_.size(); }

 private:
  static CoordinationOptions Options() {
    CoordinationOptions options;
    options.wall_clock = [] { return absl::Now(); };
    // Time stands: it is not the deadlines that are measured.
    options.monotonic_clock = [] { return absl::Seconds(1000); };
    return options;
  }
  template <typename F>
  static double Time(F f) {
    const Clock::time_point begin = Clock::now();
    f();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  // Plans, the store, and what daemons answer. Returns the service's own share.
  double Settle() {
    double time = 0;
    while (true) {
      for (const PlanRequest& request : service_.TakePlanRequests()) {
        PlannedJob planned = {"plan", "hash"};
        planned.predicted.set_resident_bytes(int64_t{1} << 30);
        time += Time([&] { service_.Planned(request.job_id, std::move(planned)); });
      }
      StoreChanges changes;
      time += Time([&] { changes = service_.TakeChanges(); });
      std::vector<Action> actions = service_.TakeActions();
      time += Time([&] { service_.Durable(changes.submissions); });
      if (actions.empty() && changes.empty()) return time;
      for (Action& action : actions) {
        if (!action.message.has_start_ranks()) continue;
        WorkerMessage ready;
        *ready.mutable_header() = action.message.header();
        ready.mutable_rank_ready()->set_job_id(action.message.start_ranks().job_id());
        ready.mutable_rank_ready()->set_transport_address("there");
        service_.WorkerSaid(action.to, ready);
        running_.emplace_back(action.to, std::move(action.message));
      }
    }
  }

  CoordinationService service_;
  std::vector<std::pair<ConnectionId, CoordinatorMessage>> running_;
};

}  // namespace

int MostDecisions(int workers, int queued) { return std::min(workers / 2, queued); }

absl::Status CheckDecisions(int workers, int queued, int decisions) {
  const int most = MostDecisions(workers, queued);
  if (most < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--workers ", workers, " and --jobs ", queued,
                                                   " leave no decision to be measured: take at least 2 workers, and "
                                                   "a job"));
  }
  if (decisions >= 1 && decisions <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--decisions ", decisions, " cannot be measured with --workers ",
                                                 workers, " and --jobs ", queued, ": take from 1 to ", most,
                                                 ", which is ", most == queued ? "the jobs" : "half of the workers"));
}

DecisionTimes MeasureDecisions(int workers, int queued, int decisions) {
  Cluster cluster;
  cluster.Connect(workers);
  DecisionTimes times;
  for (int i = 0; i < workers + queued; ++i) {
    const double time = cluster.Submit();
    if (i < decisions) times.start.push_back(time);
    if (i >= workers + queued - decisions) times.submit.push_back(time);
  }
  if (static_cast<int>(cluster.running()) != workers) {
    std::cerr << cluster.running() << " jobs run on " << workers << " workers\n";
    exit(1);
  }
  for (int i = 0; i < decisions; ++i) {
    times.next_job.push_back(cluster.EndOneJob());
    times.heartbeat.push_back(cluster.Heartbeat(static_cast<ConnectionId>(1 + i % workers)));
    times.tick.push_back(cluster.Tick());
  }
  Cluster half;
  half.Connect(workers);
  for (int i = 0; i < workers / 2; ++i) half.Submit();
  half.Submit(workers + 1);
  for (int i = 0; i < decisions; ++i) times.behind.push_back(half.Submit());
  return times;
}

}  // namespace adjoin
