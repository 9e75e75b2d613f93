// Which of the tokens and certificates that have expired may be forgotten. They expire by the wall clock, which their
// dates are about. With one that is set ahead, all have expired, and count again when it is set right; what was
// forgotten meanwhile would not come back. So they are forgotten only after a day by the steady clock, in which they
// always had expired when somebody looked.
//
//   LongExpired long_expired;
//   for (const std::string& id : long_expired.Of({"id-1", "id-7"})) ...     // all that have expired by the wall clock
//
// Nothing is kept over a restart: the day begins anew. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_SERVICES_LONG_EXPIRED_H_
#define ADJOIN_COORDINATOR_SERVICES_LONG_EXPIRED_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/deadline.h"

namespace adjoin {

class LongExpired {
 public:
  static constexpr absl::Duration kTime = absl::Hours(24);
  static constexpr absl::Duration kBetweenLooks = absl::Minutes(1);
  // So that a store takes a few rows at a time.
  static constexpr size_t kMostAtOnce = 5000;

  // `steady`: from any fixed start; empty: the machine's.
  explicit LongExpired(std::function<absl::Duration()> steady = nullptr) : steady_(std::move(steady)) {
    if (steady_ == nullptr) steady_ = [] { return absl::FromChrono(Deadline::Clock::now().time_since_epoch()); };
  }

  // Whether the last look is a while ago, or there was none: where so many have expired that each look takes long.
  bool Due() const { return !looked_.has_value() || steady_() - *looked_ >= kBetweenLooks; }

  // Returns at most kMostAtOnce of them; the others come with the next look.
  std::set<std::string> Of(const std::set<std::string>& expired) {
    const absl::Duration now = steady_();
    looked_ = now;
    std::map<std::string, absl::Duration> since;
    std::set<std::string> of;
    for (const std::string& id : expired) {
      const auto known = since_.find(id);
      const absl::Duration begin = known == since_.end() ? now : known->second;
      since.emplace_hint(since.end(), id, begin);
      if (now - begin >= kTime && of.size() < kMostAtOnce) of.insert(of.end(), id);
    }
    since_ = std::move(since);
    return of;
  }

 private:
  std::function<absl::Duration()> steady_;
  std::optional<absl::Duration> looked_;         // when
  std::map<std::string, absl::Duration> since_;  // by id: when it was seen first that it had expired
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_LONG_EXPIRED_H_
