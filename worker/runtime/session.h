// One job on one rank, from its plan to its files.
//
//   SessionOptions options;
//   options.plan = plan;
//   options.data_root = "/srv/data";
//   options.output_root = "/srv/results";
//   options.transport = transport.get();
//   ADJOIN_ASSIGN_OR_RETURN(SessionResult result, RunSession(options));       // on every rank
//
// Trains, writes model.safetensors, evaluates; metrics.jsonl grows as the steps are done. Rank 0 writes the files, into
// output_root / JobSpec.output_dir. Needs no coordinator: whatever gives the ranks a Transport can run a session.
#ifndef ADJOIN_WORKER_RUNTIME_SESSION_H_
#define ADJOIN_WORKER_RUNTIME_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

class LayerRegistry;  // layers/registry.h

struct SessionOptions {
  Plan plan;
  std::string data_root;    // the spec's paths of data and of init_from are below it
  std::string output_root;
  Transport* transport = nullptr;         // of this rank; Abort on it ends the session
  const LayerRegistry* layers = nullptr;  // null: the built-in layers
  int threads = 1;                        // of LibTorch, in the whole process
  absl::Duration timeout = absl::Minutes(5);  // of each wait for another rank

  // On this rank's thread, on every rank: at most ten times a second and at the end of each phase. May be empty.
  std::function<void(const JobProgress&)> on_progress;
  // Lines for the job's log. May be empty.
  std::function<void(const std::string&)> log;
};

struct SessionResult {
  std::vector<std::string> artifacts;  // below output_dir: "metrics.jsonl", "model.safetensors"; empty but on rank 0
  JobProgress final;
  // Of this rank, while training: the largest local tensor of each layer, in elements, and the steps done and bytes
  // sent in each program (to compare with the plan's bytes_per_step).
  std::map<std::string, int64_t> peak_elements;
  std::map<std::string, int64_t> steps;
  std::map<std::string, int64_t> bytes_sent;
};

// Errors: kInvalidArgument (the plan or a file does not fit); kNotFound, kDataLoss, ... of a data file; kOutOfRange
// (the loss is not finite; names the step); what a movement fails with (kDeadlineExceeded, kUnavailable, the status
// given to Transport::Abort). Collective: an error on one rank leaves the others waiting until they are aborted or
// time out.
absl::StatusOr<SessionResult> RunSession(const SessionOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_SESSION_H_
