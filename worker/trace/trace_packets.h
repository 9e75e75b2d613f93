// What one rank has recorded, as packets of a Perfetto trace (proto/perfetto_trace.proto).
//
//   ADJOIN_RETURN_IF_ERROR(WriteTracePackets({.rank = 2, .recorded = &recorded, ...}, [&](absl::string_view packets) {
//     return file.Write(packets);
//   }));
//
// Packets of all ranks, one after another in any order, are a Trace message. A rank is a process there. Its thread
// "steps" has what it did, nested: steps, layers, calls of movements, waits. Messages are on tracks of their own, since
// several are under way at once. Both ends of a message have the same flow id.
#ifndef ADJOIN_WORKER_TRACE_TRACE_PACKETS_H_
#define ADJOIN_WORKER_TRACE_TRACE_PACKETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "primitives/comm/span_recorder.h"
#include "worker/trace/clock_alignment.h"

namespace adjoin {

struct TracedRank {
  int rank = 0;
  const SpanRecorder::Recorded* recorded = nullptr;
  std::vector<std::string> layers;                    // by index
  std::function<std::string(int64_t)> operator_name;  // may be empty
  ClockAlignment clock;
  std::string about = {};  // what the file is, for people; on one rank
};

// `sink` gets the packets in parts of at most about 64 KiB. Errors: the sink's, at once.
absl::Status WriteTracePackets(const TracedRank& rank, const std::function<absl::Status(absl::string_view)>& sink);

// Names a message alike at both ends: `nth` of those that have the same tag and ends.
uint64_t FlowIdOf(const Span& message, int rank, int64_t nth);

// Which one of its tag and ends each message is, by its index in `spans`; 0 for other spans.
std::vector<int64_t> NumbersOfMessages(const std::vector<Span>& spans);

// Whether a span is a message: all others nest.
inline bool IsMessage(const Span& span) { return span.kind == SpanKind::kSend || span.kind == SpanKind::kReceive; }

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_TRACE_PACKETS_H_
