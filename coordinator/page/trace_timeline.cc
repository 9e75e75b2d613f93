#include "coordinator/page/trace_timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

using perfetto::protos::TracePacket;
using perfetto::protos::TrackEvent;
using OrderedJson = nlohmann::ordered_json;

constexpr char kPacketTag = 0x0a;  // Trace.packet
constexpr std::array<absl::string_view, 5> kKinds = {"step", "layer", "movement", "wait", "file"};
constexpr size_t kMostShownName = 300;  // bytes

absl::Status NoTrace(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("this is no trace that Adjoin has written: ", why));
}

// The time of a packet; cut, so that differences of two are numbers, too.
int64_t TimeOf(const TracePacket& packet) {
  return static_cast<int64_t>(std::min<uint64_t>(packet.timestamp(), uint64_t{1} << 62));
}

// Reads the head of a packet. Nothing where it is not whole yet.
struct Head {
  size_t head = 0, body = 0;  // bytes
};
absl::StatusOr<std::optional<Head>> HeadOf(absl::string_view bytes) {
  if (bytes.empty()) return std::optional<Head>();
  if (bytes[0] != kPacketTag) return NoTrace("it has something else than packets");
  uint64_t body = 0;
  for (size_t i = 1; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    body |= static_cast<uint64_t>(byte & 0x7f) << (7 * (i - 1));
    if (body > TraceTimeline::kMostPacketBytes || i > 4) return NoTrace("a packet is too long");
    if ((byte & 0x80) == 0) return std::optional<Head>(Head{i + 1, static_cast<size_t>(body)});
  }
  return std::optional<Head>();
}

}  // namespace

absl::Status TraceTimeline::Take(absl::string_view bytes) {
  std::string joined;
  if (!rest_.empty()) {
    joined = absl::StrCat(rest_, bytes);
    bytes = joined;
  }
  Packet packet;
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<Head> head, HeadOf(bytes));
    if (!head.has_value() || bytes.size() - head->head < head->body) break;
    const absl::string_view body = bytes.substr(head->head, head->body);
    if (!packet.ParseFromArray(body.data(), static_cast<int>(body.size()))) return NoTrace("a packet cannot be read");
    ADJOIN_RETURN_IF_ERROR(TakePacket(packet));
    bytes.remove_prefix(head->head + head->body);
  }
  rest_ = std::string(bytes);
  return absl::OkStatus();
}

absl::Status TraceTimeline::TakePacket(const Packet& packet) {
  const uint32_t sequence = packet.trusted_packet_sequence_id();
  if (sequence == 0 || sequence > uint32_t{1} << 24) return NoTrace("a packet is of no rank");
  const int rank = static_cast<int>(sequence) - 1;
  const bool begins = (packet.sequence_flags() & TracePacket::SEQ_INCREMENTAL_STATE_CLEARED) != 0;
  const bool wanted = IsWanted(rank);
  if (!wanted && rank != other_) {
    if (!begins) return absl::OkStatus();
    other_ = rank;
    other_state_ = {};
  }
  RankState& state = wanted ? ranks_[rank] : other_state_;
  if (begins) ++seen_ranks_;
  ADJOIN_RETURN_IF_ERROR(TakeNames(packet, wanted, state));
  if (packet.has_track_descriptor()) return wanted ? TakeTrack(packet, state) : absl::OkStatus();
  if (!packet.has_track_event()) return absl::OkStatus();
  const TrackEvent& event = packet.track_event();
  if (event.type() == TrackEvent::TYPE_INSTANT) {
    TakeClock(packet, state);
    return absl::OkStatus();
  }
  if (!wanted) return absl::OkStatus();
  const auto track = state.tracks.find(event.track_uuid());
  if (track == state.tracks.end()) return NoTrace("an event is on no track");
  if (track->second == TrackKind::kSteps) return TakeSlice(packet, rank, state);
  TakeMessage(packet, track->second, rank, state);
  return absl::OkStatus();
}

