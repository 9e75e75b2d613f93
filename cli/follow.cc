#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "cli/coordinator_client.h"
#include "cli/text.h"

namespace adjoin {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(3);  // between lines where the output is no terminal

// While it lives, Ctrl-C cancels an RPC instead of ending the process.
class InterruptCancels {
 public:
  explicit InterruptCancels(grpc::ClientContext& context) {
    sigemptyset(&interrupt_);
    sigaddset(&interrupt_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt_, &before_);
    thread_ = std::thread([this, &context] {
      timespec interval = {0, 100'000'000};
      while (!over_) {
        if (sigtimedwait(&interrupt_, nullptr, &interval) != SIGINT) continue;
        interrupted_ = true;
        context.TryCancel();
        return;
      }
    });
  }
  ~InterruptCancels() {
    over_ = true;
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  InterruptCancels(const InterruptCancels&) = delete;
  InterruptCancels& operator=(const InterruptCancels&) = delete;

  bool interrupted() const { return interrupted_; }

 private:
  sigset_t interrupt_, before_;
  std::atomic<bool> over_{false}, interrupted_{false};
  std::thread thread_;
};

// On a terminal one line, drawn over and over; else a line now and then, and at every change of state.
class Display {
 public:
  void Show(const JobSummary& job) {
    if (terminal_) {
      winsize size = {};
      int width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : 79;
      std::cout << "\r\x1b[K" << ProgressLine(job, width) << std::flush;
      return;
    }
    bool changed = job.state() != last_state_ || (job.state() == PENDING && job.reason() != last_reason_);
    if (!changed && absl::Now() - last_time_ < kPlainInterval) return;
    if (IsFinalState(job.state())) return;
    std::cout << ProgressLine(job, 200) << std::endl;
    last_state_ = job.state();
    last_reason_ = job.reason();
    last_time_ = absl::Now();
  }
  void End() const {
    if (terminal_) std::cout << "\r\x1b[K" << std::flush;
  }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  JobState last_state_ = JOB_STATE_UNSPECIFIED;
  std::string last_reason_;
  absl::Time last_time_ = absl::InfinitePast();
};

}  // namespace

absl::StatusOr<int> RunFollow(const std::string& coordinator, const std::string& job) {
  grpc::ClientContext context;
  InterruptCancels interrupt(context);  // before gRPC's threads start, which inherit the blocked signal
  CoordinatorClient client(coordinator);
  Display display;
  JobSummary last;
  absl::Status status = client.FollowJob(job, context, [&](const JobSummary& summary) {
    last = summary;
    display.Show(summary);
  });
  display.End();
  if (interrupt.interrupted()) {
    std::cout << job << " goes on; follow it again with `adjoin follow " << job << "`" << std::endl;
    return 0;
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(std::string(status.message()), " (", job,
                                                    " may go on: `adjoin follow ", job, "`)"));
  }
  std::cout << EndLine(last) << std::endl;
  return last.state() == SUCCEEDED ? 0 : last.state() == CANCELLED ? kExitCancelled : kExitFailed;
}

}  // namespace adjoin
