#include "worker/trace/step_trace.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "absl/strings/string_view.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "worker/trace/trace_packets.h"

namespace adjoin {
namespace {

// Before each part that a rank sends: its bytes; 0 after the last one.
struct Head {
  uint64_t bytes = 0;
};
// After the last one.
struct Tail {
  uint64_t dropped = 0;
  int64_t clock_error = 0;
};
// More than WriteTracePackets gives at once.
constexpr uint64_t kMostPartBytes = uint64_t{16} << 20;

}  // namespace

absl::Status StepTrace::Begin() {
  ADJOIN_ASSIGN_OR_RETURN(before_, ReadClocks(messages_, options_.clock));
  options_.recorder->Start(options_.most_spans > 0 ? options_.most_spans : SpansOf(messages_.size()));
  options_.communicator->set_recorder(options_.recorder);
  return absl::OkStatus();
}

absl::StatusOr<StepTrace::Written> StepTrace::Write(const absl::StatusOr<std::string>& path, const std::string& about) {
  Stop();
  recorded_ = options_.recorder->Stop();
  ADJOIN_ASSIGN_OR_RETURN(const ClockReading after, ReadClocks(messages_, options_.clock));
  if (messages_.rank() == 0) return Gather(path, about, after);
  ADJOIN_RETURN_IF_ERROR(SendTo0(after));
  return Written();
}

absl::Status StepTrace::SendTo0(const ClockReading& after) {
  const ClockAlignment clock(before_, after);
  ADJOIN_RETURN_IF_ERROR(
      WriteTracePackets({.rank = messages_.rank(),
                         .recorded = &recorded_,
                         .layers = options_.layers,
                         .operator_name = [this](int64_t op) { return options_.communicator->OperatorName(op); },
                         .clock = clock},
                        [this](absl::string_view part) -> absl::Status {
                          const Head head{part.size()};
                          ADJOIN_RETURN_IF_ERROR(messages_.Send(0, &head, sizeof(head)));
                          return messages_.Send(0, part.data(), part.size());
                        }));
  const Head end;
  ADJOIN_RETURN_IF_ERROR(messages_.Send(0, &end, sizeof(end)));
  const Tail tail{recorded_.dropped, clock.error()};
  return messages_.Send(0, &tail, sizeof(tail));
}

absl::StatusOr<StepTrace::Written> StepTrace::Gather(const absl::StatusOr<std::string>& path, const std::string& about,
                                                     const ClockReading& after) {
  Written written;
  written.dropped = recorded_.dropped;
  written.status = path.status();
  std::optional<NewFile> file;
  if (path.ok()) {
    absl::StatusOr<NewFile> begun = NewFile::Begin(*path, NewFile::Over::kRegularFile);
    written.status = begun.status();
    if (begun.ok()) file.emplace(*std::move(begun));
  }
  // After the first error the ranks' parts are taken and dropped: they need not know.
  const auto write = [&](absl::string_view part) {
    if (file.has_value() && written.status.ok()) written.status = file->Write(part);
    if (written.status.ok()) written.bytes += static_cast<int64_t>(part.size());
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(
      WriteTracePackets({.rank = 0,
                         .recorded = &recorded_,
                         .layers = options_.layers,
                         .operator_name = [this](int64_t op) { return options_.communicator->OperatorName(op); },
                         .clock = ClockAlignment(before_, after),
                         .about = about},
                        write));
  recorded_ = {};
  std::string part;
  for (int rank = 1; rank < messages_.size(); ++rank) {
    while (true) {
      Head head;
      ADJOIN_RETURN_IF_ERROR(messages_.Recv(rank, &head, sizeof(head)));
      if (head.bytes == 0) break;
      if (head.bytes > kMostPartBytes) return absl::InternalError("a part of a trace is too long");
      part.resize(head.bytes);
      ADJOIN_RETURN_IF_ERROR(messages_.Recv(rank, part.data(), part.size()));
      ADJOIN_RETURN_IF_ERROR(write(part));
    }
    Tail tail;
    ADJOIN_RETURN_IF_ERROR(messages_.Recv(rank, &tail, sizeof(tail)));
    written.dropped += tail.dropped;
    // The times of two ranks differ by twice the largest error, unless one of them is rank 0.
    written.clock_error_ns = std::max(written.clock_error_ns, tail.clock_error * (messages_.size() > 2 ? 2 : 1));
  }
  if (file.has_value() && written.status.ok()) written.status = file->Finish();
  if (!written.status.ok()) written.bytes = 0;
  return written;
}

}  // namespace adjoin
