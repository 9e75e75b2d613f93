#include "coordinator/services/access.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kMostKnown = 10000;
constexpr absl::Duration kLogInterval = absl::Seconds(1);

constexpr unsigned kAdmin = 1u << static_cast<int>(Role::kAdmin);
constexpr unsigned kUser = 1u << static_cast<int>(Role::kUser);
constexpr unsigned kWorker = 1u << static_cast<int>(Role::kWorker);
constexpr unsigned kViewer = 1u << static_cast<int>(Role::kViewer);

struct Right {
  absl::string_view method;
  unsigned roles;
};
// The roles that may call each method at all. MayChange and MayRead decide for whose jobs.
constexpr Right kRights[] = {
    {"Submit", kAdmin | kUser},
    {"ListJobs", kAdmin | kUser | kViewer},
    {"DescribeJob", kAdmin | kUser | kViewer},
    {"CancelJob", kAdmin | kUser},
    {"RetryJob", kAdmin | kUser},
    {"HoldJob", kAdmin | kUser},
    {"ReleaseJob", kAdmin | kUser},
    {"ReadEvents", kAdmin | kUser | kViewer},
    {"FollowJob", kAdmin | kUser | kViewer},
    {"ReadLogs", kAdmin | kUser},
    {"GetArtifact", kAdmin | kUser},
    {"CreateToken", kAdmin},
    {"ListTokens", kAdmin},
    {"RevokeToken", kAdmin},
    {"Connect", kWorker},
    {"UploadArtifact", kWorker},
};

constexpr std::pair<absl::string_view, Role> kRoleNames[] = {
    {"admin", Role::kAdmin}, {"user", Role::kUser}, {"worker", Role::kWorker}, {"viewer", Role::kViewer}};

// `name` is one that NameOf or TokenBook has accepted.
Role RoleOf(absl::string_view name) {
  for (const auto& [known, role] : kRoleNames) {
    if (known == name) return role;
  }
  return Role::kViewer;
}

absl::string_view NameOf(Role role) {
  for (const auto& [name, known] : kRoleNames) {
    if (known == role) return name;
  }
  return "";
}

std::string Property(const grpc::AuthContext& peer, const char* name) {
  const std::vector<grpc::string_ref> values = peer.FindPropertyValues(name);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

bool OwnsOrAdmin(const Caller& caller, const std::string& owner) {
  if (caller.local || caller.role == Role::kAdmin) return true;
  return caller.role == Role::kUser && !owner.empty() && caller.name == owner;
}

std::string OwnerText(const std::string& owner) {
  return owner.empty() ? "was submitted without a name" : absl::StrCat("is ", owner, "'s");
}

}  // namespace

std::string ToString(const Caller& caller) {
  return caller.local ? "a local caller" : absl::StrCat(NameOf(caller.role), " ", caller.name);
}

absl::Status MayCall(const Caller& caller, absl::string_view method) {
  for (const Right& right : kRights) {
    if (right.method != method) continue;
    if (caller.local || (right.roles & (1u << static_cast<int>(caller.role))) != 0) return absl::OkStatus();
    std::string roles;
    for (const auto& [name, role] : kRoleNames) {
      if ((right.roles & (1u << static_cast<int>(role))) != 0) absl::StrAppend(&roles, roles.empty() ? "" : ", ", name);
    }
    return absl::PermissionDeniedError(
        absl::StrCat(ToString(caller), " may not call ", method, "; only these roles may: ", roles));
  }
  return absl::PermissionDeniedError(absl::StrCat("nobody may call ", method));
}

absl::Status MayChange(const Caller& caller, const std::string& owner, const std::string& job_id) {
  if (OwnsOrAdmin(caller, owner)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(ToString(caller), " may not change ", job_id, ", which ",
                                                  OwnerText(owner), "; only its owner or an admin may"));
}

absl::Status MayRead(const Caller& caller, const std::string& owner, const std::string& job_id,
                     absl::string_view what) {
  if (OwnsOrAdmin(caller, owner)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(ToString(caller), " may not see ", what, " of ", job_id, ", which ",
                                                  OwnerText(owner), "; only its owner or an admin may"));
}

