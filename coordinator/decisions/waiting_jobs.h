// The jobs that wait, in the order in which they may start: by priority; among users of one priority, a job of the user
// whose jobs have the fewest slots; of one user, first come, first served.
//
//   WaitingJobs waiting;
//   waiting.Add(job);
//   waiting.SetSlots(UserOf(job), 4);     // its jobs that run have so many
//   waiting.Visit(/*first=*/nullptr, [](JobRecord& job) { return WaitingJobs::Next::kJob; });
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_
#define ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include "coordinator/decisions/job_record.h"

namespace adjoin {

// Whose turn it is when the job starts. Jobs of admins and of local callers, which are under no limit, are those of
// another user than the owner's own.
std::string UserOf(const JobRecord& job);

class WaitingJobs {
 public:
  // What a visit goes on with.
  enum class Next {
    kJob,   // the next job
    kUser,  // the next job of another user: none of this one is visited any more
    kStop,  // nothing
  };

  void Add(JobRecord& job);
  // Does nothing where the job is not there.
  void Remove(const JobRecord& job);

  size_t size() const { return all_.size(); }
  size_t CountOf(const std::string& user) const;
  // One more than the jobs of higher priority, and those of the same user that are before it; 0 where it is not there.
  // Between users of one priority there is no fixed order. Takes logarithmic time.
  uint32_t PositionOf(const JobRecord& job) const;

  // The user's jobs that start and run have so many slots.
  void SetSlots(const std::string& user, uint64_t slots);
  uint64_t SlotsOf(const std::string& user) const;

  // Calls `visit(job)`, which returns a Next. `first`: comes before the others of its priority, if it is there; may be
  // null. `visit` may take the job that it is given out of the queue, and no other, and may set its user's slots. Each
  // step takes logarithmic time.
  template <typename Visitor>
  void Visit(const JobRecord* first, const Visitor& visit) {
    std::set<std::string> passed_over;
    for (auto level = levels_.begin(); level != levels_.end();) {
      const int64_t key = level->first;
      uint64_t visited_first = 0;
      // The next jobs of users whose first job was visited; the others are in the level's own order.
      std::set<Turn> again;
      std::set<std::string> seen = passed_over;
      const std::string user_of_first = first == nullptr ? "" : UserOf(*first);
      if (first != nullptr && KeyOf(*first).first == key && PositionOf(*first) > 0 &&
          passed_over.count(user_of_first) == 0) {
        visited_first = first->number;
        const std::string& user = user_of_first;
        const Next next = visit(*level->second.users.at(user).jobs.find(visited_first)->second);
        if (next == Next::kStop) return;
        if (next == Next::kUser) seen.insert(user), passed_over.insert(user);
      }
      Turn last;  // of the level's own order
      while (true) {
        const std::optional<Turn> turn = NextTurn(key, seen, again, last);
        if (!turn.has_value()) break;
        const auto& [slots, number, user] = *turn;
        Next next = Next::kJob;
        if (number != visited_first) next = visit(*levels_.at(key).users.at(user).jobs.find(number)->second);
        if (next == Next::kStop) return;
        if (next == Next::kUser) {
          passed_over.insert(user);
        } else if (const uint64_t following = FollowingOf(key, user, number); following > 0) {
          again.emplace(SlotsOf(user), following, user);
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
  using Turn = std::tuple<uint64_t, uint64_t, std::string>;  // slots of the user, number of its next job, user
  struct OfUser {
    Ordered<uint64_t> jobs;  // by number
    Turn turn;               // where it is in the order
  };
  struct Level {
    std::map<std::string, OfUser> users;  // no empty ones
    std::set<Turn> order;                 // a turn of each user, with its first job
  };

  static Key KeyOf(const JobRecord& job) { return {-int64_t{job.priority}, job.number}; }
  void Reorder(Level& level, const std::string& user);
  // The next turn of the level: of those `again`, out of which it is taken, or of its own order behind `last`, which it
  // becomes, and whose user is `seen` then. Absent: there is none.
  std::optional<Turn> NextTurn(int64_t level, std::set<std::string>& seen, std::set<Turn>& again, Turn& last) const;
  // The user's first job in the level behind `number`; 0 where there is none.
  uint64_t FollowingOf(int64_t level, const std::string& user, uint64_t number) const;

  Ordered<Key> all_;
  std::map<int64_t, Level> levels_;        // by minus the priority; no empty ones
  std::map<std::string, size_t> counts_;   // by user; no zeros
  std::map<std::string, uint64_t> slots_;  // likewise
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WAITING_JOBS_H_
