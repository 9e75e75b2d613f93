// Who calls. Over TLS a client certificate or a token names the caller. Over plain text, which only loopback has, every
// caller may do all. What a caller may do is in caller_rights.h.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto access, Access::Create({.tls_ca = tls.ca}, &tokens));
//   absl::StatusOr<Admitted> call = access->Admit(*context, "CancelJob");         // at the start of every handler
//   if (!call.ok()) return ToGrpc(call.status());
//   if (absl::Status status = MayChange(call->caller(), summary.owner(), summary.job_id()); !status.ok()) ...
#ifndef ADJOIN_COORDINATOR_SERVICES_ACCESS_H_
#define ADJOIN_COORDINATOR_SERVICES_ACCESS_H_

#include <grpcpp/server_context.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/scoped_thread.h"
#include "base/security/certificate.h"
#include "coordinator/services/caller_rights.h"
#include "coordinator/services/token_book.h"

namespace adjoin {

class Access;

// What a caller has shown.
struct Credentials {
  std::string pem, chain;  // of the certificate
  std::string token;       // the whole authorization header; counts before the certificate
};

// A call that was let in. It counts against its caller's limit until this object is destroyed.
class Admitted {
 public:
  Admitted(Admitted&& other);
  Admitted& operator=(Admitted&&) = delete;
  ~Admitted();
  const Caller& caller() const { return caller_; }

  // Calls `over` from a thread of the Access once the certificate or token that was shown counts no more: it has
  // expired or is revoked, or its authority is trusted no more. `last` is false in the first call; where the call is
  // still there Access::Options::end_grace later, another one follows, with true: then it must be broken off. The
  // status tells the reason. `over` neither destroys this object nor makes calls of Access. It is not called after the
  // destructor, and never for a local caller. Do not move the object after this.
  void WhenOver(std::function<void(const absl::Status& reason, bool last)> over);

 private:
  friend class Access;
  Admitted(Access* access, Caller caller, CallKind kind, Credentials shown)
      : access_(access), caller_(std::move(caller)), kind_(kind), shown_(std::move(shown)) {}
  Access* access_;
  Caller caller_;
  CallKind kind_;
  Credentials shown_;
  uint64_t watch_ = 0;  // 0: none
};

// Any thread.
class Access {
 public:
  struct Options {
    std::string tls_ca;             // empty: the server speaks plain text, on loopback
    size_t calls_per_caller = 500;  // at once, over all connections of one name; local callers have no limit
    // The same by CallKind, and of all callers together, local ones too. All kinds together stay below
    // kMaxServerThreads, so that no kind keeps another from being served.
    struct Limit {
      size_t per_caller, total;
    };
    std::array<Limit, kCallKinds> limits = {{
        {500, 4000},                               // kShort
        {200, 2000},                               // kSubmission
        {100, 1000},                               // kStream
        {100, 500},                                // kUpload
        {20, std::numeric_limits<size_t>::max()},  // kDaemon
        {20, 400},                                 // kFirstContact
        {20, 50},                                  // kJoin
    }};
    absl::Duration look = absl::Seconds(1);       // how often open calls are checked again (Admitted::WhenOver)
    absl::Duration end_grace = absl::Seconds(5);  // for a call to end by itself
    std::function<absl::Time()> clock;            // empty: absl::Now
    // Tells whether a node's certificate that is valid is revoked, and why. Called with each call. Empty: none is.
    std::function<absl::Status(const std::string& node, const Certificate& certificate)> check_node;
  };
  // `tokens` may be null, and outlives the result, which outlives each Admitted. Errors: the authorities' file cannot
  // be read.
  static absl::StatusOr<std::unique_ptr<Access>> Create(Options options, TokenBook* tokens);

  // Finds out who calls. A token counts before a certificate. Errors: kUnauthenticated, which names the owner of the
  // certificate or token, what is wrong with it and what would be right.
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);

  // Identify, then MayCall. `method`: "Submit". Errors: those of the two; kResourceExhausted (too many calls at once).
  absl::StatusOr<Admitted> Admit(const grpc::ServerContextBase& context, absl::string_view method);
  // Lets everyone in to a method that is for everyone. Errors: kPermissionDenied (it is not); kResourceExhausted.
  absl::StatusOr<Admitted> AdmitAnyone(const grpc::ServerContextBase& context, absl::string_view method);
  // The same as Admit for a call that did not come over gRPC. `peer`: where it came from, for the log.
  absl::StatusOr<Admitted> Admit(Credentials shown, absl::string_view method, const std::string& peer);
  // Writes a refusal into the log, at most one a second. Called for those of Admit already.
  void LogRefused(const std::string& peer, absl::string_view method, const absl::Status& status);

 private:
  friend class Admitted;
  Access(Options options, TokenBook* tokens, std::unique_ptr<Authorities> authorities);
  absl::StatusOr<Caller> Identify(const Credentials& shown);
  absl::StatusOr<Caller> FromCertificate(const std::string& pem, const std::string& chain);
  absl::Status CheckNode(const Caller& caller, const Certificate& certificate) const;
  absl::StatusOr<Caller> FromToken(absl::string_view header);
  // Counts the call. Errors: kResourceExhausted.
  absl::Status Enter(const Caller& caller, CallKind kind);
  void Leave(const Caller& caller, CallKind kind);
  uint64_t Watch(const Admitted& call, std::function<void(const absl::Status&, bool)> over);
  void EndWatch(uint64_t id);
  void LookAgain();

  struct Counts {
    size_t all = 0;
    std::array<size_t, kCallKinds> by_kind = {};
  };
  struct Watched {
    std::string owner;  // ToString of the caller
    Credentials shown;
    std::function<void(const absl::Status&, bool)> over;
    Deadline::Clock::time_point over_since;  // min(): it counts still
  };
  struct Known {
    Caller caller;
    Certificate certificate;
    uint64_t generation;  // Authorities::generation when it was checked
  };
  const Options options_;
  TokenBook* const tokens_;
  const std::unique_ptr<Authorities> authorities_;  // null: plain text
  absl::Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // certificates that were found valid, by PEM
  std::map<std::pair<Role, std::string>, Counts> calls_ ABSL_GUARDED_BY(mutex_);  // not of local callers
  std::array<size_t, kCallKinds> all_calls_ ABSL_GUARDED_BY(mutex_) = {};
  absl::Time last_logged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  absl::Mutex watch_mutex_;  // held while `over` is called; never together with mutex_ taken first
  uint64_t last_watch_ ABSL_GUARDED_BY(watch_mutex_) = 0;
  std::map<uint64_t, Watched> watched_ ABSL_GUARDED_BY(watch_mutex_);
  std::optional<ScopedThread> watcher_;  // over TLS only; last: it uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_ACCESS_H_
