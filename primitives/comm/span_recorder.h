// Records what one rank does, and when: spans of time in memory that is allocated before the first of them.
//
//   SpanRecorder recorder;
//   recorder.Start(/*most_spans=*/1 << 17);
//   communicator.set_recorder(&recorder);          // movements, waits and messages from now on
//   {
//     const SpanScope span(&recorder, {.kind = SpanKind::kStep, .index = 41});
//     ...
//   }
//   communicator.set_recorder(nullptr);
//   const SpanRecorder::Recorded recorded = recorder.Stop();
//
// Without a recorder each of these places pays one comparison of a pointer. Spans for which there is no room are
// counted. One thread at a time, as Transport.
#ifndef ADJOIN_PRIMITIVES_COMM_SPAN_RECORDER_H_
#define ADJOIN_PRIMITIVES_COMM_SPAN_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "primitives/transport/tag.h"

namespace adjoin {

enum class SpanKind : uint8_t {
  kStep,        // index: the step, from 1
  kData,        // reading a batch
  kForward,     // index: the layer
  kBackward,    // likewise, with what is computed again
  kGradients,   // sums of gradients over ranks, and of the step's numbers
  kOptimizer,   //
  kCheckpoint,  //
  kValidation,  //
  kMovement,    // a call that starts, executes or waits for a movement; index: its operator
  kWait,        // within such a call: nothing to do but wait for `peer`
  kSend,        // a message, from where it is posted until it is over; may overlap with all others
  kReceive,     // likewise
};

struct Span {
  SpanKind kind = SpanKind::kStep;
  Direction direction = Direction::kForward;
  uint16_t slot = 0;  // of a message's tag
  int32_t index = 0;
  int32_t peer = -1;
  int64_t bytes = 0;
  int64_t generation = 0;
  int64_t begin = 0;  // nanoseconds of the recorder's clock
  int64_t end = 0;
};

class SpanRecorder {
 public:
  // Nanoseconds of CLOCK_MONOTONIC.
  static int64_t Now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
  }
  explicit SpanRecorder(std::function<int64_t()> clock = Now) : clock_(std::move(clock)) {}
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;

  struct Recorded {
    std::vector<Span> spans;  // in the order of their beginnings
    uint64_t dropped = 0;
  };

  // Allocates the memory. Forgets what was recorded before.
  void Start(std::size_t most_spans) {
    ++serial_;
    most_ = most_spans;
    recorded_ = {};
    recorded_.spans.reserve(most_spans);
    recording_ = true;
  }
  // Ends the spans that are open, and gives the memory away.
  Recorded Stop() {
    recording_ = false;
    const int64_t now = clock_();
    for (Span& span : recorded_.spans) {
      if (span.end == 0) span.end = now;
    }
    return std::exchange(recorded_, {});
  }
  bool recording() const { return recording_; }
  const Recorded& recorded() const { return recorded_; }  // so far
  int64_t now() const { return clock_(); }

  // A span that has begun; the default names none.
  struct Open {
    uint32_t serial = 0;
    uint32_t place = 0;
  };
  Open Begin(Span span) {
    span.begin = clock_();
    span.end = 0;
    return Add(span);
  }
  // Does nothing for a span of an earlier recording.
  void End(Open open) {
    if (open.serial == serial_ && recording_) recorded_.spans[open.place].end = clock_();
  }
  // A whole span, with its begin and end.
  Open Add(const Span& span) {
    if (!recording_) return {};
    if (recorded_.spans.size() == most_) {
      ++recorded_.dropped;
      return {};
    }
    recorded_.spans.push_back(span);
    return {serial_, static_cast<uint32_t>(recorded_.spans.size() - 1)};
  }

 private:
  const std::function<int64_t()> clock_;
  bool recording_ = false;
  uint32_t serial_ = 0;  // of the recording
  std::size_t most_ = 0;
  Recorded recorded_;
};

// A span for as long as this lives; nothing where `recorder` is null.
class SpanScope {
 public:
  SpanScope(SpanRecorder* recorder, const Span& span) : recorder_(recorder) {
    if (recorder_ != nullptr) open_ = recorder_->Begin(span);
  }
  ~SpanScope() {
    if (recorder_ != nullptr) recorder_->End(open_);
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  SpanRecorder* const recorder_;
  SpanRecorder::Open open_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_SPAN_RECORDER_H_
