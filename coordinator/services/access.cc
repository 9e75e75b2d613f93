#include "coordinator/services/access.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/security/make_certs.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kMostKnown = 10000;
constexpr absl::Duration kLogInterval = absl::Seconds(1);

std::string Property(const grpc::AuthContext& peer, const char* name) {
  const std::vector<grpc::string_ref> values = peer.FindPropertyValues(name);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

Credentials ShownBy(const grpc::ServerContextBase& context) {
  Credentials shown;
  const auto& metadata = context.client_metadata();
  if (auto token = metadata.find("authorization"); token != metadata.end()) {
    shown.token.assign(token->second.data(), token->second.size());
    return shown;
  }
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr) return shown;
  shown.pem = Property(*peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  shown.chain = Property(*peer, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME);
  return shown;
}

// "submissions", in messages.
absl::string_view PluralOf(CallKind kind) {
  switch (kind) {
    case CallKind::kShort: return "calls";
    case CallKind::kSubmission: return "submissions and removals";
    case CallKind::kStream: return "streams (follow, logs, events, get)";
    case CallKind::kUpload: return "uploads";
    case CallKind::kDaemon: return "daemons' streams";
    case CallKind::kFirstContact: return "calls of those who have shown nothing";
    case CallKind::kJoin: return "calls to join";
  }
  return "";
}

// "at ipv4:10.0.0.7" of "ipv4:10.0.0.7:51234". No name of a caller has a space.
std::string HostOf(const std::string& peer) { return absl::StrCat("at ", peer.substr(0, peer.rfind(':'))); }

}  // namespace

Admitted::Admitted(Admitted&& other)
    : access_(std::exchange(other.access_, nullptr)),
      caller_(std::move(other.caller_)),
      kind_(other.kind_),
      shown_(std::move(other.shown_)),
      watch_(std::exchange(other.watch_, 0)) {}

Admitted::~Admitted() {
  if (access_ == nullptr) return;
  if (watch_ != 0) access_->EndWatch(watch_);
  access_->Leave(caller_, kind_);
}

void Admitted::WhenOver(std::function<void(const absl::Status&, bool)> over) {
  if (!caller_.local) watch_ = access_->Watch(*this, std::move(over));
}

Access::Access(Options options, TokenBook* tokens, std::unique_ptr<Authorities> authorities)
    : options_(std::move(options)), tokens_(tokens), authorities_(std::move(authorities)) {
  if (authorities_ == nullptr) return;
  watcher_.emplace([this](ScopedThread& thread) {
    while (!thread.EndsBefore(Deadline::After(options_.look))) LookAgain();
  });
}

absl::StatusOr<std::unique_ptr<Access>> Access::Create(Options options, TokenBook* tokens) {
  std::unique_ptr<Authorities> authorities;
  if (!options.tls_ca.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(authorities, Authorities::Open(options.tls_ca));
  }
  if (options.clock == nullptr) options.clock = [] { return absl::Now(); };
  return std::unique_ptr<Access>(new Access(std::move(options), tokens, std::move(authorities)));
}

absl::StatusOr<Caller> Access::Identify(const grpc::ServerContextBase& context) {
  return Identify(authorities_ == nullptr ? Credentials() : ShownBy(context));
}

absl::StatusOr<Caller> Access::Identify(const Credentials& shown) {
  Caller caller;
  if (authorities_ == nullptr) {
    caller.role = Role::kAdmin;
    caller.local = true;
    return caller;
  }
  if (!shown.token.empty()) return FromToken(shown.token);
  if (shown.pem.empty()) {
    return absl::UnauthenticatedError(
        absl::StrCat("neither a certificate nor a token was shown: give --tls-cert and --tls-key (", kMakeCerts,
                     " --client ROLE NAME), or --token-file"));
  }
  return FromCertificate(shown.pem, shown.chain);
}

