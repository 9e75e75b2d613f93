// Answers to ListJobs that are a moment old: many browsers that look at the same page cost one look at the jobs.
//
//   ListCache lists([&](const ListJobsRequest& request) { return calls.ListJobs("the page", request, never); });
//   ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<const ListJobsResponse> jobs, lists.Of(request));
//
// An answer is the same for whoever may call ListJobs. Any thread.
#ifndef ADJOIN_COORDINATOR_PAGE_LIST_CACHE_H_
#define ADJOIN_COORDINATOR_PAGE_LIST_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class ListCache {
 public:
  using Answer = std::shared_ptr<const ListJobsResponse>;
  struct Options {
    absl::Duration fresh = absl::Seconds(1);
    size_t most = 32;                       // answers
    std::function<absl::Duration()> clock;  // monotonic; empty: the system's
  };
  explicit ListCache(std::function<absl::StatusOr<ListJobsResponse>(const ListJobsRequest&)> list)
      : ListCache(std::move(list), Options()) {}
  ListCache(std::function<absl::StatusOr<ListJobsResponse>(const ListJobsRequest&)> list, Options options);

  // Errors: those of `list`, which are not kept.
  absl::StatusOr<Answer> Of(const ListJobsRequest& request);
  // Nothing that was seen before counts any more.
  void Forget();

 private:
  struct Kept {
    Answer answer;
    absl::Duration made;
  };
  const std::function<absl::StatusOr<ListJobsResponse>(const ListJobsRequest&)> list_;
  const Options options_;
  absl::Mutex mutex_;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by request
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;            // how often
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_LIST_CACHE_H_
