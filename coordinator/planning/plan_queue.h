// Which plan is made next, and how many of whom at once. Values in, decisions out: no thread, no clock.
//
//   PlanQueue queue({.planners = 4});
//   ADJOIN_RETURN_IF_ERROR(queue.Add({.ticket = 1, .owner = "alice", .work = 428}));
//   while (std::optional<uint64_t> ticket = queue.Take(now)) ...;    // as often as a planner is free
//   queue.End(*ticket, now);
//
// The owners take turns: next is the one that has the fewest plans under way, then the one whose plans took the least
// time of late; of an owner's plans the smallest is next, then the oldest. Plans are short or long. Long ones leave one
// planner free, so that a short one never waits for them; those of one owner leave another, from three planners on, so
// that another owner's long one does not wait for them either. A plan's size is only guessed, so a short one that turns
// out to be long either counts as long from then on or, where that would take a planner that is to be left while others
// wait, has to begin anew among the long ones. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_PLANNING_PLAN_QUEUE_H_
#define ADJOIN_COORDINATOR_PLANNING_PLAN_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adjoin {

class PlanQueue {
 public:
  struct Options {
    int planners = 2;                           // at least 2
    size_t most_waiting = 1000;                 // of one owner
    size_t most_bytes = size_t{64} << 20;       // of the texts of one owner's plans that wait
    double long_work = 1 << 20;                 // from here on a plan is long
    absl::Duration memory = absl::Seconds(60);  // in which half of the time that an owner has used is forgotten
  };
  struct Entry {
    uint64_t ticket = 0;  // unique
    std::string owner;
    double work = 0;      // a guess: how large the plan is, in any unit
    size_t bytes = 0;     // of its text
    bool exempt = false;  // waits whatever the limits are
  };

  explicit PlanQueue(const Options& options) : options_(options) {}
  PlanQueue(const PlanQueue&) = delete;
  PlanQueue& operator=(const PlanQueue&) = delete;

  // Errors: kResourceExhausted (so much of this owner waits already; says how much, and what to do).
  absl::Status Add(Entry entry);
  // Returns the plan to be made now, which is under way from then on. Absent: none may begin.
  std::optional<uint64_t> Take(absl::Duration now);
  // A plan that was under way is made, or will not be.
  void End(uint64_t ticket, absl::Duration now);
  // Returns false where it does not wait.
  bool Remove(uint64_t ticket);
  // A plan under way has taken longer than a short one may. Returns whether it may go on; where not, End it in any case
  // and Add it anew with AsLong.
  bool MayGoOn(uint64_t ticket);
  Entry AsLong(Entry entry) const;

  size_t waiting() const { return waiting_.size(); }

 private:
  using Place = std::tuple<double, uint64_t, uint64_t>;  // work, order of arrival, ticket
  struct Owner {
    std::set<Place> waiting[2];  // short ones, long ones
    size_t bytes = 0;            // of those
    int under_way = 0;
    int long_under_way = 0;
    double used = 0;  // seconds, as at `used_at`
    absl::Duration used_at;
  };
  struct Waiting {
    Entry entry;
    Place place;
  };
  struct UnderWay {
    std::string owner;
    bool is_long = false;
    absl::Duration since;
  };

  bool IsLong(const Entry& entry) const { return entry.work >= options_.long_work; }
  double UsedAt(const Owner& owner, absl::Duration now) const;
  // True where the planners that are to be left free are, when another long plan of this owner is under way.
  bool LeavesEnough(const Owner& owner) const;
  // Returns the one that may begin first of what this owner has waiting; null: none.
  const Place* First(const Owner& owner) const;
  void EraseWaiting(std::map<uint64_t, Waiting>::iterator it);

  const Options options_;
  std::map<std::string, Owner> owners_;
  std::map<uint64_t, Waiting> waiting_;     // by ticket
  std::map<uint64_t, UnderWay> under_way_;  // by ticket
  int long_under_way_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLAN_QUEUE_H_
