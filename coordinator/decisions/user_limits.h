// A number per user that operators set: how many slots a user's jobs may have at a time, how many may wait.
//
//   ADJOIN_ASSIGN_OR_RETURN(UserLimit limit, UserLimit::Parse("16,alice=32,bob=unlimited"));
//   limit.Of("alice");    // 32
//   limit.Of("carol");    // 16
//
// Jobs of admins and of local callers are under no limit (IsLimited).
#ifndef ADJOIN_COORDINATOR_DECISIONS_USER_LIMITS_H_
#define ADJOIN_COORDINATOR_DECISIONS_USER_LIMITS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/decisions/job_record.h"

namespace adjoin {

class UserLimit {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  // Nobody is limited.
  UserLimit() = default;

  // Reads entries that are separated by commas: "N" holds for all users, "NAME=N" for one. N is a number, or
  // "unlimited". "": nobody is limited. Errors: kInvalidArgument.
  static absl::StatusOr<UserLimit> Parse(absl::string_view text);

  uint64_t Of(const std::string& user) const;

 private:
  uint64_t all_ = kUnlimited;
  std::map<std::string, uint64_t> by_name_;
};

struct UserLimits {
  UserLimit slots;        // of jobs that start and run
  UserLimit queued_jobs;  // jobs that wait
};

// False for jobs of admins and local callers.
inline bool IsLimited(const JobRecord& job) { return !job.any_folder && !job.owner.empty(); }

// Errors: kInvalidArgument (a job of so many ranks could never start), kResourceExhausted (`waiting` jobs of the user
// wait, and no more may).
absl::Status CheckUserLimits(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t waiting);

// True where a job of so many ranks may start beside jobs of the user that have `used` slots.
bool MayTakeSlots(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t used);
// Why the user's limit of slots keeps a job of so many ranks from starting beside jobs that have `used`; "": it does
// not.
std::string SlotLimitReason(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t used);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_USER_LIMITS_H_
