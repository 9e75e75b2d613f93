#include <signal.h>

#include <atomic>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/color.h"
#include "cli/commands.h"
#include "cli/job_display.h"
#include "cli/text.h"

namespace adjoin {
namespace {

std::atomic<bool> interrupted{false};

// While it lives, the first Ctrl-C ends the client's stream instead of the process; a second one ends that. A handler,
// because gRPC's threads, of which some may run already, would take a blocked signal.
class InterruptCancels {
 public:
  explicit InterruptCancels(CoordinatorClient& client) {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
    thread_ = std::thread([this, &client] {
      while (!over_.WaitForNotificationWithTimeout(absl::Milliseconds(100))) {
        if (interrupted) client.Cancel();
      }
    });
  }
  ~InterruptCancels() {
    over_.Notify();
    thread_.join();
    sigaction(SIGINT, &before_, nullptr);
  }
  InterruptCancels(const InterruptCancels&) = delete;
  InterruptCancels& operator=(const InterruptCancels&) = delete;

 private:
  struct sigaction before_;
  absl::Notification over_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<JobSummary> ShowUntilEnd(const CommandOptions& options, CoordinatorClient& client,
                                        const std::string& job, JobDisplay& display) {
  const bool table = options.format == Format::kTable;
  JobSummary last;
  const absl::Status status = client.FollowJob(job, [&](const JobSummary& summary) {
    last = summary;
    if (table) {
      display.Show(summary);
    } else {
      std::cout << FormattedItem(summary, options.format) << std::flush;
    }
  });
  if (table) display.End();
  ADJOIN_RETURN_IF_ERROR(status);
  return last;
}

absl::StatusOr<int> RunFollow(const CommandOptions& options, const std::string& job) {
  const bool table = options.format == Format::kTable;
  JobDisplay display(/*redraws=*/true, options.color);
  ClientOptions client_options = options.client;
  client_options.notice = [&](const std::string& text) {
    if (table) display.End();
    if (options.client.notice != nullptr) options.client.notice(text);
  };
  CoordinatorClient client(std::move(client_options));
  InterruptCancels interrupt(client);
  const absl::StatusOr<JobSummary> last = ShowUntilEnd(options, client, job, display);
  const absl::Status& status = last.status();
  if (interrupted && absl::IsCancelled(status)) {
    (table ? std::cout : std::cerr) << job << " goes on; follow it again with `adjoin follow " << job << "`"
                                    << std::endl;
    return 0;
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(std::string(status.message()), " (", job,
                                                    " may go on: `adjoin follow ", job, "`)"));
  }
  if (table) {
    const std::string line = EndLine(*last);
    std::cout << (options.color ? PaintStateAfter(last->job_id(), line) : line) << std::endl;
  }
  return last->state() == SUCCEEDED ? 0 : last->state() == CANCELLED ? kExitCancelled : kExitFailed;
}

}  // namespace adjoin
