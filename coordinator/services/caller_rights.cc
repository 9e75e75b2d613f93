#include "coordinator/services/caller_rights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/security/make_certs.h"

namespace adjoin {
namespace {

constexpr unsigned kAdmin = 1u << static_cast<int>(Role::kAdmin);
constexpr unsigned kUser = 1u << static_cast<int>(Role::kUser);
constexpr unsigned kWorker = 1u << static_cast<int>(Role::kWorker);
constexpr unsigned kViewer = 1u << static_cast<int>(Role::kViewer);
constexpr unsigned kEveryone = kAdmin | kUser | kWorker | kViewer;

struct Right {
  absl::string_view method;
  unsigned roles;
  CallKind kind = CallKind::kShort;
};
// The roles that may call each method at all. MayChange and MayRead decide for whose jobs.
constexpr Right kRights[] = {
    {"Submit", kAdmin | kUser, CallKind::kSubmission},
    {"ListJobs", kAdmin | kUser | kViewer},
    {"DescribeJob", kAdmin | kUser | kViewer},
    {"CancelJob", kAdmin | kUser},
    {"RetryJob", kAdmin | kUser},
    {"HoldJob", kAdmin | kUser},
    {"ReleaseJob", kAdmin | kUser},
    {"TraceJob", kAdmin | kUser},
    {"RemoveJob", kAdmin | kUser, CallKind::kSubmission},
    {"ReadEvents", kAdmin | kUser | kViewer, CallKind::kStream},
    {"FollowJob", kAdmin | kUser | kViewer, CallKind::kStream},
    {"ReadLogs", kAdmin | kUser, CallKind::kStream},
    {"GetArtifact", kAdmin | kUser, CallKind::kStream},
    {"ReadRates", kAdmin | kUser | kViewer},
    {"CreateToken", kAdmin},
    {"ListTokens", kAdmin},
    {"RevokeToken", kAdmin},
    {"CreateJoinToken", kAdmin},
    {"RevokeNode", kAdmin},
    {"Connect", kWorker, CallKind::kDaemon},
    {"UploadArtifact", kWorker, CallKind::kUpload},
    {"RenewCertificate", kWorker},
    {"ReadAuthorities", kEveryone, CallKind::kFirstContact},
    {"JoinNode", kEveryone, CallKind::kJoin},
};

constexpr std::pair<absl::string_view, Role> kRoleNames[] = {
    {"admin", Role::kAdmin}, {"user", Role::kUser}, {"worker", Role::kWorker}, {"viewer", Role::kViewer}};

bool OwnsOrAdmin(const Caller& caller, const std::string& owner) {
  if (caller.local || caller.role == Role::kAdmin) return true;
  return caller.role == Role::kUser && !owner.empty() && caller.name == owner;
}

std::string OwnerText(const std::string& owner) {
  return owner.empty() ? "was submitted without a name" : absl::StrCat("is ", owner, "'s");
}

}  // namespace

absl::string_view NameOf(Role role) {
  for (const auto& [name, known] : kRoleNames) {
    if (known == role) return name;
  }
  return "";
}

Role RoleOf(absl::string_view name) {
  for (const auto& [known, role] : kRoleNames) {
    if (known == name) return role;
  }
  return Role::kViewer;
}

std::string ToString(const Caller& caller) {
  if (caller.unknown)
    return absl::StrCat("a caller who has shown nothing", caller.name.empty() ? "" : ", ", caller.name);
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

absl::Status MayGivePriority(const Caller& caller, int32_t priority, int32_t most) {
  if (priority <= most || caller.local || caller.role == Role::kAdmin) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(ToString(caller), " may give a job at most priority ", most,
                                                  ", which is the coordinator's --max-user-priority, not ", priority,
                                                  "; an admin may give any"));
}

void HideContent(DescribeJobResponse& response) { response.clear_spec(); }

absl::Status CheckWorkerName(const Caller& caller, const std::string& hello_name) {
  if (caller.local || (caller.role == Role::kWorker && caller.name == hello_name)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "a daemon that shows the certificate of ", ToString(caller), " calls itself another name: start it with --name ",
      caller.name, ", or give it a certificate of its own (", kMakeCerts, " --client worker NAME)"));
}

CallKind KindOf(absl::string_view method) {
  for (const Right& right : kRights) {
    if (right.method == method) return right.kind;
  }
  return CallKind::kShort;
}

}  // namespace adjoin
