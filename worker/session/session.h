// One job on one rank, from its plan to its files.
//
//   SessionOptions options;
//   options.plan = plan;
//   options.data_root = "/srv/data";
//   options.output_root = "/srv/results";
//   options.transport = transport.get();
//   ADJOIN_ASSIGN_OR_RETURN(SessionResult result, RunSession(options));       // on every rank
//
// Goes on from the job's newest valid checkpoint (JobSpec.checkpoint), trains, writes model.safetensors, evaluates; metrics.jsonl grows as the steps are done. Rank 0 writes the files, into
// output_root / JobSpec.output_dir; with an epoch first into the folder attempt-<epoch> there, from where they are published
// in the end (attempt_output.h). Needs no coordinator: whatever gives the ranks a Transport can run a session.
#ifndef ADJOIN_WORKER_SESSION_SESSION_H_
#define ADJOIN_WORKER_SESSION_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class LayerRegistry;  // layers/registry.h

struct SessionOptions {
  Plan plan;
  std::string data_root;    // the spec's paths of data and of init_from are below it
  std::string output_root;
  std::string cache_dir;    // of inflated copies of data files, one for all ranks of a node; empty: each rank has its own
  int64_t cache_bytes = 0;  // which it may have; 0: 80 % of its disk
  Transport* transport = nullptr;         // of this rank; Abort on it ends the session
  const LayerRegistry* layers = nullptr;  // null: the built-in layers
  int threads = 1;                        // of LibTorch, in the whole process
  absl::Duration timeout = absl::Minutes(5);  // of each wait for another rank; slow files of a rank are waits of the others
  // Of the attempt, which grow over all jobs: output of an older one is never published over that of a later one. 0: none.
  uint64_t epoch = 0;
  std::string job_id;     // with an epoch
  uint64_t store_id = 0;  // of the store of the coordinator that counts the epochs

  // Whether this rank is asked to stop after a step that all ranks agree on; any thread may set it. Null: never.
  const std::atomic<bool>* drain = nullptr;
  SessionActivity* activity = nullptr;  // what the session does, for other threads; null: nobody asks

  // On this rank's thread, on every rank: at most ten times a second and at the end of each phase. May be empty.
  std::function<void(const JobProgress&)> on_progress;
  // Lines for the job's log. May be empty.
  std::function<void(const std::string&)> log;
};

struct SessionResult {
  // The job was not finished, because a rank was asked to stop: all ranks did after this step of training (of the
  // evaluation, where the job only evaluates). Nothing was published.
  std::optional<int64_t> drained_step;
  // The checkpoint that training went on from; absent: it began at its beginning.
  std::optional<int64_t> resumed_step;
  std::vector<std::string> artifacts;  // below output_dir: "metrics.jsonl", "model.safetensors"; empty but on rank 0
  JobProgress final;
  // Of this rank, while training: the largest local tensor of each layer, in elements, and the steps done and bytes
  // sent in each program (to compare with the plan's bytes_per_step).
  std::map<std::string, int64_t> peak_elements;
  std::map<std::string, int64_t> steps;
  std::map<std::string, int64_t> bytes_sent;
};

// Errors: kInvalidArgument (the plan or a file does not fit); kNotFound, kDataLoss, ... of a data file; kOutOfRange
// (the loss is not finite; names the step and the layer); kFailedPrecondition (a later attempt has begun, or another job
// writes into output_dir); what a movement fails with (kDeadlineExceeded, kUnavailable, the status
// given to Transport::Abort). Collective: an error on one rank leaves the others waiting until they are aborted or
// time out.
absl::StatusOr<SessionResult> RunSession(const SessionOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_H_
