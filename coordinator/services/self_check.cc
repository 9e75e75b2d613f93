#include "coordinator/services/self_check.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"

namespace adjoin {
namespace {

bool IsWildcard(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(name).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr);
}

void SetPort(sockaddr_storage& name, int port) {
  if (name.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(name).sin_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in6&>(name).sin6_port = htons(static_cast<uint16_t>(port));
  }
}

// What went wrong with a socket, by errno: of the network or of this process.
absl::Status SocketError(int cause) {
  switch (cause) {
    case EMFILE:
    case ENFILE: {
      rlimit limit = {};
      getrlimit(RLIMIT_NOFILE, &limit);
      return absl::ResourceExhaustedError(
          absl::StrCat("no file descriptor is left of ", limit.rlim_cur, " (the limit of open files)"));
    }
    case ECONNREFUSED: return absl::InternalError("nothing listens there any more");
    default: return absl::UnavailableError(strerror(cause));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SelfCheck>> SelfCheck::Start(const Endpoint& server, Options options,
                                                            std::function<void(const std::string&)> deaf) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(server.host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(server.host, ": ", gai_strerror(error)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    Address& address = addresses.emplace_back();
    memcpy(&address.name, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
    SetPort(address.name, server.port);
  }
  freeaddrinfo(found);
  const int stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop < 0) return absl::UnavailableError(absl::StrCat("no event descriptor: ", strerror(errno)));
  return std::unique_ptr<SelfCheck>(
      new SelfCheck(server.ToString(), std::move(options), std::move(deaf), stop, std::move(addresses)));
}

SelfCheck::SelfCheck(std::string shown, Options options, std::function<void(const std::string&)> deaf, int stop,
                     std::vector<Address> addresses)
    : shown_(std::move(shown)),
      options_(std::move(options)),
      deaf_(std::move(deaf)),
      stop_(stop),
      addresses_(std::move(addresses)),
      thread_([this] { Loop(); }) {}

SelfCheck::~SelfCheck() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(stop_);
}

int SelfCheck::Await(int fd, short events) const {
  pollfd fds[] = {{stop_, POLLIN, 0}, {fd, events, 0}};  // poll skips the descriptor -1
  const Deadline deadline = Deadline::After(options_.period);
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(absl::Ceil(deadline.Remaining(), absl::Milliseconds(1)));
    const int ready = poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (fds[0].revents != 0) return -1;
    return ready > 0 ? 1 : 0;
  }
}

absl::Status SelfCheck::Ask(const Address& address) const {
  const int fd = socket(address.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SocketError(errno);
  absl::Cleanup closing = [fd] { close(fd); };
  if (!IsWildcard(address.name)) {
    // Fails where the address is none of this machine's now; without it, the network would be asked for it.
    sockaddr_storage own = address.name;
    SetPort(own, 0);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&own), address.length) != 0) return SocketError(errno);
  }
  const absl::Status silent = absl::DeadlineExceededError(
      absl::StrCat("a connection is not accepted within ", absl::FormatDuration(options_.period)));
  const absl::Status stopped = absl::UnavailableError("the check ends");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.name), address.length) != 0) {
    if (errno != EINPROGRESS) return SocketError(errno);
    const int done = Await(fd, POLLOUT);
    if (done <= 0) return done < 0 ? stopped : silent;  // the queue of those who wait is full, too
    int cause = 0;
    socklen_t length = sizeof(cause);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &length) != 0 || cause != 0) return SocketError(cause);
  }
  // The kernel connects alone. That the server has it shows when it sends its settings; with TLS it waits for us to
  // begin and closes when we do not.
  shutdown(fd, SHUT_WR);
  const int done = Await(fd, POLLIN);
  if (done <= 0) return done < 0 ? stopped : silent;
  return absl::OkStatus();
}

void SelfCheck::Loop() {
  int unserved = 0;  // in a row
  do {
    const absl::Status served = options_.serves == nullptr ? absl::OkStatus() : options_.serves(options_.period);
    unserved = served.ok() || absl::IsUnavailable(served) ? 0 : unserved + 1;
    if (unserved == options_.failures) {
      return deaf_(absl::StrCat("this server at ", shown_, " serves nobody, ", unserved,
                                " times in a row: ", std::string(served.message())));
    }
    for (Address& address : addresses_) {
      const absl::Status status = Ask(address);
      if (status.ok()) address.answered = true;
      if (status.ok() || absl::IsUnavailable(status) || !address.answered) {
        address.failures = 0;
        continue;
      }
      if (++address.failures < options_.failures) continue;
      return deaf_(absl::StrCat("this server does not answer at ", shown_, ", ", address.failures,
                                " times in a row: ", std::string(status.message())));
    }
  } while (Await(-1, 0) == 0);
}

}  // namespace adjoin
