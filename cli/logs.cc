#include <iostream>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/time_text.h"

namespace adjoin {
namespace {

constexpr uint32_t kMostRanks = 1 << 16;

// {"0-3", "7"} is 0, 1, 2, 3, 7.
absl::StatusOr<std::vector<uint32_t>> ReadRanks(const std::vector<std::string>& texts) {
  std::set<uint32_t> ranks;
  for (const std::string& text : texts) {
    std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
    if (text.find('-') == std::string::npos) ends.second = ends.first;
    uint32_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) || !absl::SimpleAtoi(ends.second, &last) || last < first ||
        last >= kMostRanks) {
      return absl::InvalidArgumentError(absl::StrCat("--rank ", text, ": is neither a rank nor a range such as 0-3"));
    }
    for (uint32_t rank = first; rank <= last; ++rank) ranks.insert(rank);
  }
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

}  // namespace

absl::StatusOr<int> RunLogs(const CommandOptions& options, const LogOptions& logs) {
  LogQuery query;
  query.job = logs.job;
  query.follow = logs.follow;
  ADJOIN_ASSIGN_OR_RETURN(query.ranks, ReadRanks(logs.ranks));
  if (!logs.since.empty()) {
    absl::StatusOr<absl::Time> since = ReadSince(logs.since, absl::Now());
    if (!since.ok())
      return absl::InvalidArgumentError(absl::StrCat("--since: ", std::string(since.status().message())));
    query.since_unix_ms = absl::ToUnixMillis(*since);
  }
  CoordinatorClient client(options.client);
  uint64_t attempt = 0;
  ADJOIN_RETURN_IF_ERROR(client.ReadLogs(query, [&](const LogLine& line) {
    if (options.format == Format::kTable) {
      // The first attempt needs no heading.
      if (attempt != 0 && line.epoch() > attempt) std::cout << "--- attempt " << line.epoch() << "\n";
      attempt = std::max<uint64_t>(attempt, line.epoch());
      std::cout << "rank " << line.rank() << ": " << line.text() << "\n";
    } else {
      std::cout << FormattedItem(line, options.format);
    }
    if (logs.follow) std::cout.flush();
  }));
  std::cout << std::flush;
  return 0;
}

}  // namespace adjoin
