// One step of a trace (proto/perfetto_trace.proto, docs/trace.md) as the page draws it: what some ranks did, and the
// messages between them. It is read in parts of any size, and what it keeps has limits, whatever the file says: a job's
// files are its user's.
//
//   TraceTimeline timeline({.step = 41, .first_rank = 0, .ranks = 16});
//   ADJOIN_RETURN_IF_ERROR(timeline.Take(bytes));                       // again and again
//   const std::string json = timeline.Json();
//
// Pure. One thread.
#ifndef ADJOIN_COORDINATOR_PAGE_TRACE_TIMELINE_H_
#define ADJOIN_COORDINATOR_PAGE_TRACE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/perfetto_trace.pb.h"

namespace adjoin {

class TraceTimeline {
 public:
  static constexpr size_t kMostSlices = 12000;  // of all ranks
  static constexpr size_t kMostMessages = 4000;
  static constexpr int kMostRanks = 32;
  static constexpr size_t kMostPacketBytes = size_t{64} << 10;
  static constexpr size_t kMostNames = 200000;  // of the ranks that are wanted, in all
  static constexpr size_t kMostNameBytes = size_t{8} << 20;
  static constexpr size_t kMostTracks = 20000;
  static constexpr size_t kMostDepth = 32;
  static constexpr int64_t kMostClockError = int64_t{1} << 61;  // nanoseconds; more is no clock

  struct Wanted {
    uint64_t step = 1;
    int first_rank = 0;
    int ranks = kMostRanks;  // at most kMostRanks
  };
  explicit TraceTimeline(const Wanted& wanted) : wanted_(wanted) {}

  // The next bytes of the file. Errors: kDataLoss (it is no trace that Adjoin has written).
  absl::Status Take(absl::string_view bytes);

  // {"length_ns": 3610000, "clock_error_ns": 3100, "names": ["step 41", "conv1 forward", ...],
  //  "rank": [{"rank": 0, "slice": [[begin, length, depth, kind, name], ...]}, ...],
  //  "message": [[from, to, sent, came, bytes, name], ...],
  //  "slices_left_out": 0, "shorter_than_ns": 0, "messages_left_out": 0, "events_dropped": 0}
  // Times are nanoseconds since the first of these ranks began the step, `name` an index into names, `kind` one of
  // "step" "layer" "movement" "wait" "file" by its index. The longest slices stay where there is no room for all. A
  // message is there where both of its ranks are. `clock_error_ns`: by which the times of two ranks may differ at most;
  // `events_dropped`: those that the ranks had no room for.
  std::string Json();

 private:
  using Packet = perfetto::protos::TracePacket;
  enum class TrackKind { kSteps, kSends, kReceives };
  struct Slice {
    int64_t begin = 0, length = 0;
    int rank = 0, depth = 0, kind = 0;
    int name = -1;
  };
  struct Open {
    Slice slice;
    bool is_step = false;  // the one that is wanted
  };
  struct End {  // of a message
    int rank = 0;
    int64_t at = 0, bytes = 0;
    int name = -1;
  };
  // What packets of one rank refer to.
  struct RankState {
    std::map<uint64_t, std::string> names;
    std::map<uint64_t, int> kinds;
    std::map<uint64_t, std::string> annotations;
    std::map<uint64_t, TrackKind> tracks;
    std::vector<Open> open;
    bool in_step = false;
    int64_t begin = -1, end = -1;    // of the step; -1: it is not there
    size_t sends = 0, receives = 0;  // kept
  };

  absl::Status TakePacket(const Packet& packet);
  absl::Status TakeNames(const Packet& packet, bool wanted, RankState& state);
  absl::Status TakeTrack(const Packet& packet, RankState& state);
  absl::Status TakeSlice(const Packet& packet, int rank, RankState& state);
  void TakeMessage(const Packet& packet, TrackKind track, int rank, RankState& state);
  void TakeClock(const Packet& packet, const RankState& state);
  bool IsWanted(int rank) const { return rank >= wanted_.first_rank && rank - wanted_.first_rank < wanted_.ranks; }
  int NameOf(const std::string& name);
  // Keeps the longest.
  void DropShortest();

  const Wanted wanted_;
  std::string rest_;  // a packet that is not whole yet
  std::map<int, RankState> ranks_;
  int other_ = -1;  // the rank that other_state_ is of: none of those that are wanted
  RankState other_state_;
  std::map<std::string, int> name_index_;
  std::vector<Slice> slices_;
  std::map<uint64_t, End> sends_, receives_;        // by flow
  size_t names_ = 0, name_bytes_ = 0, tracks_ = 0;  // that were read
  int seen_ranks_ = 0;
  int64_t clock_error_ = 0, shorter_than_ = 0;
  uint64_t slices_left_out_ = 0, sends_left_out_ = 0, receives_left_out_ = 0, dropped_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_TRACE_TIMELINE_H_
