// A job's progress as it is followed: on a terminal one line, drawn over and over; else a line now and then, and at
// every change of state.
//
//   JobDisplay display;
//   client.FollowJob(job, [&](const JobSummary& summary) { display.Show(summary); });
//   display.End();
#ifndef ADJOIN_CLI_JOB_DISPLAY_H_
#define ADJOIN_CLI_JOB_DISPLAY_H_

#include <chrono>
#include <string>

#include "proto/coordinator.pb.h"

namespace adjoin {

// One thread.
class JobDisplay {
 public:
  // `redraws`: false where the output is plain lines also on a terminal.
  // `color`: states are painted.
  explicit JobDisplay(bool redraws = true, bool color = false);
  void Show(const JobSummary& job);
  // Clears the line, so that other lines can follow.
  void End() const;

 private:
  const bool terminal_, color_;
  JobState last_state_ = JOB_STATE_UNSPECIFIED;
  std::string last_reason_;
  std::chrono::steady_clock::time_point last_time_;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_DISPLAY_H_
