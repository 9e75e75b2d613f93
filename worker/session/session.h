// One job on one rank, from its plan to its files.
//
//   SessionOptions options;
//   options.plan = plan;
//   options.data_root = "/srv/data";
//   options.output_root = "/srv/results";
//   options.transport = transport.get();
//   ADJOIN_ASSIGN_OR_RETURN(SessionResult result, RunSession(options));       // on every rank
//
// A job that trains resumes from its newest valid checkpoint (JobSpec.checkpoint), trains, writes model.safetensors and
// evaluates. Rank 0 writes the files, into output_root / JobSpec.output_dir: metrics.jsonl line by line, and all others
// when they are whole. With an epoch it writes them first into the folder attempt-<epoch> there and publishes them in
// the end (attempt_output.h). Needs no coordinator: every program that gives its ranks a Transport can run a session.
//
// The parts, each with its own state, and one file each:
//
//   session_environment     what all parts read: options, plan, rank, communicator, activity
//   session_progress        the phases and the JobProgress that is reported
//   session_output          the attempt's folder, metrics.jsonl, what is published
//   session_weights         weights that are given, and the model's file
//   session_checkpoints     where training resumes, and the checkpoints that it writes
//   session_training        steps and validations
//   session_trace           traces of some steps
//   session_evaluation, session_prediction
//   session                 the order of all these
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
#include "proto/rates.pb.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class LayerRegistry;  // layers/registry.h
class LayerRules;     // layers/rules/layer_rule.h
class LocalMemory;    // primitives/comm/local_memory.h

class TraceRequests;  // worker/session/trace_requests.h

struct SessionOptions {
  Plan plan;
  std::string data_root;  // the spec's paths of data and of init_from are below it
  std::string output_root;
  std::string cache_dir;    // inflated copies of data files for all ranks of a node; empty: each rank has its own
  int64_t cache_bytes = 0;  // most bytes of these copies; 0: 80 % of their disk
  RateTable rates;          // of the node, by which rank 0 predicts; empty: not measured
  Transport* transport = nullptr;         // this rank's; Abort on it ends the session
  const LayerRegistry* layers = nullptr;  // null: the built-in layers
  const LayerRules* rules = nullptr;      // theirs; null: the built-in ones
  // This rank's tensors and what it moves: the host's, or a device's (TensorDeviceMemory, which then outlives the
  // session). Null: the host's.
  LocalMemory* memory = nullptr;
  int threads = 1;                            // LibTorch's, in the whole process
  absl::Duration timeout = absl::Minutes(5);  // for each wait for another rank; covers that rank's slow files too
  // The attempt's epoch, which grows over all jobs: an older attempt never publishes its output over a later one's. 0:
  // none.
  uint64_t epoch = 0;
  std::string job_id;     // with an epoch
  uint64_t store_id = 0;  // names the coordinator's store that counts the epochs
  uint64_t job_tag = 0;   // names the job's checkpoints; 0: the store and the job's id do

  // Set by any thread: this rank is asked to stop after a step that all ranks agree on. Null: never.
  const std::atomic<bool>* drain = nullptr;
  SessionActivity* activity = nullptr;  // what the session does, for other threads; may be null
  TraceRequests* traces = nullptr;      // steps to be traced, that any thread asks for on rank 0. Null: none are

  // Called on this rank's thread, on every rank: at most ten times a second and at the end of each phase. May be empty.
  std::function<void(const JobProgress&)> on_progress;
  // Gets the lines for the job's log. May be empty.
  std::function<void(const std::string&)> log;
};

struct SessionResult {
  // The step after which all ranks stopped because one was asked to: of training, or of the job's only phase where it
  // only evaluates or predicts. The job is not finished and nothing was published. Absent: the job is finished.
  std::optional<int64_t> drained_step;
  // The step of the checkpoint that training resumed from; absent: it began at its beginning.
  std::optional<int64_t> resumed_step;
  std::vector<std::string> artifacts;  // below output_dir: "metrics.jsonl", "model.safetensors"; empty but on rank 0
  JobProgress final;
  // This rank's numbers of training: the largest local tensor of each layer, in elements, and by program the steps done
  // and the bytes sent (to compare with the plan's bytes_per_step).
  std::map<std::string, int64_t> peak_elements;
  std::map<std::string, int64_t> steps;
  std::map<std::string, int64_t> bytes_sent;
};

// Errors: kInvalidArgument (the plan or a file does not fit); kNotFound, kDataLoss, ... of a data file; kOutOfRange
// (the loss is not finite; names the step and the layer); kFailedPrecondition (a later attempt has begun, or another
// job writes into output_dir); kResourceExhausted (out of memory: out_of_memory.h); errors of movements
// (kDeadlineExceeded, kUnavailable, the status given to Transport::Abort). Collective: an error on one rank leaves the
// others waiting until they are aborted or time out.
absl::StatusOr<SessionResult> RunSession(const SessionOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_H_
