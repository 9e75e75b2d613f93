// Passes a daemon's answer to RemoveFolders to the call that waits for it.
//
//   removals.Open(request_id);                                                      // before the daemon is asked
//   ADJOIN_ASSIGN_OR_RETURN(FoldersRemoved answer, removals.Await(request_id, Deadline::After(absl::Seconds(60))));
//   removals.Answer(message.folders_removed());                                     // on the daemon's stream
//
// Any thread.
#ifndef ADJOIN_COORDINATOR_SERVICES_FOLDER_REMOVALS_H_
#define ADJOIN_COORDINATOR_SERVICES_FOLDER_REMOVALS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class FolderRemovals {
 public:
  void Open(const std::string& request_id);
  // Waits for the answer, and forgets the request. Errors: kDeadlineExceeded, also where `given_up`, which is asked
  // several times a second, says so.
  absl::StatusOr<FoldersRemoved> Await(const std::string& request_id, Deadline deadline,
                                       const std::function<bool()>& given_up);
  // Does nothing where no call waits for the answer.
  void Answer(const FoldersRemoved& answer);

 private:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::map<std::string, std::optional<FoldersRemoved>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_FOLDER_REMOVALS_H_
