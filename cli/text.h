// How the command shows what it knows: states, durations, a job's progress.
//
//   ProgressLine(summary, 100);   // "job-1 lenet5 running  [#####-----]  50%  step 5/10  loss 0.25  3.1 steps/s  2 s
//   left"
#ifndef ADJOIN_CLI_TEXT_H_
#define ADJOIN_CLI_TEXT_H_

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace adjoin {

std::string StateName(JobState state);  // "pending", ...
bool IsFinalState(JobState state);

std::string DurationText(double seconds);  // "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"

// Returns what a job does now: "step 5/10, loss 0.25, 3.1 steps/s", "evaluating, step 3/32, 90.1 steps/s", "writing
// weights"; "" before its first report.
std::string ProgressText(const JobProgress& progress);

// One line of at most `width` columns, without a line end. The bar shrinks, and goes, before the numbers are cut.
std::string ProgressLine(const JobSummary& job, int width);

// Returns the metrics by class, a row each: {"dice by class", "0: 0.9812, 1: 0.9034"}.
std::vector<std::vector<std::string>> ClassRows(const JobProgress& progress);

// Returns how a job ended: "job-1 succeeded in 12 s: accuracy 0.964, correct 1928, samples 2000".
std::string EndLine(const JobSummary& job);

}  // namespace adjoin

#endif  // ADJOIN_CLI_TEXT_H_
