#include "coordinator/decisions/progress_watch.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

constexpr int kMedianSteps = 10;

std::string StepText(const RankPulse& pulse) {
  return absl::StrCat(pulse.phase().empty() ? "" : absl::StrCat(pulse.phase(), ", "), "after step ", pulse.step());
}

std::string WhatItDoes(const RankPulse& pulse, absl::Duration silent_for, absl::Duration silence) {
  if (pulse.process() == "stopped") return absl::StrCat("is stopped by a signal (", StepText(pulse), ")");
  if (silent_for > silence) {
    return absl::StrCat("has said nothing for ", absl::FormatDuration(absl::Floor(silent_for, absl::Seconds(1))), " (",
                        StepText(pulse), ")");
  }
  if (pulse.activity() == WAITING) {
    return absl::StrCat("waits in ", pulse.operator_(), ", execution ", pulse.generation(), " (", StepText(pulse), ")");
  }
  return absl::StrCat("computes (", StepText(pulse), ")");
}

}  // namespace

ProgressWatch::ProgressWatch(const ProgressLimits& limits, size_t ranks, absl::Duration now)
    : limits_(limits), pulses_(ranks), heard_(ranks, now), last_progress_(now) {}

void ProgressWatch::Heard(const RankPulse& pulse, absl::Duration now) {
  if (pulse.rank() >= pulses_.size()) return;
  RankPulse& last = pulses_[pulse.rank()];
  const absl::Duration spoke = now - absl::Seconds(std::max(0.0, pulse.age_seconds()));
  heard_[pulse.rank()] = std::max(heard_[pulse.rank()], spoke);
  const bool reads = pulse.activity() == FILES && now - heard_[pulse.rank()] <= limits_.silence;
  if (reads || pulse.phase() != last.phase() || pulse.step() != last.step()) last_progress_ = now;
  last = pulse;
}

double ProgressWatch::StepSeconds() const {
  double longest = 0;
  for (const RankPulse& pulse : pulses_) longest = std::max(longest, pulse.step_seconds());
  return longest;
}

absl::Duration ProgressWatch::Limit() const {
  const bool first = std::all_of(pulses_.begin(), pulses_.end(), [](const RankPulse& p) { return p.step() == 0; });
  const absl::Duration usual = std::max(limits_.shortest, absl::Seconds(kMedianSteps * StepSeconds()));
  return first ? std::max(usual, limits_.first_step) : usual;
}

std::optional<std::string> ProgressWatch::Stuck(absl::Duration now, absl::Duration lateness,
                                                const std::function<std::string(size_t rank)>& name_of) const {
  if (now <= StuckAt(lateness)) return std::nullopt;
  const absl::Duration silence = limits_.silence + lateness;
  // The laggard is a stopped process; else one that is silent; else one that does not wait; else the one with the
  // fewest steps.
  auto badness = [&](size_t r) {
    if (pulses_[r].process() == "stopped") return 3;
    if (now - heard_[r] > silence) return 2;
    return pulses_[r].activity() == WAITING ? 0 : 1;
  };
  size_t laggard = 0;
  for (size_t r = 1; r < pulses_.size(); ++r) {
    const int more = badness(r) - badness(laggard);
    if (more > 0 || (more == 0 && pulses_[r].step() < pulses_[laggard].step())) laggard = r;
  }
  std::map<std::string, std::vector<size_t>> waiting;  // by what they wait in
  for (size_t r = 0; r < pulses_.size(); ++r) {
    if (r == laggard || badness(r) != 0) continue;
    waiting[absl::StrCat(pulses_[r].operator_(), ", execution ", pulses_[r].generation())].push_back(r);
  }
  std::string text = absl::StrCat("no step was finished for ", absl::FormatDuration(Limit()), ": ", name_of(laggard),
                                  " ", WhatItDoes(pulses_[laggard], now - heard_[laggard], silence));
  for (const auto& [what, ranks] : waiting) {
    absl::StrAppend(&text, waiting.begin()->first == what ? ", while " : "; ", ranks.size() == 1 ? "rank " : "ranks ",
                    absl::StrJoin(ranks, ", "), ranks.size() == 1 ? " waits in " : " wait in ", what);
  }
  return text;
}

}  // namespace adjoin
