#include "coordinator/page/open_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(500);

}  // namespace

std::string AddressKey(const sockaddr* address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address != nullptr && address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, host, sizeof(host));
    return host;
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    in6_addr six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
      inet_ntop(AF_INET, six.s6_addr + 12, host, sizeof(host));
      return host;
    }
    std::memset(six.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &six, host, sizeof(host));
    return absl::StrCat(host, "/64");
  }
  return "?";
}

OpenConnections::OpenConnections(const Limits& limits) : limits_(limits), thread_([this] { ShutDownLateOnes(); }) {}

OpenConnections::~OpenConnections() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

bool OpenConnections::MayOpen(const sockaddr* address) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_address_.find(AddressKey(address));
  return found == by_address_.end() || found->second < limits_.per_address;
}

OpenConnections::Connection* OpenConnections::Opened(int socket, const sockaddr* address) {
  absl::MutexLock lock(&mutex_);
  Connection& made = open_.emplace_back();
  made.socket = socket;
  made.address = AddressKey(address);
  made.until = Deadline::After(limits_.request);
  ++by_address_[made.address];
  return &made;
}

void OpenConnections::Closed(Connection* connection) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_address_.find(connection->address);
  if (--found->second == 0) by_address_.erase(found);
  open_.remove_if([&](const Connection& each) { return &each == connection; });
}

void OpenConnections::Set(Connection* connection, std::optional<Deadline> until) {
  absl::MutexLock lock(&mutex_);
  connection->until = until;
}

void OpenConnections::AwaitsRequest(Connection* connection) { Set(connection, Deadline::After(limits_.request)); }

void OpenConnections::Works(Connection* connection) { Set(connection, std::nullopt); }

void OpenConnections::Sends(Connection* connection, size_t bytes) {
  const auto more = static_cast<int64_t>(bytes / limits_.bytes_per_second);
  Set(connection, Deadline::After(limits_.answer + absl::Seconds(more)));
}

OpenConnections::Kept OpenConnections::Keep(const std::string& who, size_t bytes) {
  if (bytes <= kSmallBytes) return Kept::kYes;
  absl::MutexLock lock(&mutex_);
  if (kept_in_all_ + bytes > limits_.bytes) return Kept::kAllHaveTooMany;
  const auto own = kept_.find(who);
  if (own != kept_.end() && own->second + bytes > limits_.bytes_of_one) return Kept::kCallerHasTooMany;
  kept_[who] += bytes;
  kept_in_all_ += bytes;
  return Kept::kYes;
}

void OpenConnections::Forget(const std::string& who, size_t bytes) {
  if (bytes <= kSmallBytes) return;
  absl::MutexLock lock(&mutex_);
  const auto own = kept_.find(who);
  own->second -= bytes;
  if (own->second == 0) kept_.erase(own);
  kept_in_all_ -= bytes;
}

// A socket is closed after Closed only, so its number is still this connection's.
void OpenConnections::ShutDownLateOnes() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_.Wait(mutex_, Deadline::After(kBetweenLooks),
                        [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_; })) {
    for (Connection& each : open_) {
      if (!each.until.has_value() || !each.until->Expired()) continue;
      shutdown(each.socket, SHUT_RDWR);
      each.until.reset();
    }
  }
}

}  // namespace adjoin
