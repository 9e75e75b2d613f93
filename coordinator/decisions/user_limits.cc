#include "coordinator/decisions/user_limits.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr uint64_t kMost = 1000000000;

std::string Slots(uint64_t n) { return absl::StrCat(n, n == 1 ? " slot" : " slots"); }

absl::StatusOr<uint64_t> ParseNumber(absl::string_view text) {
  if (text == "unlimited") return UserLimit::kUnlimited;
  uint64_t number = 0;
  if (text.empty() || !absl::ascii_isdigit(text[0]) || !absl::SimpleAtoi(text, &number) || number > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", PrintableText(text, kMaxNameBytes), "' is neither a number up to ", kMost, " nor unlimited"));
  }
  return number;
}

}  // namespace

absl::StatusOr<UserLimit> UserLimit::Parse(absl::string_view text) {
  UserLimit limit;
  if (absl::StripAsciiWhitespace(text).empty()) return limit;
  bool for_all = false;
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    absl::StatusOr<uint64_t> number = ParseNumber(absl::StripAsciiWhitespace(parts.back()));
    if (!number.ok()) return number.status();
    const std::string name(parts.size() == 1 ? absl::string_view() : absl::StripAsciiWhitespace(parts[0]));
    if (parts.size() == 1) {
      if (for_all) return absl::InvalidArgumentError("two numbers without a name: one holds for all users");
      for_all = true;
      limit.all_ = *number;
    } else if (name.empty()) {
      return absl::InvalidArgumentError("a name is missing before '=': NAME=N");
    } else if (!limit.by_name_.emplace(name, *number).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", PrintableText(name, kMaxNameBytes), "' is there twice"));
    }
  }
  return limit;
}

uint64_t UserLimit::Of(const std::string& user) const {
  const auto found = by_name_.find(user);
  return found == by_name_.end() ? all_ : found->second;
}

absl::Status CheckUserLimits(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t waiting) {
  if (ranks > limits.slots.Of(user)) {
    return absl::InvalidArgumentError(absl::StrCat(SlotLimitReason(limits, user, ranks, 0),
                                                   ": cut the job over fewer ranks, or ask an operator for more"));
  }
  if (const uint64_t most = limits.queued_jobs.Of(user); waiting >= most) {
    return absl::ResourceExhaustedError(absl::StrCat(waiting, waiting == 1 ? " job" : " jobs", " of ", user,
                                                     " wait, and at most ", most,
                                                     " may (the coordinator's --user-queued-jobs); try again later"));
  }
  return absl::OkStatus();
}

bool MayTakeSlots(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t used) {
  const uint64_t most = limits.slots.Of(user);
  return ranks <= most && used <= most - ranks;
}

std::string SlotLimitReason(const UserLimits& limits, const std::string& user, uint64_t ranks, uint64_t used) {
  if (MayTakeSlots(limits, user, ranks, used)) return "";
  const uint64_t most = limits.slots.Of(user);
  const std::string needs = absl::StrCat("it needs ", Slots(ranks), ", and jobs of ", user);
  const std::string limit = "(the coordinator's --user-slots)";
  if (ranks > most) return absl::StrCat(needs, " may have at most ", most, " ", limit);
  return absl::StrCat(needs, " have ", used, " of the ", most, " that they may ", limit);
}

}  // namespace adjoin
