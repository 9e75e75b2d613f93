// What the connections of browsers hold: sockets, counted by address, and answers that are not sent yet, counted by
// caller. libmicrohttpd limits how long a connection is idle; this limits how long one takes in all, however often it
// sends or reads a byte.
//
//   OpenConnections connections({.per_address = 200});
//   if (!connections.MayOpen(address)) ... close ...
//   OpenConnections::Connection* one = connections.Opened(socket, address);   // has to send a request soon
//   connections.Works(one);                                                   // is answered: no limit
//   if (connections.Keep("user alice", answer.size()) != OpenConnections::Kept::kYes) ... refuse ...
//   connections.Sends(one, answer.size());                                    // has to read it soon
//   connections.Forget("user alice", answer.size());
//   connections.AwaitsRequest(one);
//   connections.Closed(one);                                                  // before its socket is closed
//
// A connection that is late is shut down, after which libmicrohttpd closes it. Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_OPEN_CONNECTIONS_H_
#define ADJOIN_COORDINATOR_PAGE_OPEN_CONNECTIONS_H_

#include <sys/socket.h>

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {

// Whom a connection is counted for: "10.0.0.7"; of IPv6 the first 64 bits, of which one machine has all addresses.
std::string AddressKey(const sockaddr* address);

class OpenConnections {
 public:
  static constexpr size_t kSmallBytes = size_t{64} << 10;  // smaller answers are not counted

  struct Limits {
    unsigned per_address = 200;
    absl::Duration request = absl::Seconds(30);  // until a request is whole, from the end of the one before it
    absl::Duration answer = absl::Seconds(30);   // until an answer is read, and a second for so many bytes:
    size_t bytes_per_second = size_t{512} << 10;
    size_t bytes = size_t{128} << 20;        // of all answers that are not sent yet
    size_t bytes_of_one = size_t{40} << 20;  // likewise of one caller, who may always have one answer
  };
  struct Connection {
    int socket = -1;
    std::string address;
    std::optional<Deadline> until;
  };
  enum class Kept { kYes, kCallerHasTooMany, kAllHaveTooMany };

  explicit OpenConnections(const Limits& limits);
  ~OpenConnections();
  OpenConnections(const OpenConnections&) = delete;
  OpenConnections& operator=(const OpenConnections&) = delete;

  bool MayOpen(const sockaddr* address);
  Connection* Opened(int socket, const sockaddr* address);
  void Closed(Connection* connection);

  void AwaitsRequest(Connection* connection);
  void Works(Connection* connection);
  void Sends(Connection* connection, size_t bytes);

  // `who`: the caller, or the address of one who is not known. Where the answer is kYes, Forget has to follow.
  Kept Keep(const std::string& who, size_t bytes);
  void Forget(const std::string& who, size_t bytes);

 private:
  void ShutDownLateOnes();
  void Set(Connection* connection, std::optional<Deadline> until);

  const Limits limits_;
  absl::Mutex mutex_;
  MonotonicCondition stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Connection> open_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, unsigned> by_address_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> kept_ ABSL_GUARDED_BY(mutex_);
  size_t kept_in_all_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_OPEN_CONNECTIONS_H_