absl::Status TraceTimeline::TakeNames(const Packet& packet, bool wanted, RankState& state) {
  const auto& data = packet.interned_data();
  for (const auto& category : data.event_categories()) {
    const auto kind = std::find(kKinds.begin(), kKinds.end(), category.name());
    if (state.kinds.size() < kKinds.size() * 2 && kind != kKinds.end()) {
      state.kinds[category.iid()] = static_cast<int>(kind - kKinds.begin());
    }
  }
  for (const auto& name : data.debug_annotation_names()) {
    if (state.annotations.size() < 100) state.annotations[name.iid()] = name.name();
  }
  if (!wanted) return absl::OkStatus();
  names_ += static_cast<size_t>(data.event_names_size());
  for (const auto& name : data.event_names()) name_bytes_ += name.name().size();
  if (names_ > kMostNames || name_bytes_ > kMostNameBytes) return NoTrace("it has too many names");
  for (const auto& name : data.event_names()) state.names[name.iid()] = name.name();
  return absl::OkStatus();
}

absl::Status TraceTimeline::TakeTrack(const Packet& packet, RankState& state) {
  const auto& track = packet.track_descriptor();
  if (++tracks_ > kMostTracks) return NoTrace("it has too many tracks");
  if (track.has_thread()) state.tracks[track.uuid()] = TrackKind::kSteps;
  if (track.name() == "sends") state.tracks[track.uuid()] = TrackKind::kSends;
  if (track.name() == "receives") state.tracks[track.uuid()] = TrackKind::kReceives;
  return absl::OkStatus();
}

absl::Status TraceTimeline::TakeSlice(const Packet& packet, int rank, RankState& state) {
  const TrackEvent& event = packet.track_event();
  if (event.type() == TrackEvent::TYPE_SLICE_BEGIN) {
    if (state.open.size() >= kMostDepth) return NoTrace("its slices are too deep");
    const auto name = state.names.find(event.name_iid());
    const auto kind = event.category_iids_size() > 0 ? state.kinds.find(event.category_iids(0)) : state.kinds.end();
    Open open;
    open.slice.begin = TimeOf(packet);
    open.slice.rank = rank;
    open.slice.depth = static_cast<int>(state.open.size());
    open.slice.kind = kind == state.kinds.end() ? 0 : kind->second;
    open.is_step = state.open.empty() && name != state.names.end() && state.begin < 0 &&
                   name->second == absl::StrCat("step ", wanted_.step);
    if (open.is_step) {
      state.in_step = true;
      state.begin = open.slice.begin;
    }
    if (state.in_step && name != state.names.end()) open.slice.name = NameOf(name->second);
    state.open.push_back(open);
    return absl::OkStatus();
  }
  if (state.open.empty()) return NoTrace("a slice ends that did not begin");
  Open open = state.open.back();
  state.open.pop_back();
  open.slice.length = TimeOf(packet) - open.slice.begin;
  if (open.slice.length < 0) return NoTrace("a slice ends before it begins");
  if (!state.in_step) return absl::OkStatus();
  slices_.push_back(open.slice);
  if (slices_.size() >= 2 * kMostSlices) DropShortest();
  state.end = std::max(state.end, open.slice.begin + open.slice.length);
  if (open.is_step) state.in_step = false;
  return absl::OkStatus();
}

// Both ends have to be within the step, each on its own rank. A rank's messages come after all else of it.
void TraceTimeline::TakeMessage(const Packet& packet, TrackKind track, int rank, RankState& state) {
  const TrackEvent& event = packet.track_event();
  const int64_t at = TimeOf(packet);
  if (at < state.begin || at > state.end) return;
  const bool sent = track == TrackKind::kSends && event.flow_ids_size() > 0;
  const bool came = track == TrackKind::kReceives && event.terminating_flow_ids_size() > 0;
  if (!sent && !came) return;
  size_t& kept = sent ? state.sends : state.receives;
  if (kept >= 2 * kMostMessages / static_cast<size_t>(std::max(1, wanted_.ranks))) {
    ++(sent ? sends_left_out_ : receives_left_out_);
    return;
  }
  ++kept;
  End end;
  end.rank = rank;
  end.at = at;
  if (came) {
    receives_[event.terminating_flow_ids(0)] = end;
    return;
  }
  const auto name = state.names.find(event.name_iid());
  if (name != state.names.end()) end.name = NameOf(name->second);
  for (const auto& annotation : event.debug_annotations()) {
    const auto found = state.annotations.find(annotation.name_iid());
    if (found != state.annotations.end() && found->second == "bytes") end.bytes = annotation.int_value();
  }
  sends_[event.flow_ids(0)] = end;
}

