#include "worker/trace/clock_alignment.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "primitives/comm/span_recorder.h"

namespace adjoin {
namespace {

constexpr uint64_t kRoundTrips = 10;

struct Answer {
  int64_t came = 0, went = 0;  // by the clock of the rank that answers
};

absl::StatusOr<ClockReading> Ask(RankMessages& messages, int rank, const RankClock& clock) {
  uint64_t id = 0;
  ADJOIN_RETURN_IF_ERROR(messages.Recv(rank, &id, sizeof(id)));
  const uint64_t round_trips = id != 0 && id == clock.id ? 0 : kRoundTrips;
  ADJOIN_RETURN_IF_ERROR(messages.Send(rank, &round_trips, sizeof(round_trips)));
  ClockReading best = {.at = clock.now(), .offset = 0, .error = round_trips == 0 ? 0 : INT64_MAX};
  for (uint64_t i = 0; i < round_trips; ++i) {
    const int64_t sent = clock.now();
    ADJOIN_RETURN_IF_ERROR(messages.Send(rank, &i, sizeof(i)));
    Answer answer;
    ADJOIN_RETURN_IF_ERROR(messages.Recv(rank, &answer, sizeof(answer)));
    const int64_t received = clock.now();
    // What the rank did between the two is not the way's.
    const int64_t error = (received - sent - (answer.went - answer.came)) / 2 + 1;
    if (error >= best.error) continue;
    const int64_t middle = sent + (received - sent) / 2;
    best = {.at = middle, .offset = answer.came + (answer.went - answer.came) / 2 - middle, .error = error};
  }
  return best;
}

absl::Status Answers(RankMessages& messages, const RankClock& clock) {
  ADJOIN_RETURN_IF_ERROR(messages.Send(0, &clock.id, sizeof(clock.id)));
  uint64_t round_trips = 0;
  ADJOIN_RETURN_IF_ERROR(messages.Recv(0, &round_trips, sizeof(round_trips)));
  for (uint64_t i = 0; i < round_trips; ++i) {
    uint64_t number = 0;
    ADJOIN_RETURN_IF_ERROR(messages.Recv(0, &number, sizeof(number)));
    Answer answer;
    answer.came = clock.now();
    answer.went = clock.now();
    ADJOIN_RETURN_IF_ERROR(messages.Send(0, &answer, sizeof(answer)));
  }
  return absl::OkStatus();
}

}  // namespace

RankClock RankClock::OfProcess() {
  RankClock clock{SpanRecorder::Now, 0};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  char name[256] = {};
  const ssize_t length = readlink("/proc/self/ns/time", name, sizeof(name) - 1);
  // Kernels before 5.6 have one clock for all.
  if (std::getline(file, boot) && !boot.empty()) {
    const std::string hash = ContentHash::Of(absl::StrCat(boot, " ", length > 0 ? name : ""));
    clock.id = std::stoull(hash.substr(0, 16), nullptr, 16);
  }
  return clock;
}

absl::StatusOr<ClockReading> ReadClocks(RankMessages& messages, const RankClock& clock) {
  ClockReading mine;
  if (messages.rank() != 0) {
    ADJOIN_RETURN_IF_ERROR(Answers(messages, clock));
    ADJOIN_RETURN_IF_ERROR(messages.Recv(0, &mine, sizeof(mine)));
    return mine;
  }
  std::vector<ClockReading> readings(static_cast<size_t>(messages.size()));
  for (int rank = 1; rank < messages.size(); ++rank) {
    ADJOIN_ASSIGN_OR_RETURN(readings[static_cast<size_t>(rank)], Ask(messages, rank, clock));
  }
  for (int rank = 1; rank < messages.size(); ++rank) {
    ADJOIN_RETURN_IF_ERROR(messages.Send(rank, &readings[static_cast<size_t>(rank)], sizeof(ClockReading)));
  }
  mine.at = clock.now();
  return mine;
}

int64_t ClockAlignment::OnRank0(int64_t here) const {
  const int64_t there = here - before_.offset;
  const int64_t apart = after_.at - before_.at;
  if (apart <= 0 || drift() == 0) return there;
  const double part = static_cast<double>(there - before_.at) / static_cast<double>(apart);
  return there - static_cast<int64_t>(part * static_cast<double>(drift()));
}

}  // namespace adjoin
