#include "worker/trace/step_ops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "worker/trace/trace_packets.h"

namespace adjoin {
namespace {

// What happens so soon after a wait is what ended it.
constexpr int64_t kAtOnce = 50000;  // nanoseconds

// A sender of an execution waits until the receiver has taken in the one so many before it
// (primitives/comm/movement_execution.h).
constexpr int64_t kUnreceived = 2;

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
  // In this order at one moment. kOver: of a message that is sent.
  enum class What { kEnd, kWaitEnd, kOver, kReady, kReceive, kSend, kBegin, kWaitBegin };
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
      if (end > begin) points.push_back({end, Point::What::kOver, i});
    } else if (span.kind == SpanKind::kReceive) {
      points.push_back({begin, Point::What::kReady, i});
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
        last_(step.begin) {
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const Span& span = spans[i];
      if (span.kind == SpanKind::kSend) sent_[{OperatorOf(span), span.peer, span.slot, span.generation}] = FlowOf(i);
      if (span.kind == SpanKind::kReceive) received_from_.emplace(OperatorOf(span), span.peer);
    }
  }

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

  // What was waited for was no message that was received. Where a message that was sent was over then, the receiver had
  // made room for it. Anything else takes as long in a replay, unless a send tells what it was (AwaitRoom).
  void KeepWait() {
    if (waited_ == 0) return;
    FlushWork();
    if (over_.has_value()) {
      ops_.push_back(Awaited(StepOp::Kind::kAwaitReady, spans_[*over_].peer, FlowOf(*over_), waited_));
    } else {
      kept_ = ops_.size();
      ops_.push_back({.part = StepOp::kOther, .ns = waited_});
    }
    EndWait();
  }

  // What this rank waited for was room to send `send`, or another of its execution: of one that goes to several ranks
  // none is sent before all have room.
  void AwaitRoom(const Span& send) {
    if (over_.has_value()) KeepWait();
    if (waited_ == 0 && !kept_.has_value()) return;
    const bool same = OperatorOf(spans_[wait_]) == OperatorOf(send);
    const bool only_sends = same && received_from_.count({OperatorOf(send), spans_[wait_].peer}) == 0;
    const int32_t peer = only_sends ? spans_[wait_].peer : send.peer;
    const auto earlier = sent_.find({OperatorOf(send), peer, send.slot, send.generation - kUnreceived});
    const bool known = earlier != sent_.end();
    if (waited_ > 0 && known) {
      FlushWork();
      ops_.push_back(Awaited(StepOp::Kind::kAwaitTaken, peer, earlier->second, waited_));
      EndWait();
    } else if (waited_ > 0) {
      KeepWait();
    } else if (known && same) {  // it packed what it sends before
      ops_[*kept_] = Awaited(StepOp::Kind::kAwaitTaken, peer, earlier->second, ops_[*kept_].ns);
    }
    kept_.reset();
  }

  StepOp Awaited(StepOp::Kind kind, int32_t peer, uint64_t flow, int64_t waited) const {
    return {.kind = kind, .peer = peer, .flow = flow, .waited = waited, .ns = clock_.OnRank0(spans_[wait_].end)};
  }

  // What the rank became ready for after the wait stands after it.
  void EndWait() {
    waited_ = 0;
    over_.reset();
    ops_.insert(ops_.end(), ready_.begin(), ready_.end());
    ready_.clear();
  }

  void FlushWork() {
    if (work_ > 0) ops_.push_back({.part = work_part_, .ns = work_});
    work_ = 0;
  }

  void Take(const Point& point) {
    const Span& span = spans_[point.span];
    switch (point.what) {
      case Point::What::kWaitBegin:
        waiting_ = true;
        wait_ = point.span;
        kept_.reset();
        break;
      case Point::What::kWaitEnd: waiting_ = false; break;
      case Point::What::kBegin: open_.push_back({point.span, *PartOfSpan(span)}); break;
      case Point::What::kEnd:
        open_.erase(
            std::remove_if(open_.begin(), open_.end(), [&](const auto& one) { return one.first == point.span; }),
            open_.end());
        break;
      case Point::What::kOver:
        if (waited_ > 0 && OperatorOf(spans_[wait_]) == OperatorOf(span) && spans_[wait_].peer == span.peer) {
          over_ = point.span;
        }
        break;
      case Point::What::kReady:
        if (waited_ > 0 && !waiting_) {
          ready_.push_back(MessageOp(StepOp::Kind::kReady, point, /*waited=*/0));
        } else {
          AddMessage(StepOp::Kind::kReady, point, /*waited=*/0);
        }
        break;
      case Point::What::kSend:
        AwaitRoom(span);
        AddMessage(StepOp::Kind::kSend, point, /*waited=*/0);
        break;
      case Point::What::kReceive:
        AddMessage(StepOp::Kind::kReceive, point, waited_);
        EndWait();
        break;
    }
  }

  void AddMessage(StepOp::Kind kind, const Point& point, int64_t waited) {
    FlushWork();
    ops_.push_back(MessageOp(kind, point, waited));
  }

  StepOp MessageOp(StepOp::Kind kind, const Point& point, int64_t waited) const {
    const Span& span = spans_[point.span];
    return {.kind = kind,
            .peer = span.peer,
            .flow = FlowOf(point.span),
            .bytes = span.bytes,
            .waited = waited,
            .ns = clock_.OnRank0(point.at)};
  }

  using OperatorKey = std::pair<int32_t, Direction>;
  static OperatorKey OperatorOf(const Span& span) { return {span.index, span.direction}; }
  uint64_t FlowOf(std::size_t span) const { return FlowIdOf(spans_[span], rank_, numbers_[span]); }

  const absl::Span<const Span> spans_;
  const int rank_;
  const ClockAlignment& clock_;
  const std::vector<int64_t> numbers_;
  std::vector<std::pair<std::size_t, int32_t>> open_;  // spans with a part, the innermost last
  std::map<std::tuple<OperatorKey, int32_t, uint16_t, int64_t>, uint64_t> sent_;  // by peer, slot and generation, too
  std::set<std::pair<OperatorKey, int32_t>> received_from_;                       // by peer, too
  std::vector<StepOp> ops_;
  std::vector<StepOp> ready_;  // of kind kReady, since the end of a wait of which it is not known what ended it
  int64_t last_;
  bool waiting_ = false;
  std::size_t wait_ = 0;             // the last one's span
  int64_t waited_ = 0;               // of which it is not known yet what ended it
  std::optional<std::size_t> over_;  // the span of a message that was sent, which was over then
  std::optional<std::size_t> kept_;  // the op that the last wait was kept as
  int64_t since_wait_ = 0;           // not waiting
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
