// Checks that this process's own server still accepts connections, and serves calls. A gRPC server that has run out of
// file descriptors once accepts none any more, while everything else in the process goes on; only a restart helps. One
// whose threads are all held accepts connections, and refuses their calls.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto check, SelfCheck::Start(bound, {}, [&](const std::string& why) { ... }));
//
// The check connects as a client does and waits until the server sends something or closes. Both are answers, with
// TLS and without.
#ifndef ADJOIN_COORDINATOR_SERVICES_SELF_CHECK_H_
#define ADJOIN_COORDINATOR_SERVICES_SELF_CHECK_H_

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/endpoint.h"

namespace adjoin {

class SelfCheck {
 public:
  struct Options {
    absl::Duration period = absl::Seconds(5);  // between two checks, and for each to be answered
    int failures = 3;                          // so many in a row
    // Makes a call to the server within the limit (served_call.h). Empty: only connections are checked. kUnavailable
    // does not count against the server.
    std::function<absl::Status(absl::Duration limit)> serves = nullptr;
  };

  // `deaf` is called once, on a thread of the check's own, with the reason. An address that never answered, or that
  // is no longer one of this machine's, does not count. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<SelfCheck>> Start(const Endpoint& server, Options options,
                                                          std::function<void(const std::string&)> deaf);
  ~SelfCheck();
  SelfCheck(const SelfCheck&) = delete;
  SelfCheck& operator=(const SelfCheck&) = delete;

 private:
  struct Address {
    sockaddr_storage name = {};
    socklen_t length = 0;
    bool answered = false;
    int failures = 0;  // in a row
  };

  SelfCheck(std::string shown, Options options, std::function<void(const std::string&)> deaf, int stop,
            std::vector<Address> addresses);
  void Loop();
  // Errors: kUnavailable, which does not count against the server; all others do.
  absl::Status Ask(const Address& address) const;
  // Waits for `events` on `fd`, or for no descriptor where it is -1. Returns 1 when they happened, 0 when the period
  // is over, -1 when the destructor is called.
  int Await(int fd, short events) const;

  const std::string shown_;
  const Options options_;
  const std::function<void(const std::string&)> deaf_;
  const int stop_;  // an event descriptor: readable when the destructor is called
  std::vector<Address> addresses_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_SELF_CHECK_H_
