// The jobs that wait, in the order in which they may start: by priority; among users of one priority, a job of the user
// whose jobs have the fewest slots; of one user, first come, first served.
//
//   WaitingJobs waiting;
//   waiting.Add(job);
//   waiting.Visit(slots_of, [](JobRecord& job) { return WaitingJobs::Next::kJob; });
//
// Jobs without an owner are those of one user. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_
#define ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include "coordinator/decisions/job_record.h"

namespace adjoin {

class WaitingJobs {
 public:
  // What a visit goes on with.
  enum class Next {
    kJob,    // the next job
    kOwner,  // the next job of another owner: none of this one is visited any more
    kStop,   // nothing
  };

  void Add(JobRecord& job);
  // Does nothing where the job is not there.
  void Remove(const JobRecord& job);

  size_t size() const { return all_.size(); }
  size_t CountOf(const std::string& owner) const;
  // One more than the jobs of higher priority, and those of the same owner that are before it; 0 where it is not there.
  // Between owners of one priority there is no fixed order. Takes logarithmic time.
  uint32_t PositionOf(const JobRecord& job) const;

  // Calls `visit(job)`, which returns a Next. `slots_of(owner)`: how many slots the owner's jobs have; it is asked
  // again after each visit. `visit` may take the job that it is given out of the queue, and no other.
  template <typename SlotsOf, typename Visitor>
  void Visit(const SlotsOf& slots_of, const Visitor& visit) {
    std::set<std::string> passed_over;
    for (auto level = levels_.begin(); level != levels_.end();) {
      const int64_t key = level->first;
      std::set<std::tuple<uint64_t, uint64_t, std::string>> turns;  // slots of the owner, number of its next job, owner
      for (const auto& [owner, jobs] : level->second) {
        if (passed_over.count(owner) == 0) turns.emplace(slots_of(owner), jobs.begin()->first, owner);
      }
      while (!turns.empty()) {
        const auto [slots, number, owner] = std::move(turns.extract(turns.begin()).value());
        const Next next = visit(*levels_.at(key).at(owner).find(number)->second);
        if (next == Next::kStop) return;
        if (next == Next::kOwner) {
          passed_over.insert(owner);
        } else if (const uint64_t following = FollowingOf(key, owner, number); following > 0) {
          turns.emplace(slots_of(owner), following, owner);
        }
      }
      level = levels_.upper_bound(key);  // it may be gone
    }
  }

 private:
  using Key = std::pair<int64_t, uint64_t>;  // minus the priority, number
  // A map that also knows how many keys are before one.
  template <typename K>
  using Ordered = __gnu_pbds::tree<K, JobRecord*, std::less<K>, __gnu_pbds::rb_tree_tag,
                                   __gnu_pbds::tree_order_statistics_node_update>;
  using OfOwner = Ordered<uint64_t>;  // by number
  static Key KeyOf(const JobRecord& job) { return {-int64_t{job.priority}, job.number}; }
  // The owner's first job in the level behind `number`; 0 where there is none.
  uint64_t FollowingOf(int64_t level, const std::string& owner, uint64_t number) const;

  Ordered<Key> all_;
  std::map<int64_t, std::map<std::string, OfOwner>> levels_;  // by minus the priority, then owner; no empty ones
  std::map<std::string, size_t> counts_;                      // by owner; no zeros
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_
