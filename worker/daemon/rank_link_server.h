// The daemon's end of the streams to its rank processes, on a Unix socket.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto server, RankLinkServer::Start("rank.sock", attempts));
//
// The kernel tells who connects. Only the process that was started for a rank may say that rank's hello; any other one
// is cut off before it can say anything, also another process of the same user, a child of a rank and a process of
// another PID namespace.
//
// Any thread. Destroy it when no rank process is left.
#ifndef ADJOIN_WORKER_DAEMON_RANK_LINK_SERVER_H_
#define ADJOIN_WORKER_DAEMON_RANK_LINK_SERVER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/daemon/attempts.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

class RankLinkServer {
 public:
  virtual ~RankLinkServer() = default;

  // `path`: of the socket, at most 100 bytes; a relative one is below the working directory of daemon and ranks. An old
  // socket there is replaced. `attempts` outlives the server. `user` is that of the ranks; absent: the daemon's own.
  // Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<RankLinkServer>> Start(const std::string& path, NodeAttempts& attempts,
                                                               const std::optional<User>& user = std::nullopt);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_RANK_LINK_SERVER_H_