absl::StatusOr<Caller> Access::FromCertificate(const std::string& pem, const std::string& chain) {
  const absl::Time now = options_.clock();
  const uint64_t generation = authorities_->generation();
  {
    absl::MutexLock lock(&mutex_);
    auto it = known_.find(pem);
    if (it != known_.end() && it->second.generation == generation && now < it->second.certificate.not_after) {
      ADJOIN_RETURN_IF_ERROR(CheckNode(it->second.caller, it->second.certificate));
      return it->second.caller;
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Certificate certificate, authorities_->Check(pem, chain, CertificatePurpose::kClient, now));
  ADJOIN_ASSIGN_OR_RETURN(PeerName name, NameOf(certificate));
  Caller caller;
  caller.name = name.name;
  caller.role = RoleOf(name.role);
  caller.serial = certificate.serial;
  ADJOIN_RETURN_IF_ERROR(CheckNode(caller, certificate));
  absl::MutexLock lock(&mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[pem] = {caller, std::move(certificate), generation};
  return caller;
}

absl::Status Access::CheckNode(const Caller& caller, const Certificate& certificate) const {
  if (caller.role != Role::kWorker || options_.check_node == nullptr) return absl::OkStatus();
  return options_.check_node(caller.name, certificate);
}

absl::StatusOr<Caller> Access::FromToken(absl::string_view header) {
  if (!absl::ConsumePrefix(&header, "Bearer ")) {
    return absl::UnauthenticatedError("the authorization header is not \"Bearer TOKEN\"");
  }
  if (tokens_ == nullptr) return absl::UnauthenticatedError("this coordinator takes no tokens: show a certificate");
  ADJOIN_ASSIGN_OR_RETURN(TokenSummary summary, tokens_->Check(header, options_.clock()));
  Caller caller;
  caller.name = summary.user();
  caller.role = RoleOf(summary.role());
  return caller;
}

absl::StatusOr<Admitted> Access::Admit(const grpc::ServerContextBase& context, absl::string_view method) {
  return Admit(authorities_ == nullptr ? Credentials() : ShownBy(context), method, context.peer());
}

absl::StatusOr<Admitted> Access::AdmitAnyone(const grpc::ServerContextBase& context, absl::string_view method) {
  Caller caller;
  caller.unknown = true;
  caller.name = HostOf(context.peer());
  const CallKind kind = KindOf(method);
  absl::Status status = IsForEveryone(kind) ? Enter(caller, kind)
                                            : absl::PermissionDeniedError(absl::StrCat(method, " is not for everyone"));
  if (status.ok()) return Admitted(this, std::move(caller), kind, {});
  LogRefused(context.peer(), method, status);
  return status;
}

absl::StatusOr<Admitted> Access::Admit(Credentials shown, absl::string_view method, const std::string& peer) {
  const CallKind kind = KindOf(method);
  absl::StatusOr<Caller> caller = Identify(shown);
  absl::Status status = caller.ok() ? MayCall(*caller, method) : caller.status();
  if (status.ok()) status = Enter(*caller, kind);
  if (status.ok()) return Admitted(this, *std::move(caller), kind, std::move(shown));
  LogRefused(peer, method, status);
  return status;
}

absl::Status Access::Enter(const Caller& caller, CallKind kind) {
  const int k = static_cast<int>(kind);
  const Options::Limit& limit = options_.limits[k];
  absl::MutexLock lock(&mutex_);
  if (!caller.local) {
    const auto found = calls_.find({caller.role, caller.name});
    const Counts own = found == calls_.end() ? Counts() : found->second;
    if (own.all >= options_.calls_per_caller) {
      return absl::ResourceExhaustedError(
          absl::StrCat(ToString(caller), " has ", own.all, " calls open already, which is the limit: end some first"));
    }
    if (own.by_kind[k] >= limit.per_caller) {
      return absl::ResourceExhaustedError(absl::StrCat(ToString(caller), " has ", own.by_kind[k], " ", PluralOf(kind),
                                                       " open already, which is the limit: end some first"));
    }
  }
  if (all_calls_[k] >= limit.total) {
    return absl::ResourceExhaustedError(absl::StrCat("the coordinator has ", all_calls_[k], " ", PluralOf(kind),
                                                     " open for all its callers, which is the limit: try again later"));
  }
  ++all_calls_[k];
  if (caller.local) return absl::OkStatus();
  Counts& own = calls_[{caller.role, caller.name}];
  ++own.all;
  ++own.by_kind[k];
  return absl::OkStatus();
}

void Access::Leave(const Caller& caller, CallKind kind) {
  const int k = static_cast<int>(kind);
  absl::MutexLock lock(&mutex_);
  --all_calls_[k];
  if (caller.local) return;
  auto it = calls_.find({caller.role, caller.name});
  --it->second.by_kind[k];
  if (--it->second.all == 0) calls_.erase(it);
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls that outlast what was shown for them

uint64_t Access::Watch(const Admitted& call, std::function<void(const absl::Status&, bool)> over) {
  absl::MutexLock lock(&watch_mutex_);
  watched_[++last_watch_] = {ToString(call.caller_), call.shown_, std::move(over), Deadline::Clock::time_point::min()};
  return last_watch_;
}

void Access::EndWatch(uint64_t id) {
  absl::MutexLock lock(&watch_mutex_);
  watched_.erase(id);
}

// Credentials are checked without the lock: new calls do not wait for it.
void Access::LookAgain() {
  std::vector<std::pair<uint64_t, Credentials>> open;
  {
    absl::MutexLock lock(&watch_mutex_);
    for (const auto& [id, watched] : watched_) open.emplace_back(id, watched.shown);
  }
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  for (const auto& [id, shown] : open) {
    const absl::StatusOr<Caller> caller = Identify(shown);
    if (caller.ok()) continue;
    absl::MutexLock lock(&watch_mutex_);
    auto it = watched_.find(id);
    if (it == watched_.end()) continue;
    Watched& watched = it->second;
    const bool first = watched.over_since == Deadline::Clock::time_point::min();
    if (!first && now - watched.over_since < absl::ToChronoNanoseconds(options_.end_grace)) continue;
    watched.over_since = now;
    const std::string reason =
        absl::StrCat("the call of ", watched.owner, " ends here: ", std::string(caller.status().message()));
    if (first) LogInfo(reason);
    watched.over(absl::UnauthenticatedError(reason), !first);
  }
}

// At most one a second: who is refused can call as often as they like.
void Access::LogRefused(const std::string& peer, absl::string_view method, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.clock();
    if (now >= last_logged_ && now - last_logged_ < kLogInterval) return;
    last_logged_ = now;
  }
  LogWarning(absl::StrCat("refused ", method, " from ", peer, ": ", std::string(status.message())));
}

}  // namespace adjoin
