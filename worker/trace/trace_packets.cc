#include "worker/trace/trace_packets.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/perfetto_trace.pb.h"

namespace adjoin {
namespace {

using perfetto::protos::DebugAnnotation;
using perfetto::protos::Trace;
using perfetto::protos::TracePacket;
using perfetto::protos::TrackEvent;

constexpr int kMostPackets = 500;  // in one part

// By their values, the ids under which a rank's packets name them.
constexpr std::array<const char*, 6> kCategories = {"step", "layer", "movement", "wait", "message", "file"};
enum Category : uint64_t {
  kStepCategory = 1,
  kLayerCategory,
  kMovementCategory,
  kWaitCategory,
  kMessageCategory,
  kFileCategory
};
constexpr std::array<const char*, 8> kAnnotations = {
    "bytes", "peer", "operator", "generation", "adjoint", "clock offset ns", "clock error ns", "spans left out"};
enum Annotation : uint64_t { kBytes = 1, kPeer, kOperator, kGeneration, kAdjoint, kClockOffset, kClockError, kLeftOut };

Category CategoryOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep:
    case SpanKind::kOptimizer:
    case SpanKind::kValidation: return kStepCategory;
    case SpanKind::kForward:
    case SpanKind::kBackward: return kLayerCategory;
    case SpanKind::kGradients:
    case SpanKind::kMovement: return kMovementCategory;
    case SpanKind::kWait: return kWaitCategory;
    case SpanKind::kSend:
    case SpanKind::kReceive: return kMessageCategory;
    case SpanKind::kData:
    case SpanKind::kCheckpoint: return kFileCategory;
  }
  return kStepCategory;
}

// SplitMix64's last step.
uint64_t Mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

class Writer {
 public:
  Writer(const TracedRank& rank, const std::function<absl::Status(absl::string_view)>& sink)
      : rank_(rank), sink_(sink) {}

  absl::Status Write() {
    Describe();
    const std::vector<Span>& spans = rank_.recorded->spans;
    ADJOIN_RETURN_IF_ERROR(WriteNested(spans));
    const std::vector<int64_t> numbers = NumbersOfMessages(spans);
    ADJOIN_RETURN_IF_ERROR(WriteMessages(spans, numbers, SpanKind::kSend));
    ADJOIN_RETURN_IF_ERROR(WriteMessages(spans, numbers, SpanKind::kReceive));
    return Flush();
  }

 private:
  static constexpr uint64_t kThread = 1;  // of a rank's tracks: the thread, then those of messages

  uint64_t Track(uint64_t number) const { return (static_cast<uint64_t>(rank_.rank) + 1) << 32 | number; }
  uint64_t TimeOf(int64_t here) const { return static_cast<uint64_t>(std::max<int64_t>(0, rank_.clock.OnRank0(here))); }

  TracePacket& NewPacket() {
    TracePacket& packet = *part_.add_packet();
    packet.set_trusted_packet_sequence_id(static_cast<uint32_t>(rank_.rank) + 1);
    packet.set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    return packet;
  }

  absl::Status Flush() {
    if (part_.packet_size() == 0) return absl::OkStatus();
    const std::string bytes = part_.SerializeAsString();
    part_.Clear();
    return sink_(bytes);
  }
  absl::Status FlushWhereFull() { return part_.packet_size() < kMostPackets ? absl::OkStatus() : Flush(); }

