// The cluster at one moment, in numbers, for /metrics.
//
//   ClusterSnapshot now = service.Snapshot();
#ifndef ADJOIN_COORDINATOR_DECISIONS_CLUSTER_SNAPSHOT_H_
#define ADJOIN_COORDINATOR_DECISIONS_CLUSTER_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace adjoin {

struct ClusterSnapshot {
  struct Worker {
    std::string name;
    std::string state;  // "ready" "suspect" "unfit" "set aside" "draining" "lost"
    double heartbeat_age_seconds = 0;
    uint32_t slots = 0;
    uint32_t free_slots = 0;
    uint32_t gpus = 0;
    uint32_t free_gpus = 0;
  };
  struct RunningJob {
    std::string id;
    uint64_t step = 0;
    double step_seconds = 0;                // of one step; 0: not known yet, and then not shown
    double compute_seconds = 0;             // of one step (T_comp)
    double sync_seconds = 0;                // of one step (T_sync)
    int64_t bytes_sent = 0;                 // all ranks together, since the attempt's start
    std::optional<double> loss;             // of the last step of training; absent: none is known yet
    std::optional<double> validation_loss;  // of the last validation; likewise
  };
  std::map<JobState, uint64_t> jobs;  // all that are known, by state
  uint64_t queue_length = 0;
  double queue_oldest_seconds = 0;  // since its submission
  std::vector<Worker> workers;
  std::vector<RunningJob> running;
  // Since the coordinator's start.
  uint64_t submits = 0;                      // accepted
  std::map<std::string, uint64_t> restarts;  // by what ended the attempt: "rank_lost" "node_lost" "error" ...
  double goodput_seconds = 0;                // of ended attempts that got further than any before, or succeeded
  double lost_seconds = 0;                   // of the others
  uint64_t workers_lost = 0;                 // WorkerTable::lost_in_all
};

// A snapshot that is made in steps, so that nothing else waits for the whole of it (ClusterReport::Continue).
struct SnapshotInSteps {
  ClusterSnapshot snapshot;
  std::optional<std::string> last_worker;  // that was looked at
  bool workers_done = false;
  uint64_t last_job = 0;  // likewise
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_CLUSTER_SNAPSHOT_H_
