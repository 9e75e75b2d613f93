#include "coordinator/decisions/job_record.h"

namespace adjoin {

std::string ToString(RankState state) {
  switch (state) {
    case RankState::kStarting: return "starting";
    case RankState::kReady: return "ready";
    case RankState::kRunning: return "running";
    case RankState::kSucceeded: return "succeeded";
    case RankState::kDrained: return "drained";
    case RankState::kFailed: return "failed";
    case RankState::kKilled: return "killed";
  }
  return "";
}

RankState RankStateFrom(const std::string& text) {
  for (RankState state : {RankState::kStarting, RankState::kReady, RankState::kRunning, RankState::kSucceeded,
                          RankState::kDrained, RankState::kFailed}) {
    if (ToString(state) == text) return state;
  }
  return RankState::kKilled;
}

bool HasEnded(RankState state) {
  return state == RankState::kSucceeded || state == RankState::kDrained || state == RankState::kFailed ||
         state == RankState::kKilled;
}

bool IsFinal(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

bool MayStart(const JobRecord& job, absl::Duration now) {
  return job.durable && !job.held && job.data_check == DataCheck::kDone && job.attempt.holders.empty() &&
         job.not_before <= now;
}

}  // namespace adjoin