  // The rank's process and thread, and how its clock was found.
  void Describe() {
    TracePacket& first = NewPacket();
    first.set_sequence_flags(TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    for (size_t i = 0; i < kCategories.size(); ++i) {
      auto& category = *first.mutable_interned_data()->add_event_categories();
      category.set_iid(i + 1);
      category.set_name(kCategories[i]);
    }
    for (size_t i = 0; i < kAnnotations.size(); ++i) {
      auto& name = *first.mutable_interned_data()->add_debug_annotation_names();
      name.set_iid(i + 1);
      name.set_name(kAnnotations[i]);
    }
    const int32_t pid = rank_.rank + 1;  // 0 is the kernel's
    first.mutable_track_descriptor()->set_uuid(Track(0));
    first.mutable_track_descriptor()->mutable_process()->set_pid(pid);
    first.mutable_track_descriptor()->mutable_process()->set_process_name(absl::StrCat("rank ", rank_.rank));
    auto& thread = *NewPacket().mutable_track_descriptor();
    thread.set_uuid(Track(kThread));
    thread.set_parent_uuid(Track(0));
    thread.mutable_thread()->set_pid(pid);
    thread.mutable_thread()->set_tid(pid);
    thread.mutable_thread()->set_thread_name("steps");

    const std::vector<Span>& spans = rank_.recorded->spans;
    TracePacket& packet = NewPacket();
    packet.set_timestamp(spans.empty() ? 0 : TimeOf(spans.front().begin));
    TrackEvent& clock = *packet.mutable_track_event();
    clock.set_type(TrackEvent::TYPE_INSTANT);
    clock.set_track_uuid(Track(kThread));
    clock.add_category_iids(kStepCategory);
    clock.set_name(rank_.about.empty() ? "the recording begins" : rank_.about);
    Annotate(clock, kClockOffset).set_int_value(rank_.clock.offset());
    Annotate(clock, kClockError).set_int_value(rank_.clock.error());
    Annotate(clock, kLeftOut).set_uint_value(rank_.recorded->dropped);
  }

  static DebugAnnotation& Annotate(TrackEvent& event, Annotation name) {
    DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(name);
    return annotation;
  }

  std::string OperatorName(const Span& span) const {
    const std::string name = rank_.operator_name ? rank_.operator_name(span.index) : "";
    return absl::StrCat(name.empty() ? absl::StrCat("operator ", span.index) : name,
                        span.direction == Direction::kAdjoint ? " adjoint" : "");
  }

  std::string NameOf(const Span& span) const {
    const auto layer = [&] {
      const size_t index = static_cast<size_t>(span.index);
      return span.index >= 0 && index < rank_.layers.size() ? rank_.layers[index] : absl::StrCat("layer ", span.index);
    };
    switch (span.kind) {
      case SpanKind::kStep: return absl::StrCat("step ", span.index);
      case SpanKind::kData: return "reads the batch";
      case SpanKind::kForward: return absl::StrCat(layer(), " forward");
      case SpanKind::kBackward: return absl::StrCat(layer(), " backward");
      case SpanKind::kGradients: return "sums of gradients";
      case SpanKind::kOptimizer: return "optimizer";
      case SpanKind::kCheckpoint: return "checkpoint";
      case SpanKind::kValidation: return "validation";
      case SpanKind::kMovement: return OperatorName(span);
      case SpanKind::kWait: return absl::StrCat("waits for rank ", span.peer);
      case SpanKind::kSend: return absl::StrCat(OperatorName(span), " to rank ", span.peer);
      case SpanKind::kReceive: return absl::StrCat(OperatorName(span), " from rank ", span.peer);
    }
    return "";
  }

  // Defines the name with the first packet that uses it.
  void SetName(const Span& span, TracePacket& packet) {
    const auto key = std::make_tuple(span.kind, span.direction, span.index, span.peer);
    const auto [found, is_new] = names_.try_emplace(key, names_.size() + 1);
    packet.mutable_track_event()->set_name_iid(found->second);
    if (!is_new) return;
    auto& name = *packet.mutable_interned_data()->add_event_names();
    name.set_iid(found->second);
    name.set_name(NameOf(span));
  }

  TrackEvent& Begin(const Span& span, uint64_t track) {
    TracePacket& packet = NewPacket();
    packet.set_timestamp(TimeOf(span.begin));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(TrackEvent::TYPE_SLICE_BEGIN);
    event.set_track_uuid(track);
    event.add_category_iids(CategoryOf(span.kind));
    SetName(span, packet);
    return event;
  }

  TrackEvent& End(int64_t at, uint64_t track) {
    TracePacket& packet = NewPacket();
    packet.set_timestamp(TimeOf(at));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(TrackEvent::TYPE_SLICE_END);
    event.set_track_uuid(track);
    return event;
  }

  absl::Status WriteNested(const std::vector<Span>& spans) {
    std::vector<int64_t> open;  // ends, the outermost first
    const auto end_until = [&](int64_t time) {
      while (!open.empty() && open.back() <= time) {
        End(open.back(), Track(kThread));
        open.pop_back();
      }
    };
    for (const Span& span : spans) {
      if (IsMessage(span)) continue;
      end_until(span.begin);
      Begin(span, Track(kThread));
      open.push_back(open.empty() ? span.end : std::min(span.end, open.back()));
      ADJOIN_RETURN_IF_ERROR(FlushWhereFull());
    }
    end_until(INT64_MAX);
    return absl::OkStatus();
  }

  // Each message on the first track whose last one is over.
  absl::Status WriteMessages(const std::vector<Span>& spans, const std::vector<int64_t>& numbers, SpanKind kind) {
    struct Lane {
      uint64_t track = 0;
      int64_t end = 0;
    };
    std::vector<Lane> lanes;
    for (size_t i = 0; i < spans.size(); ++i) {
      const Span& span = spans[i];
      if (span.kind != kind) continue;
      auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) { return one.end <= span.begin; });
      if (lane == lanes.end()) lane = lanes.insert(lanes.end(), {NewLane(kind), 0});
      const uint64_t flow = FlowIdOf(span, rank_.rank, numbers[i]);
      TrackEvent& begin = Begin(span, lane->track);
      Annotate(begin, kBytes).set_int_value(span.bytes);
      Annotate(begin, kPeer).set_int_value(span.peer);
      Annotate(begin, kOperator).set_int_value(span.index);
      Annotate(begin, kGeneration).set_int_value(span.generation);
      Annotate(begin, kAdjoint).set_bool_value(span.direction == Direction::kAdjoint);
      // The message begins where it is sent, and ends where it has come: a receive is often posted before that.
      if (kind == SpanKind::kSend) begin.add_flow_ids(flow);
      TrackEvent& end = End(span.end, lane->track);
      if (kind == SpanKind::kReceive) end.add_terminating_flow_ids(flow);
      lane->end = span.end;
      ADJOIN_RETURN_IF_ERROR(FlushWhereFull());
    }
    return absl::OkStatus();
  }

  uint64_t NewLane(SpanKind kind) {
    auto& track = *NewPacket().mutable_track_descriptor();
    track.set_uuid(Track(kThread + ++lanes_));
    track.set_parent_uuid(Track(0));
    track.set_name(kind == SpanKind::kSend ? "sends" : "receives");
    return track.uuid();
  }

  const TracedRank& rank_;
  const std::function<absl::Status(absl::string_view)>& sink_;
  Trace part_;
  std::map<std::tuple<SpanKind, Direction, int32_t, int32_t>, uint64_t> names_;
  uint64_t lanes_ = 0;
};

}  // namespace

uint64_t FlowIdOf(const Span& message, int rank, int64_t nth) {
  const bool send = message.kind == SpanKind::kSend;
  uint64_t hash = 0;
  for (const int64_t number :
       {int64_t{message.index}, static_cast<int64_t>(message.direction), message.generation, int64_t{message.slot},
        int64_t{send ? rank : message.peer}, int64_t{send ? message.peer : rank}, nth}) {
    hash = Mixed(hash + 0x9e3779b97f4a7c15u + static_cast<uint64_t>(number));
  }
  return hash | 1;  // 0 is none
}

std::vector<int64_t> NumbersOfMessages(const std::vector<Span>& spans) {
  std::map<std::tuple<SpanKind, Direction, int32_t, int32_t, uint16_t, int64_t>, int64_t> counts;
  std::vector<int64_t> numbers(spans.size(), 0);
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (!IsMessage(span)) continue;
    numbers[i] = counts[{span.kind, span.direction, span.index, span.peer, span.slot, span.generation}]++;
  }
  return numbers;
}

absl::Status WriteTracePackets(const TracedRank& rank, const std::function<absl::Status(absl::string_view)>& sink) {
  return Writer(rank, sink).Write();
}

}  // namespace adjoin
