// What callers may do: which methods their role may call, and whose jobs they may change and read.
//
//   ADJOIN_RETURN_IF_ERROR(MayCall(caller, "CancelJob"));
//   ADJOIN_RETURN_IF_ERROR(MayChange(caller, summary.owner(), summary.job_id()));
//
// Pure functions. Who calls is found by Access (access.h).
#ifndef ADJOIN_COORDINATOR_SERVICES_CALLER_RIGHTS_H_
#define ADJOIN_COORDINATOR_SERVICES_CALLER_RIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

enum class Role { kAdmin, kUser, kWorker, kViewer };
absl::string_view NameOf(Role role);  // "user"
// `name` is one that NameOf or TokenBook has accepted.
Role RoleOf(absl::string_view name);

struct Caller {
  std::string name;  // empty where `local`; of an `unknown` one where it is, "at ipv4:10.0.0.7"
  Role role = Role::kViewer;
  bool local = false;       // over plain text on loopback: may do all that workers and admins may
  bool unknown = false;     // has shown nothing, and may call what is for everyone
  std::string serial = "";  // of the certificate that was shown, as Certificate::serial; empty: none was
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
// Checks that the caller may give a job this priority: users at most `most`, admins any. Errors: kPermissionDenied.
absl::Status MayGivePriority(const Caller& caller, int32_t priority, int32_t most);
// Removes what other users may not know of a job: its spec. Call it with every response to a caller that MayRead
// refuses.
void HideContent(DescribeJobResponse& response);
// Checks that a daemon has the name that its certificate gives it. Errors: kPermissionDenied.
absl::Status CheckWorkerName(const Caller& caller, const std::string& hello_name);

// What a call costs the server. All but a daemon's and the first contact of one who joins hold a thread: a short one
// for moments, a submission until the job's data are checked, a removal until its files are gone (counted with
// submissions), a stream and an upload for as long as the other side wants. A first contact counts until its answer is
// read, for some seconds at most. Strangers are counted by their addresses.
enum class CallKind { kShort, kSubmission, kStream, kUpload, kDaemon, kFirstContact, kJoin };
inline constexpr int kCallKinds = 7;
// Those of callers who have shown nothing.
inline bool IsForEveryone(CallKind kind) { return kind == CallKind::kFirstContact || kind == CallKind::kJoin; }
CallKind KindOf(absl::string_view method);  // kShort for one that is not known

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_CALLER_RIGHTS_H_
