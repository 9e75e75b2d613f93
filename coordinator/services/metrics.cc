#include "coordinator/services/metrics.h"

#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/endpoint.h"
#include "base/logging.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"

namespace adjoin {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr JobState kJobStates[] = {PENDING, STARTING, RUNNING, SUCCEEDED, FAILED, CANCELLED};
constexpr const char* kWorkerStates[] = {"ready", "suspect", "set aside", "unfit", "draining", "lost"};

// A family to which series are added.
class Family {
 public:
  Family(std::vector<MetricFamily>& all, MetricType type, const std::string& name, const std::string& help)
      : family_(all.emplace_back()) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }
  void Add(double value, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }

 private:
  MetricFamily& family_;  // valid until the next family is added
};

void AddJobs(const ClusterSnapshot& now, std::vector<MetricFamily>& all) {
  Family jobs(all, MetricType::Gauge, "adjoin_jobs", "Jobs that the coordinator knows, by state.");
  for (JobState state : kJobStates) {
    auto found = now.jobs.find(state);
    jobs.Add(found == now.jobs.end() ? 0 : static_cast<double>(found->second),
             {{"state", absl::AsciiStrToLower(JobState_Name(state))}});
  }
  Family(all, MetricType::Gauge, "adjoin_queue_length", "Jobs that wait.").Add(static_cast<double>(now.queue_length));
  Family(all, MetricType::Gauge, "adjoin_queue_oldest_seconds", "Since the submission of the oldest job that waits.")
      .Add(now.queue_oldest_seconds);
  Family(all, MetricType::Counter, "adjoin_submits_total", "Jobs accepted.").Add(static_cast<double>(now.submits));
  Family restarts(all, MetricType::Counter, "adjoin_restarts_total",
                  "Attempts after the first, by what ended the one before.");
  for (const auto& [reason, count] : now.restarts) restarts.Add(static_cast<double>(count), {{"reason", reason}});
  Family(all, MetricType::Counter, "adjoin_goodput_seconds_total",
         "For which attempts ran that got further than any before, or succeeded.")
      .Add(now.goodput_seconds);
  Family(all, MetricType::Counter, "adjoin_lost_seconds_total", "For which other attempts ran.").Add(now.lost_seconds);
}

void AddWorkers(const ClusterSnapshot& now, std::vector<MetricFamily>& all) {
  Family(all, MetricType::Counter, "adjoin_workers_lost_total", "Daemons that ceased to be heard of without a word.")
      .Add(static_cast<double>(now.workers_lost));
  std::map<std::string, int> states;
  double slots = 0, free_slots = 0, gpus = 0, free_gpus = 0;
  for (const char* state : kWorkerStates) states[state] = 0;
  for (const ClusterSnapshot::Worker& worker : now.workers) {
    ++states[worker.state];
    slots += worker.slots;
    free_slots += worker.free_slots;
    gpus += worker.gpus;
    free_gpus += worker.free_gpus;
  }
  Family workers(all, MetricType::Gauge, "adjoin_workers", "Worker daemons, by state.");
  for (const auto& [state, count] : states) workers.Add(count, {{"state", state}});
  Family(all, MetricType::Gauge, "adjoin_slots", "Ranks that all workers together can run.").Add(slots);
  Family(all, MetricType::Gauge, "adjoin_slots_free", "Of these, those without a rank.").Add(free_slots);
  Family(all, MetricType::Gauge, "adjoin_gpus", "That all workers together offer.").Add(gpus);
  Family(all, MetricType::Gauge, "adjoin_gpus_free", "Of these, those without a rank.").Add(free_gpus);
  Family ages(all, MetricType::Gauge, "adjoin_worker_heartbeat_age_seconds", "Since the last heartbeat.");
  for (const ClusterSnapshot::Worker& worker : now.workers) {
    ages.Add(worker.heartbeat_age_seconds, {{"worker", worker.name}});
  }
}

