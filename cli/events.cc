#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/time_text.h"

namespace adjoin {

absl::StatusOr<int> RunEvents(const CommandOptions& options, const std::string& job, bool follow) {
  CoordinatorClient client(options.client);
  ADJOIN_RETURN_IF_ERROR(client.ReadEvents(job, follow, [&](const JobEvent& event) {
    if (options.format == Format::kTable) {
      const std::string attempt = event.epoch() == 0 ? "" : absl::StrCat("attempt ", event.epoch());
      std::cout << absl::StreamFormat("%s  %-14s  %-12s  %s\n", TimeText(event.unix_ms()), event.kind(), attempt, event.text());
    } else {
      std::cout << FormattedItem(event, options.format);
    }
    if (follow) std::cout.flush();
  }));
  std::cout << std::flush;
  return 0;
}

}  // namespace adjoin
