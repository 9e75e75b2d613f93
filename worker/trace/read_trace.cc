#include "worker/trace/read_trace.h"

#include <utility>

#include <google/protobuf/unknown_field_set.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/perfetto_trace.pb.h"

namespace adjoin {
namespace {

using perfetto::protos::Trace;
using perfetto::protos::TracePacket;
using perfetto::protos::TrackDescriptor;
using perfetto::protos::TrackEvent;
using Slice = ReadTrace::Slice;

bool HasUnknown(const google::protobuf::Message& message) {
  const auto& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (HasUnknown(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                          : reflection.GetMessage(message, field))) {
        return true;
      }
    }
  }
  return false;
}

struct Names {
  std::map<uint64_t, std::string> events, categories, annotations;
};

class Reader {
 public:
  absl::Status Take(const TracePacket& packet) {
    if (packet.sequence_flags() & TracePacket::SEQ_INCREMENTAL_STATE_CLEARED) {
      names_[packet.trusted_packet_sequence_id()] = {};
    }
    Names& names = names_[packet.trusted_packet_sequence_id()];
    for (const auto& name : packet.interned_data().event_names()) names.events[name.iid()] = name.name();
    for (const auto& name : packet.interned_data().event_categories()) names.categories[name.iid()] = name.name();
    for (const auto& name : packet.interned_data().debug_annotation_names()) {
      names.annotations[name.iid()] = name.name();
    }
    if (packet.has_track_descriptor()) tracks_[packet.track_descriptor().uuid()] = packet.track_descriptor();
    return packet.has_track_event() ? TakeEvent(packet, names) : absl::OkStatus();
  }

  absl::StatusOr<ReadTrace> Finish() {
    for (const auto& [track, open] : open_) {
      if (!open.empty()) return absl::DataLossError(absl::StrCat("a slice has no end: ", open.back().name));
    }
    std::map<uint64_t, Slice> sends;
    for (const Slice& slice : trace_.slices) {
      if (slice.flow_from != 0 && !sends.emplace(slice.flow_from, slice).second) {
        return absl::DataLossError(absl::StrCat("two messages have one flow id: ", slice.name));
      }
    }
    for (const Slice& slice : trace_.slices) {
      if (slice.flow_to == 0) continue;
      const auto send = sends.find(slice.flow_to);
      if (send == sends.end()) return absl::DataLossError(absl::StrCat("never sent: ", slice.name));
      trace_.messages.push_back({send->second, slice});
      sends.erase(send);
    }
    if (!sends.empty()) return absl::DataLossError(absl::StrCat("never received: ", sends.begin()->second.name));
    return std::move(trace_);
  }

 private:
  std::string ProcessOf(uint64_t track) {
    while (!tracks_[track].has_process() && tracks_[track].parent_uuid() != 0) track = tracks_[track].parent_uuid();
    return tracks_[track].process().process_name();
  }

  absl::Status TakeEvent(const TracePacket& packet, Names& names) {
    const TrackEvent& event = packet.track_event();
    const uint64_t track = event.track_uuid();
    if (tracks_.count(track) == 0) return absl::DataLossError("an event is on no track");
    const int64_t at = static_cast<int64_t>(packet.timestamp());
    if (event.type() == TrackEvent::TYPE_SLICE_END) {
      std::vector<Slice>& open = open_[track];
      if (open.empty()) return absl::DataLossError("an end without a begin");
      Slice slice = std::move(open.back());
      open.pop_back();
      slice.end = at;
      if (slice.end < slice.begin) return absl::DataLossError(absl::StrCat("ends before it begins: ", slice.name));
      if (event.terminating_flow_ids_size() > 0) slice.flow_to = event.terminating_flow_ids(0);
      last_[track] = at;
      trace_.slices.push_back(std::move(slice));
      return absl::OkStatus();
    }
    std::map<std::string, int64_t> args;
    for (const auto& annotation : event.debug_annotations()) {
      const std::string name = names.annotations[annotation.name_iid()];
      if (name.empty()) return absl::DataLossError("an annotation has no name");
      args[name] = annotation.has_bool_value()   ? annotation.bool_value()
                   : annotation.has_uint_value() ? static_cast<int64_t>(annotation.uint_value())
                                                 : annotation.int_value();
    }
    const std::string name = event.has_name() ? event.name() : names.events[event.name_iid()];
    if (name.empty()) return absl::DataLossError("an event has no name");
    if (event.type() == TrackEvent::TYPE_INSTANT) {
      trace_.instants.push_back({ProcessOf(track), name, std::move(args)});
      return absl::OkStatus();
    }
    if (at < last_[track]) return absl::DataLossError(absl::StrCat("slices overlap on a track: ", name));
    last_[track] = at;
    std::vector<Slice>& open = open_[track];
    Slice slice;
    slice.process = ProcessOf(track);
    slice.track = tracks_[track].has_thread() ? tracks_[track].thread().thread_name() : tracks_[track].name();
    slice.name = name;
    slice.category = event.category_iids_size() > 0 ? names.categories[event.category_iids(0)] : "";
    slice.begin = at;
    slice.depth = static_cast<int>(open.size());
    slice.args = std::move(args);
    if (event.flow_ids_size() > 0) slice.flow_from = event.flow_ids(0);
    open.push_back(std::move(slice));
    return absl::OkStatus();
  }

  std::map<uint32_t, Names> names_;
  std::map<uint64_t, TrackDescriptor> tracks_;
  std::map<uint64_t, std::vector<Slice>> open_;
  std::map<uint64_t, int64_t> last_;
  ReadTrace trace_;
};

}  // namespace

absl::StatusOr<ReadTrace> ReadTrace::Of(const std::string& bytes) {
  Trace trace;
  if (!trace.ParseFromString(bytes)) return absl::DataLossError("no message of Perfetto's schema");
  if (HasUnknown(trace)) return absl::DataLossError("unknown fields");
  Reader reader;
  for (const TracePacket& packet : trace.packet()) {
    const absl::Status taken = reader.Take(packet);
    if (!taken.ok()) return taken;
  }
  return reader.Finish();
}

}  // namespace adjoin