void AddRunning(const ClusterSnapshot& now, std::vector<MetricFamily>& all) {
  using Job = ClusterSnapshot::RunningJob;
  auto add = [&](MetricType type, const std::string& name, const std::string& help, auto value_of) {
    Family family(all, type, name, help);
    for (const Job& job : now.running) {
      const auto value = static_cast<double>(value_of(job));
      if (value >= 0) family.Add(value, {{"job", job.id}});
    }
  };
  auto known = [](double seconds) { return seconds > 0 ? seconds : -1; };
  add(MetricType::Gauge, "adjoin_job_step", "Steps done by a running job.", [](const Job& job) { return job.step; });
  add(MetricType::Gauge, "adjoin_job_step_seconds", "Time of one step.",
      [&](const Job& job) { return known(job.step_seconds); });
  add(MetricType::Gauge, "adjoin_job_compute_seconds", "Time of one step spent computing (T_comp), mean over ranks.",
      [&](const Job& job) { return known(job.compute_seconds); });
  add(MetricType::Gauge, "adjoin_job_sync_seconds",
      "Time of one step spent waiting for and moving data (T_sync), mean over ranks.",
      [&](const Job& job) { return known(job.sync_seconds); });
  add(MetricType::Counter, "adjoin_job_sent_bytes_total", "Sent between ranks since the attempt's start.",
      [](const Job& job) { return job.bytes_sent; });
  Family losses(all, MetricType::Gauge, "adjoin_job_loss",
                "Loss of the last step of training, or of the last validation.");
  for (const Job& job : now.running) {
    if (job.loss.has_value()) losses.Add(*job.loss, {{"job", job.id}, {"loss", "train"}});
    if (job.validation_loss.has_value()) losses.Add(*job.validation_loss, {{"job", job.id}, {"loss", "validation"}});
  }
}

void AddCommits(const prometheus::Histogram& commit_seconds, std::vector<MetricFamily>& all) {
  MetricFamily& family = all.emplace_back();
  family.name = "adjoin_store_commit_seconds";
  family.help = "How long commits to the store took.";
  family.type = MetricType::Histogram;
  family.metric.push_back(commit_seconds.Collect());
}

class Families : public prometheus::Collectable {
 public:
  Families(std::function<ClusterSnapshot()> look, const prometheus::Histogram& commit_seconds)
      : look_(std::move(look)), commit_seconds_(commit_seconds) {}
  // An exception would pass through the HTTP server's C code and end the program.
  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> all;
    const absl::Status status = Caught("the collection of the metrics", [&] {
      all = CollectNow();
      return absl::OkStatus();
    });
    if (!status.ok()) LogError(std::string(status.message()));
    return all;
  }

 private:
  std::vector<MetricFamily> CollectNow() const {
    const ClusterSnapshot now = look_();
    std::vector<MetricFamily> all;
    AddJobs(now, all);
    AddWorkers(now, all);
    AddRunning(now, all);
    AddCommits(commit_seconds_, all);
    return all;
  }

  const std::function<ClusterSnapshot()> look_;
  const prometheus::Histogram& commit_seconds_;
};

}  // namespace

prometheus::Histogram::BucketBoundaries CommitSecondsBounds() {
  return {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};
}

Metrics::Metrics(std::function<ClusterSnapshot()> look, const prometheus::Histogram& commit_seconds)
    : families_(std::make_shared<Families>(std::move(look), commit_seconds)) {}

Metrics::~Metrics() = default;

absl::Status Metrics::Listen(const std::string& address, bool public_allowed) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics-listen: ", std::string(endpoint.status().message())));
  }
  if (!endpoint->IsLoopback() && !public_allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-listen ", address,
                     " can be reached from other machines, and anybody who reaches it may "
                     "read it, without encryption: listen on loopback, such as 127.0.0.1:9411, or allow it with "
                     "--metrics-public"));
  }
  if (endpoint->host == "localhost") endpoint->host = "127.0.0.1";  // only addresses are understood below
  const std::vector<std::string> options = {
      "listening_ports", endpoint->ToString(), "num_threads", "2", "request_timeout_ms", "10000"};
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(options);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " for metrics: is the port in use?"));
  }
  exposer_->RegisterCollectable(families_);
  return absl::OkStatus();
}

int Metrics::port() const {
  const std::vector<int> ports = exposer_ == nullptr ? std::vector<int>() : exposer_->GetListeningPorts();
  return ports.empty() ? 0 : ports[0];
}

}  // namespace adjoin
