// Which GPUs of its node a daemon offers.
//
//   ADJOIN_ASSIGN_OR_RETURN(const GpuChoice choice, ParseGpuChoice("0,2"));       // --gpus
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, FindGpus(choice, ListGpusCommand(rank_binary, user), limit));
//
// The program of a rank is asked (`adjoin-rank --list-gpus`), in a process of its own: it knows whether its LibTorch
// can compute there, and a driver that hangs does not hang the daemon.
#ifndef ADJOIN_WORKER_DAEMON_GPU_FINDER_H_
#define ADJOIN_WORKER_DAEMON_GPU_FINDER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

struct GpuChoice {
  enum class Kind {
    kAuto,  // those that work; none is no error
    kAll,   // all have to work, and there has to be one
    kNone,
    kThese,  // as kAll, of `indices`
  };
  Kind kind = Kind::kAuto;
  std::set<uint32_t> indices;
  std::string text = "auto";  // as the user wrote it
};

// "auto", "all", "none", "2", "0,2", "0-3,6". Errors: kInvalidArgument.
absl::StatusOr<GpuChoice> ParseGpuChoice(const std::string& text);

// What is run to list them, as a rank would run, on GPUs numbered as nvidia-smi does, within the daemon's own
// CUDA_VISIBLE_DEVICES.
SpawnRequest ListGpusCommand(const std::string& rank_binary, const std::optional<User>& user);

// Runs `command` and returns those of its GPUs that are chosen, by index; none where kAuto finds a reason, which is
// logged. Call it where no rank of an earlier daemon is left. `library`: for kAuto, without which nothing is run.
// Errors: kFailedPrecondition (what is chosen cannot be used), naming --gpus and the reason.
absl::StatusOr<std::vector<Gpu>> FindGpus(const GpuChoice& choice, const SpawnRequest& command, absl::Duration limit,
                                          const std::string& library);
absl::StatusOr<std::vector<Gpu>> FindGpus(const GpuChoice& choice, const SpawnRequest& command, absl::Duration limit);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_GPU_FINDER_H_