void HideContent(DescribeJobResponse& response) { response.clear_spec(); }

absl::Status CheckWorkerName(const Caller& caller, const std::string& hello_name) {
  if (caller.local || (caller.role == Role::kWorker && caller.name == hello_name)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "a daemon that shows the certificate of ", ToString(caller), " calls itself another name: start it with --name ",
      caller.name, ", or give it a certificate of its own (tools/make-certs --client worker NAME)"));
}

Admitted::~Admitted() {
  if (access_ != nullptr) access_->Leave(caller_);
}

Access::Access(Options options, TokenBook* tokens, std::unique_ptr<Authorities> authorities)
    : options_(std::move(options)), tokens_(tokens), authorities_(std::move(authorities)) {}

absl::StatusOr<std::unique_ptr<Access>> Access::Create(Options options, TokenBook* tokens) {
  std::unique_ptr<Authorities> authorities;
  if (!options.tls_ca.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(authorities, Authorities::Open(options.tls_ca));
  }
  if (options.clock == nullptr) options.clock = [] { return absl::Now(); };
  return std::unique_ptr<Access>(new Access(std::move(options), tokens, std::move(authorities)));
}

absl::StatusOr<Caller> Access::Identify(const grpc::ServerContextBase& context) {
  Caller caller;
  if (authorities_ == nullptr) {
    caller.role = Role::kAdmin;
    caller.local = true;
    return caller;
  }
  const auto& metadata = context.client_metadata();
  if (auto token = metadata.find("authorization"); token != metadata.end()) {
    return FromToken(absl::string_view(token->second.data(), token->second.size()));
  }
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  const std::string pem = peer == nullptr ? "" : Property(*peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) {
    return absl::UnauthenticatedError(
        "neither a certificate nor a token was shown: give --tls-cert and --tls-key (tools/make-certs --client ROLE "
        "NAME), or "
        "--token-file");
  }
  return FromCertificate(pem, Property(*peer, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
}

absl::StatusOr<Caller> Access::FromCertificate(const std::string& pem, const std::string& chain) {
  const absl::Time now = options_.clock();
  const uint64_t generation = authorities_->generation();
  {
    absl::MutexLock lock(&mutex_);
    auto it = known_.find(pem);
    if (it != known_.end() && it->second.generation == generation && now < it->second.until) return it->second.caller;
  }
  ADJOIN_ASSIGN_OR_RETURN(Certificate certificate, authorities_->Check(pem, chain, CertificatePurpose::kClient, now));
  ADJOIN_ASSIGN_OR_RETURN(PeerName name, NameOf(certificate));
  Caller caller;
  caller.name = name.name;
  caller.role = RoleOf(name.role);
  absl::MutexLock lock(&mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[pem] = {caller, certificate.not_after, generation};
  return caller;
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
  absl::StatusOr<Caller> caller = Identify(context);
  absl::Status status = caller.ok() ? MayCall(*caller, method) : caller.status();
  if (status.ok() && !caller->local) {
    absl::MutexLock lock(&mutex_);
    size_t& calls = calls_[{caller->role, caller->name}];
    if (calls >= options_.calls_per_caller) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(ToString(*caller), " has ", calls, " calls open already, which is the limit: end some first"));
    } else {
      ++calls;
    }
  }
  if (status.ok()) return Admitted(caller->local ? nullptr : this, *std::move(caller));
  LogRefused(context, method, status);
  return status;
}

void Access::Leave(const Caller& caller) {
  absl::MutexLock lock(&mutex_);
  auto it = calls_.find({caller.role, caller.name});
  if (--it->second == 0) calls_.erase(it);
}

// At most one a second: who is refused can call as often as they like.
void Access::LogRefused(const grpc::ServerContextBase& context, absl::string_view method, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.clock();
    if (now >= last_logged_ && now - last_logged_ < kLogInterval) return;
    last_logged_ = now;
  }
  LogWarning(absl::StrCat("refused ", method, " from ", context.peer(), ": ", std::string(status.message())));
}

}  // namespace adjoin
