#include "proto/fit_message.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

static_assert(kMaxErrorBytes >= kMaxPathBytes, "a path is no longer than any other text");

constexpr char kLeftOut[] = "(left out)";
constexpr char kMetricsLeftOut[] = "metrics left out";
constexpr size_t kShortError = 256;

// True for what each rank reports once a second.
bool IsPulse(const Descriptor* type) {
  return type == RankPulse::descriptor() || type == JobProgress::descriptor() || type == LayerTime::descriptor() ||
         type == SlowPart::descriptor() || type == TraceProgress::descriptor() ||
         (type->options().map_entry() && type->containing_type() == JobProgress::descriptor());
}

size_t TextLimit(const FieldDescriptor* field) {
  if (IsPulse(field->containing_type())) return kMaxNameBytes;
  if (field->containing_type() == LogLine::descriptor()) return kMaxLogLineBytes;
  if (field->name() == "transport") return kMaxReportBytes;
  return kMaxErrorBytes;
}

void FitStrings(Message* message, const FieldDescriptor* field) {
  const Reflection& reflection = *message->GetReflection();
  const size_t limit = TextLimit(field);
  std::string scratch;
  const auto fits = [limit](const std::string& text) { return text.size() <= limit && IsPrintableText(text); };
  if (!field->is_repeated()) {
    const std::string& text = reflection.GetStringReference(*message, field, &scratch);
    if (!fits(text)) reflection.SetString(message, field, PrintableText(text, limit));
    return;
  }
  for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
    const std::string& text = reflection.GetRepeatedStringReference(*message, field, i, &scratch);
    if (!fits(text)) reflection.SetRepeatedString(message, field, i, PrintableText(text, limit));
  }
}

// A part of an address is none. Ranks and daemons refuse one that is too long with a reason; this is the last defence.
void FitAddress(Message* message, const FieldDescriptor* field) {
  if (field->is_repeated() || field->name() != "transport_address") return;
  const Reflection& reflection = *message->GetReflection();
  std::string scratch;
  if (reflection.GetStringReference(*message, field, &scratch).size() <= kMaxAddressBytes) return;
  reflection.SetString(message, field, "");
}

// The first names stay.
template <typename Ended>
void FitArtifacts(Ended& ended) {
  int kept = 0;
  size_t bytes = 0;
  for (const std::string& name : ended.artifact()) {
    bytes += name.size();
    if (kept == static_cast<int>(kMaxArtifacts) || bytes > kMaxArtifactBytes) break;
    ++kept;
  }
  const int left_out = ended.artifact_size() - kept;
  if (left_out == 0) return;
  ended.mutable_artifact()->DeleteSubrange(kept, left_out);
  ended.set_artifacts_left_out(ended.artifacts_left_out() + static_cast<uint64_t>(left_out));
}

// The first ones by name stay, the same on every rank.
void FitMetrics(JobProgress& progress) {
  constexpr size_t kValueBytes = 16;  // of one metric besides its name
  size_t bytes = 0;
  for (const auto& [name, value] : progress.metric()) bytes += name.size() + kValueBytes;
  if (bytes <= kMaxReportBytes) return;
  const std::map<std::string, double> all(progress.metric().begin(), progress.metric().end());
  progress.clear_metric();
  bytes = sizeof(kMetricsLeftOut) + kValueBytes;
  double left_out = 0;
  for (const auto& [name, value] : all) {
    bytes += name.size() + kValueBytes;
    if (bytes <= kMaxReportBytes) {
      (*progress.mutable_metric())[name] = value;
    } else {
      left_out += name == kMetricsLeftOut ? value : 1;
    }
  }
  (*progress.mutable_metric())[kMetricsLeftOut] = left_out;
}

// The longest ones stay.
void FitLayers(LayerTimes& times) {
  if (times.slow_size() > kMaxShownLayers) {
    times.mutable_slow()->DeleteSubrange(kMaxShownLayers, times.slow_size() - kMaxShownLayers);
  }
  const int left_out = times.layer_size() - kMaxShownLayers;
  if (left_out <= 0) return;
  times.mutable_layer()->DeleteSubrange(kMaxShownLayers, left_out);
  times.set_left_out(times.left_out() + static_cast<uint32_t>(left_out));
}

void FitLines(LogBatch& batch) {
  size_t bytes = 0;
  int kept = 0;
  for (const LogLine& line : batch.line()) {
    bytes += line.ByteSizeLong();
    if (bytes > kMaxLogBatchBytes) break;
    ++kept;
  }
  const int left_out = batch.line_size() - kept;
  if (left_out == 0) return;
  LogLine note = batch.line(kept);
  note.set_text(absl::StrCat("[here ", left_out, " lines were left out, which were too many for one message]"));
  batch.mutable_line()->DeleteSubrange(kept, left_out);
  *batch.add_line() = std::move(note);
}

void FitList(Message* message) {
  const Descriptor* type = message->GetDescriptor();
  if (type == JobProgress::descriptor()) FitMetrics(*static_cast<JobProgress*>(message));
  if (type == LayerTimes::descriptor()) FitLayers(*static_cast<LayerTimes*>(message));
  if (type == RankEnded::descriptor()) FitArtifacts(*static_cast<RankEnded*>(message));
  if (type == RankResult::descriptor()) FitArtifacts(*static_cast<RankResult*>(message));
  if (type == LogBatch::descriptor()) FitLines(*static_cast<LogBatch*>(message));
}

bool IsOfSpec(const Message& message) { return message.GetDescriptor()->file() == JobSpec::descriptor()->file(); }

// What a message can do without, in the words of a log, and how to leave it out.
struct Extra {
  std::string name;
  std::function<void()> leave_out;
};

