// Who calls, and what the caller may do. Over TLS a client certificate or a token names the caller. Over plain text,
// which only loopback has, every caller may do all.
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
  bool local = false;  // over plain text on loopback: may do all that workers and admins may
};
std::string ToString(const Caller& caller);  // "user alice"

// Checks that the caller's role may call a method of either service at all. Errors: kPermissionDenied, also for a
// method that is not in the table.
absl::Status MayCall(const Caller& caller, absl::string_view method);

// Checks that the caller may cancel, retry, hold and release the job: users their own jobs, admins all. A job's owner
// is the name of the caller that submitted it, empty where that was a local one. Errors: kPermissionDenied.
absl::Status MayChange(const Caller& caller, const std::string& owner, const std::string& job_id);
// Checks that the caller may read logs, artifacts and the spec of the job: users their own jobs, admins all. Errors:
// kPermissionDenied.
absl::Status MayRead(const Caller& caller, const std::string& owner, const std::string& job_id, absl::string_view what);
// Removes what other users may not know of a job: its spec. Call it with every response to a caller that MayRead
// refuses.
void HideContent(DescribeJobResponse& response);
// Checks that a daemon has the name that its certificate gives it. Errors: kPermissionDenied.
absl::Status CheckWorkerName(const Caller& caller, const std::string& hello_name);

class Access;

// A call that was let in. It counts against its caller's limit until this object is destroyed.
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
  // `tokens` may be null, and outlives the result. Errors: the authorities' file cannot be read.
  static absl::StatusOr<std::unique_ptr<Access>> Create(Options options, TokenBook* tokens);

  // Finds out who calls. A token counts before a certificate. Errors: kUnauthenticated, which names the owner of the
  // certificate or token, what is wrong with it and what would be right.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);

  // Identify, then MayCall. `method`: "Submit". Errors: those of the two; kResourceExhausted (too many calls at once).
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
    uint64_t generation;  // Authorities::generation when it was checked
  };
  const Options options_;
  TokenBook* const tokens_;
  const std::unique_ptr<Authorities> authorities_;  // null: plain text
  absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // certificates that were found valid, by PEM
  std::map<std::pair<Role, std::string>, size_t> calls_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_logged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_ACCESS_H_