void TraceTimeline::TakeClock(const Packet& packet, const RankState& state) {
  for (const auto& annotation : packet.track_event().debug_annotations()) {
    const auto name = state.annotations.find(annotation.name_iid());
    if (name == state.annotations.end()) continue;
    if (name->second == "clock error ns") {
      clock_error_ = std::max(clock_error_, std::min<int64_t>(annotation.int_value(), kMostClockError));
    }
    if (name->second == "spans left out") dropped_ += annotation.uint_value();
  }
}

int TraceTimeline::NameOf(const std::string& name) {
  if (name_index_.size() >= kMostNames) return -1;
  return name_index_.try_emplace(PrintableText(name, kMostShownName), static_cast<int>(name_index_.size()))
      .first->second;
}

void TraceTimeline::DropShortest() {
  if (slices_.size() <= kMostSlices) return;
  const auto end = slices_.begin() + static_cast<std::ptrdiff_t>(kMostSlices);
  std::nth_element(slices_.begin(), end, slices_.end(),
                   [](const Slice& a, const Slice& b) { return a.length > b.length; });
  shorter_than_ = std::max(shorter_than_, end->length);
  slices_left_out_ += static_cast<uint64_t>(slices_.end() - end);
  slices_.erase(end, slices_.end());
}

std::string TraceTimeline::Json() {
  DropShortest();
  std::sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
    return std::make_tuple(a.rank, a.begin, a.depth) < std::make_tuple(b.rank, b.begin, b.depth);
  });
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const auto& [rank, state] : ranks_) {
    if (state.begin < 0) continue;
    first = std::min(first, state.begin);
    last = std::max(last, state.end);
  }
  first = std::min(first, last);
  std::vector<std::string> names(name_index_.size());
  for (const auto& [name, index] : name_index_) names[static_cast<size_t>(index)] = name;

  auto slice = slices_.begin();
  std::string ranks;
  for (const auto& [rank, state] : ranks_) {
    if (state.begin < 0) continue;
    absl::StrAppend(&ranks, ranks.empty() ? "" : ",", "{\"rank\":", rank, ",\"slice\":[");
    const char* separator = "";
    for (; slice != slices_.end() && slice->rank <= rank; ++slice) {
      absl::StrAppend(&ranks, separator, "[", slice->begin - first, ",", slice->length, ",", slice->depth, ",",
                      slice->kind, ",", slice->name);
      absl::StrAppend(&ranks, "]");
      separator = ",";
    }
    absl::StrAppend(&ranks, "]}");
  }
  std::string messages;
  size_t shown = 0;
  uint64_t left_out = std::max(sends_left_out_, receives_left_out_);
  for (const auto& [flow, sent] : sends_) {
    const auto came = receives_.find(flow);
    if (came == receives_.end()) continue;
    if (shown == kMostMessages) {
      ++left_out;
      continue;
    }
    ++shown;
    absl::StrAppend(&messages, messages.empty() ? "[" : ",[", sent.rank, ",", came->second.rank, ",", sent.at - first,
                    ",", came->second.at - first, ",", sent.bytes);
    absl::StrAppend(&messages, ",", sent.name, "]");
  }
  const OrderedJson head = {{"length_ns", last - first},
                            {"clock_error_ns", clock_error_ * (seen_ranks_ > 2 ? 2 : 1)},
                            {"slices_left_out", slices_left_out_},
                            {"shorter_than_ns", shorter_than_},
                            {"messages_left_out", left_out},
                            {"events_dropped", dropped_},
                            {"names", std::move(names)}};
  std::string text = head.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
  text.pop_back();
  return absl::StrCat(text, ",\"rank\":[", ranks, "],\"message\":[", messages, "]}\n");
}

}  // namespace adjoin