std::string LeaveOut(const Message& message, size_t limit, const std::vector<Extra>& extras) {
  std::string left_out;
  for (const Extra& extra : extras) {
    if (message.ByteSizeLong() <= limit) break;
    extra.leave_out();
    absl::StrAppend(&left_out, left_out.empty() ? "" : ", ", extra.name);
  }
  return left_out;
}

template <typename Ended>
void LeaveOutArtifacts(Ended& ended) {
  ended.set_artifacts_left_out(ended.artifacts_left_out() + static_cast<uint64_t>(ended.artifact_size()));
  ended.clear_artifact();
}

// What decides nothing: how far the rank is, and where its checkpoints are, stays.
void LeaveOutText(JobProgress& progress) {
  progress.clear_metric();
  progress.clear_phase();
  progress.clear_program();
  progress.clear_layer_times();
  progress.clear_trace();
}

std::string FitHello(const WorkerMessage& message, WorkerHello& hello, size_t limit) {
  const auto each = [&hello](const std::function<void(RankReport&)>& change) {
    return [&hello, change] {
      for (AttemptReport& attempt : *hello.mutable_attempt()) {
        for (RankReport& rank : *attempt.mutable_rank()) change(rank);
      }
    };
  };
  return LeaveOut(message, limit,
                  {{"the ranks' lanes", each([](RankReport& rank) { rank.clear_transport(); })},
                   {"their metrics", each([](RankReport& rank) {
                      if (rank.has_progress()) LeaveOutText(*rank.mutable_progress());
                    })},
                   {"the names of their files", each([](RankReport& rank) {
                      if (rank.has_ended()) LeaveOutArtifacts(*rank.mutable_ended());
                    })},
                   {"the addresses that their peers have", each([](RankReport& rank) {
                      if (rank.connected() || rank.has_ended()) rank.clear_transport_address();
                    })},
                   {"parts of their errors", each([](RankReport& rank) {
                      if (!rank.has_ended()) return;
                      rank.mutable_ended()->set_error(PrintableText(rank.ended().error(), kShortError));
                    })}});
}

std::string FitHeartbeat(const WorkerMessage& message, Heartbeat& heartbeat, size_t limit) {
  const auto each = [&heartbeat](const std::function<void(RankPulse&)>& change) {
    return [&heartbeat, change] {
      for (AttemptPulse& attempt : *heartbeat.mutable_attempt()) {
        for (RankPulse& rank : *attempt.mutable_rank()) change(rank);
      }
    };
  };
  return LeaveOut(message, limit,
                  {{"the operators that ranks wait in", each([](RankPulse& rank) { rank.clear_operator_(); })},
                   {"the ranks' phases", each([](RankPulse& rank) { rank.clear_phase(); })},
                   {"pulses", [&heartbeat] { heartbeat.clear_attempt(); }}});
}

}  // namespace

void FitParts(Message* message, bool spec_too) {
  if (!spec_too && IsOfSpec(*message)) return;
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING) FitStrings(message, field);
    if (field->type() == FieldDescriptor::TYPE_BYTES) FitAddress(message, field);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      FitParts(reflection.MutableMessage(message, field), spec_too);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      FitParts(reflection.MutableRepeatedMessage(message, field, i), spec_too);
    }
  }
  FitList(message);
}

std::string Fit(WorkerMessage* message, size_t limit) {
  FitParts(message);
  switch (message->kind_case()) {
    case WorkerMessage::kHello: return FitHello(*message, *message->mutable_hello(), limit);
    case WorkerMessage::kHeartbeat: return FitHeartbeat(*message, *message->mutable_heartbeat(), limit);
    case WorkerMessage::kProbeResult: {
      ProbeResult& result = *message->mutable_probe_result();
      return LeaveOut(*message, limit, {{"the sizes of the data sets", [&result] {
                                           result.clear_dataset();
                                           result.set_error("the sizes of so many data sets fit no message");
                                         }}});
    }
    default: return "";  // what FitParts leaves of one rank is small
  }
}

std::string Fit(RankMessage* message, size_t limit) {
  FitParts(message);
  if (!message->has_result()) return "";
  return LeaveOut(*message, limit,
                  {{"the names of files", [message] { LeaveOutArtifacts(*message->mutable_result()); }}});
}

std::string Fit(DescribeJobResponse* message, size_t limit) {
  FitParts(message);
  const auto each = [message](const std::function<void(RankStatus&)>& change) {
    return [message, change] {
      for (RankStatus& rank : *message->mutable_rank()) change(rank);
    };
  };
  return LeaveOut(*message, limit,
                  {{"the ranks' lanes", each([](RankStatus& rank) { rank.set_transport(kLeftOut); })},
                   {"their metrics", each([](RankStatus& rank) { LeaveOutText(*rank.mutable_progress()); })},
                   {"the names of files", [message] { LeaveOutArtifacts(*message); }},
                   {"ranks", [message, limit] {
                      // A name of a worker in each takes most of the room: the first ranks stay.
                      const size_t each_bytes = message->ByteSizeLong() / std::max(1, message->rank_size()) + 1;
                      const int kept = std::min(message->rank_size(), static_cast<int>(limit / 2 / each_bytes));
                      const int left_out = message->rank_size() - kept;
                      message->mutable_rank()->DeleteSubrange(kept, left_out);
                      RankStatus& rest = *message->add_rank();
                      rest.set_rank(static_cast<uint32_t>(kept));
                      rest.set_worker(absl::StrCat("(", left_out, " more ranks, left out)"));
                    }}});
}

void Fit(CoordinatorMessage* message) { FitParts(message, /*spec_too=*/false); }

}  // namespace adjoin
