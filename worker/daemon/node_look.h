// What a daemon sees of its own node: whether ranks could run there at all.
//
//   NodeLook look({.data_root = "/srv/data", .output_root = "/srv/output", .rank_binary =
//   "/usr/lib/adjoin/adjoin-rank",
//                  .state_dir = "/var/lib/adjoin/worker", .socket = "/var/lib/adjoin/worker/link/rank.sock"});
//   NodeView seen = look.Look();
//   seen.condition;      // "the output root /srv/output is gone: make it again, or restart ..."; empty: all is well
//   seen.output_id;      // output_id.h; empty where it cannot be read
//   seen.rank_program;   // the checksum of adjoin-rank; empty where it cannot be read
//
// Any thread. Waits for as long as the file systems do, maybe for ever: node_watch.h.
#ifndef ADJOIN_WORKER_DAEMON_NODE_LOOK_H_
#define ADJOIN_WORKER_DAEMON_NODE_LOOK_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/unique_fd.h"

namespace adjoin {

// All absolute.
struct NodePlaces {
  std::string data_root, output_root;
  std::string rank_binary;
  std::string state_dir;         // exists when the NodeLook is made
  std::string socket;            // where ranks connect; empty: none
  bool other_rank_user = false;  // ranks run as another user than the daemon
};

struct NodeView {
  std::string output_id;
  std::string condition;
  std::string id_problem;         // why the output_id cannot be read, where ranks can run all the same
  std::string rank_program = "";  // as WorkerHello.rank_program
};

class NodeLook {
 public:
  explicit NodeLook(NodePlaces places);
  NodeLook(const NodeLook&) = delete;
  NodeLook& operator=(const NodeLook&) = delete;

  // Calls `at`, which may be empty, with each place before it is looked at: "the output root /srv/output".
  NodeView Look(const std::function<void(const std::string& place)>& at = nullptr);
  // Calls `enter` with the path of each place before it is looked at. Errors: those of `enter`.
  absl::StatusOr<NodeView> LookInto(const std::function<absl::Status(const std::string& path)>& enter);

 private:
  absl::Status LookAtAll(const std::function<absl::Status(const std::string& what, const std::string& path)>& before,
                         NodeView& seen);
  std::string LookAtProgram(NodeView& seen);
  std::string LookAtState() const;
  std::string LookAtData() const;
  std::string LookAtOutput(NodeView& seen);
  // Errors: kFailedPrecondition (it is on another file system than it was); those of OutputId.
  absl::StatusOr<std::string> IdOfOutput();

  const NodePlaces places_;
  const UniqueFd state_;  // the state folder as it was: while it is open no other folder gets its number
  absl::Mutex mutex_;     // not held while anything is looked at
  std::string output_id_ ABSL_GUARDED_BY(mutex_);
  dev_t output_device_ ABSL_GUARDED_BY(mutex_) = 0;
  // The program of a rank as it was when it was read last, and its checksum when it was read first.
  struct stat program_file_ ABSL_GUARDED_BY(mutex_) = {};
  std::string program_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_NODE_LOOK_H_
