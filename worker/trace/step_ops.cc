#include "worker/trace/step_ops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "worker/trace/trace_packets.h"

namespace adjoin {
namespace {

// A receive that is taken in so soon after a wait is what ended it.
constexpr int64_t kAtOnce = 50000;  // nanoseconds

// The part that a span's time belongs to; absent: that of the span around it.
std::optional<int32_t> PartOfSpan(const Span& span) {
  switch (span.kind) {
    case SpanKind::kStep: return StepOp::kOther;
    case SpanKind::kData: return StepOp::kData;
    case SpanKind::kForward: return PartOf(span.index, false);
    case SpanKind::kBackward: return PartOf(span.index, true);
    case SpanKind::kOptimizer:
    case SpanKind::kGradients:
    case SpanKind::kCheckpoint:
    case SpanKind::kValidation: return StepOp::kOther;
    default: return std::nullopt;
  }
}

// A moment at which something changes on this rank.
struct Point {
  enum class What { kEnd, kWaitEnd, kReceive, kSend, kBegin, kWaitBegin };  // in this order at one moment
  int64_t at = 0;
  What what = What::kEnd;
  std::size_t span = 0;
};

std::vector<Point> PointsOf(absl::Span<const Span> spans, const Span& step) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const int64_t begin = span.begin, end = std::min(span.end, step.end);
    if (begin < step.begin || begin > step.end) continue;
    if (span.kind == SpanKind::kSend) {
      points.push_back({begin, Point::What::kSend, i});
    } else if (span.kind == SpanKind::kReceive) {
      points.push_back({end, Point::What::kReceive, i});
    } else if (span.kind == SpanKind::kWait) {
      points.push_back({begin, Point::What::kWaitBegin, i});
      points.push_back({end, Point::What::kWaitEnd, i});
    } else if (span.kind != SpanKind::kStep && PartOfSpan(span).has_value()) {
      points.push_back({begin, Point::What::kBegin, i});
      points.push_back({end, Point::What::kEnd, i});
    }
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.at != b.at ? a.at < b.at : a.what < b.what; });
  return points;
}

class StepMaker {
 public:
  StepMaker(absl::Span<const Span> spans, const Span& step, int rank, const ClockAlignment& clock)
      : spans_(spans),
        rank_(rank),
        clock_(clock),
        numbers_(NumbersOfMessages({spans.begin(), spans.end()})),
        last_(step.begin) {}

  std::vector<StepOp> Make(const std::vector<Point>& points, int64_t end) {
    for (const Point& point : points) {
      Advance(point.at);
      Take(point);
    }
    Advance(end);
    KeepWait();
    FlushWork();
    return std::move(ops_);
  }

 private:
  int32_t part() const { return open_.empty() ? StepOp::kOther : open_.back().second; }

  void Advance(int64_t to) {
    const int64_t taken = to - last_;
    last_ = to;
    if (taken <= 0) return;
    if (waiting_) {
      waited_ += taken;
      since_wait_ = 0;
      return;
    }
    since_wait_ += taken;
    if (waited_ > 0 && since_wait_ > kAtOnce) KeepWait();
    if (work_part_ != part()) FlushWork();
    work_part_ = part();
    work_ += taken;
  }

  // What was waited for was no message that was received: a send that is over, a word without payload. It takes as long
  // in a replay.
  void KeepWait() {
    if (waited_ == 0) return;
    FlushWork();
    ops_.push_back({.part = StepOp::kOther, .ns = std::exchange(waited_, 0)});
  }

  void FlushWork() {
    if (work_ > 0) ops_.push_back({.part = work_part_, .ns = work_});
    work_ = 0;
  }

  void Take(const Point& point) {
    const Span& span = spans_[point.span];
    switch (point.what) {
      case Point::What::kWaitBegin: waiting_ = true; break;
      case Point::What::kWaitEnd: waiting_ = false; break;
      case Point::What::kBegin: open_.push_back({point.span, *PartOfSpan(span)}); break;
      case Point::What::kEnd:
        open_.erase(
            std::remove_if(open_.begin(), open_.end(), [&](const auto& one) { return one.first == point.span; }),
            open_.end());
        break;
      case Point::What::kSend:
      case Point::What::kReceive: {
        const bool receive = point.what == Point::What::kReceive;
        const bool ended_wait = receive && waited_ > 0;
        if (ended_wait) waited_ = 0;
        if (!receive) KeepWait();
        FlushWork();
        const StepOp op = {.kind = receive ? StepOp::Kind::kReceive : StepOp::Kind::kSend,
                           .peer = span.peer,
                           .waited = ended_wait ? 1 : 0,
                           .flow = FlowIdOf(span, rank_, numbers_[point.span]),
                           .bytes = span.bytes,
                           .ns = clock_.OnRank0(point.at)};
        ops_.push_back(op);
        break;
      }
    }
  }

  const absl::Span<const Span> spans_;
  const int rank_;
  const ClockAlignment& clock_;
  const std::vector<int64_t> numbers_;
  std::vector<std::pair<std::size_t, int32_t>> open_;  // spans with a part, the innermost last
  std::vector<StepOp> ops_;
  int64_t last_;
  bool waiting_ = false;
  int64_t waited_ = 0;      // of which it is not known yet what ended it
  int64_t since_wait_ = 0;  // not waiting
  int32_t work_part_ = StepOp::kOther;
  int64_t work_ = 0;
};

}  // namespace

RecordedStep StepOf(absl::Span<const Span> spans, int rank, const ClockAlignment& clock) {
  const auto step =
      std::find_if(spans.begin(), spans.end(), [](const Span& span) { return span.kind == SpanKind::kStep; });
  if (step == spans.end()) return {};
  RecordedStep made;
  made.begin = clock.OnRank0(step->begin);
  made.end = clock.OnRank0(step->end);
  made.ops = StepMaker(spans, *step, rank, clock).Make(PointsOf(spans, *step), step->end);
  return made;
}

}  // namespace adjoin
