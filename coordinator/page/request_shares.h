// How many requests of browsers are answered at once, of one caller and of all, by what they cost: one caller may not
// take all that there is from the others.
//
//   RequestShares shares({});
//   ADJOIN_RETURN_IF_ERROR(shares.Enter(caller, RequestCost::kWorker));
//   const absl::Cleanup leave = [&] { shares.Leave(caller, RequestCost::kWorker); };
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_REQUEST_SHARES_H_
#define ADJOIN_COORDINATOR_PAGE_REQUEST_SHARES_H_

#include <array>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/services/caller_rights.h"

namespace adjoin {

// Next to nothing; work on messages that may be large; a wait for a worker; one for a planner.
enum class RequestCost { kLittle, kWork, kWorker, kPlanner };
inline constexpr int kRequestCosts = 4;

class RequestShares {
 public:
  // Requests under way. Local callers have no limit of their own.
  struct Limits {
    int of_one_caller = 5;                                 // of any cost
    std::array<int, kRequestCosts> of_one = {5, 2, 1, 1};  // by cost
    std::array<int, kRequestCosts> of_all = {64, 5, 3, 2};
  };
  explicit RequestShares(const Limits& limits) : limits_(limits) {}

  // Errors: kResourceExhausted (the caller has as many under way as may be), kUnavailable (all have); no Leave then.
  absl::Status Enter(const Caller& caller, RequestCost cost);
  void Leave(const Caller& caller, RequestCost cost);

 private:
  using Counts = std::array<int, kRequestCosts>;

  const Limits limits_;
  absl::Mutex mutex_;
  std::map<std::pair<Role, std::string>, Counts> of_one_ ABSL_GUARDED_BY(mutex_);
  Counts of_all_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_REQUEST_SHARES_H_
