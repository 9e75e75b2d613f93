// Who calls, and what they may do: by client certificate or token over TLS; over plain text, which only loopback has,
// all.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto access, Access::Create({.tls_ca = tls.ca}, &tokens));
//   absl::StatusOr<Admitted> call = access->Admit(*context, "CancelJob");         // at the start of every handler
//   if (!call.ok()) return ToGrpc(call.status());
//   if (absl::Status status = MayChange(call->caller(), summary.owner(), summary.job_id()); !status.ok()) ...
#ifndef ADJOIN_COORDINATOR_SERVICES_ACCESS_H_
#define ADJOIN_COORDINATOR_SERVICES_ACCESS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"
#include "coordinator/services/token_book.h"

namespace adjoin {

enum class Role { kAdmin, kUser, kWorker, kViewer };

struct Caller {
  std::string name;  // empty where `local`
  Role role = Role::kViewer;
  bool local = false;  // over plain text on loopback, where nobody is asked: may do all, worker and admin in one
};
std::string ToString(const Caller& caller);  // "user alice"

// Whether a role may call a method of either service at all. Errors: kPermissionDenied, also for a method that the
// table does not know.
absl::Status MayCall(const Caller& caller, absl::string_view method);

// A job's owner is the name of the caller that submitted it, empty where that was a local one.
// Cancel, retry, hold and release: one's own jobs, admins all. Errors: kPermissionDenied.
absl::Status MayChange(const Caller& caller, const std::string& owner, const std::string& job_id);
// Logs, artifacts and the spec: one's own jobs, admins all. Errors: kPermissionDenied.
absl::Status MayRead(const Caller& caller, const std::string& owner, const std::string& job_id, absl::string_view what);
// What others may know of a job: all but its spec. Call it with every response to a caller that MayRead refuses.
void HideContent(DescribeJobResponse& response);
// A daemon is known by its certificate. Errors: kPermissionDenied.
absl::Status CheckWorkerName(const Caller& caller, const std::string& hello_name);

class Access;

// A call that was let in; it counts against its caller's limit for as long as this lives.
class Admitted {
 public:
  Admitted(Admitted&& other) : access_(std::exchange(other.access_, nullptr)), caller_(std::move(other.caller_)) {}
  Admitted& operator=(Admitted&&) = delete;
  ~Admitted();
  const Caller& caller() const { return caller_; }

 private:
  friend class Access;
  Admitted(Access* access, Caller caller) : access_(access), caller_(std::move(caller)) {}
  Access* access_;
  Caller caller_;
};

// Any thread.
class Access {
 public:
  struct Options {
    std::string tls_ca;                 // empty: the server speaks plain text, on loopback
    size_t calls_per_caller = 500;      // at once, over all connections of one name; local callers have no limit
    std::function<absl::Time()> clock;  // empty: absl::Now
  };
  // `tokens`, which may be null, outlives it. Errors: the authorities' file cannot be read.
  static absl::StatusOr<std::unique_ptr<Access>> Create(Options options, TokenBook* tokens);

  // A token is looked at before a certificate. Errors: kUnauthenticated: whose certificate or token, what is wrong with
  // it, what would be right.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);

  // Identify and MayCall. `method`: "Submit". Errors: theirs; kResourceExhausted (too many calls at once).
  absl::StatusOr<Admitted> Admit(const grpc::ServerContextBase& context, absl::string_view method);

 private:
  friend class Admitted;
  Access(Options options, TokenBook* tokens, std::unique_ptr<Authorities> authorities);
  absl::StatusOr<Caller> FromCertificate(const std::string& pem, const std::string& chain);
  absl::StatusOr<Caller> FromToken(absl::string_view header);
  void LogRefused(const grpc::ServerContextBase& context, absl::string_view method, const absl::Status& status);
  void Leave(const Caller& caller);

  struct Known {
    Caller caller;
    absl::Time until;     // not_after
    uint64_t generation;  // of the authorities
  };
  const Options options_;
  TokenBook* const tokens_;
  const std::unique_ptr<Authorities> authorities_;  // null: plain text
  absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // certificates found good, by PEM
  std::map<std::pair<Role, std::string>, size_t> calls_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_logged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_ACCESS_H_
