#include <iostream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/time_text.h"

namespace adjoin {

namespace {

std::string Line(const std::string& time, const std::string& attempt, const std::string& kind,
                 const std::string& text) {
  std::string line = absl::StrFormat("%-19s  %-7s  %-14s  %s", time, attempt, kind, text);
  absl::StripTrailingAsciiWhitespace(&line);
  return line + "\n";
}

}  // namespace

absl::StatusOr<int> RunEvents(const CommandOptions& options, const std::string& job, bool follow) {
  CoordinatorClient client(options.client);
  bool heading = options.format == Format::kTable;
  ADJOIN_RETURN_IF_ERROR(client.ReadEvents(job, follow, [&](const JobEvent& event) {
    if (std::exchange(heading, false)) std::cout << Line("TIME", "ATTEMPT", "EVENT", "");
    if (options.format == Format::kTable) {
      const std::string attempt = event.epoch() == 0 ? "" : absl::StrCat(event.epoch());
      std::cout << Line(TimeText(event.unix_ms()), attempt, event.kind(), event.text());
    } else {
      std::cout << FormattedItem(event, options.format);
    }
    if (follow) std::cout.flush();
  }));
  std::cout << std::flush;
  return 0;
}

}  // namespace adjoin
