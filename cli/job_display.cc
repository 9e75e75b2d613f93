#include "cli/job_display.h"

#include <iostream>

#include "absl/time/time.h"
#include "cli/color.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace adjoin {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(3);  // between lines where the output is no terminal

}  // namespace

JobDisplay::JobDisplay(bool redraws, bool color) : terminal_(redraws && TerminalWidth() > 0), color_(color) {}

void JobDisplay::Show(const JobSummary& job) {
  const auto painted = [&](const std::string& line) { return color_ ? PaintStateAfter(job.job_id(), line) : line; };
  if (terminal_) {
    std::cout << "\r\x1b[K" << painted(ProgressLine(job, TerminalWidth() - 1)) << std::flush;
    return;
  }
  bool changed = job.state() != last_state_ || (job.state() == PENDING && job.reason() != last_reason_);
  const auto now = std::chrono::steady_clock::now();
  if (!changed && now - last_time_ < absl::ToChronoNanoseconds(kPlainInterval)) return;
  if (IsFinalState(job.state())) return;
  std::cout << painted(ProgressLine(job, 200)) << std::endl;
  last_state_ = job.state();
  last_reason_ = job.reason();
  last_time_ = now;
}

void JobDisplay::End() const {
  if (terminal_) std::cout << "\r\x1b[K" << std::flush;
}

}  // namespace adjoin
