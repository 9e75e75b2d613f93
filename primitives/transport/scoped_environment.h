// Environment variables that exist while a library reads its configuration from them.
//
//   ScopedEnvironment environment([] { return ScopedEnvironment::Variables{{"UCX_TLS", "posix,self"}}; });
//   ucp_config_read(...);
//
// A variable that is already set stays as it is: the user's choice wins. The destructor removes what was set, so that
// neither a later configuration nor a child process takes it for the user's.
//
// Threads: objects exclude each other by a lock of the process. Other threads must not read the environment meanwhile.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_SCOPED_ENVIRONMENT_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_SCOPED_ENVIRONMENT_H_

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace adjoin {

class ScopedEnvironment {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Calls `variables` once the lock is held: what it reads of the environment is the user's, not another object's.
  explicit ScopedEnvironment(const std::function<Variables()>& variables);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  // True where this object has set `name`; false where it was set before. Ask this instead of the environment, which
  // another thread's object may be changing.
  bool Set(const std::string& name) const { return std::find(set_.begin(), set_.end(), name) != set_.end(); }

 private:
  std::lock_guard<std::mutex> lock_;
  std::vector<std::string> set_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_SCOPED_ENVIRONMENT_H_
