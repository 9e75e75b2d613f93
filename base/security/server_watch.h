// Looks again and again whether the server of an open call is still trusted.
//
//   ServerCheck check;
//   ADJOIN_ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(coordinator, tls, token_file, &check));
//   const auto begun = Deadline::Clock::now();
//   ... a channel, and a call with its context ...
//   ServerWatch watch(check, begun, [&](const absl::Status& why) { context.TryCancel(); });
//   while (stream->Read(&message)) ...
#ifndef ADJOIN_BASE_SECURITY_SERVER_WATCH_H_
#define ADJOIN_BASE_SECURITY_SERVER_WATCH_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/scoped_thread.h"

namespace adjoin {

// Judges again the server that was let in last with some credentials, where that was since then: give the time before
// the channel was made. Errors: kUnauthenticated (it would not be let in any more). Any thread.
using ServerCheck = std::function<absl::Status(Deadline::Clock::time_point since)>;

class ServerWatch {
 public:
  // Calls `over` with the error of the first check that fails, on a thread of the watch's own, and never after the
  // destructor has returned. An empty `check` never fails. `look`: from one check to the next.
  ServerWatch(ServerCheck check, Deadline::Clock::time_point since, std::function<void(const absl::Status& why)> over,
              absl::Duration look = absl::Seconds(1)) {
    if (check == nullptr) return;
    thread_.emplace([check = std::move(check), since, over = std::move(over), look](ScopedThread& thread) {
      absl::Status status;
      while (status.ok()) {
        if (thread.EndsBefore(Deadline::After(look))) return;
        status = check(since);
      }
      over(status);
    });
  }

 private:
  std::optional<ScopedThread> thread_;  // none where nothing is checked
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_SERVER_WATCH_H_
