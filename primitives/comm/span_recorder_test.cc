#include "primitives/comm/span_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

Buffer BufferOf(std::vector<float>& values) {
  Buffer buffer;
  buffer.data = values.data();
  buffer.bytes = values.size() * sizeof(float);
  return buffer;
}

TEST(SpanRecorderTest, NestsAndCountsWhatHasNoRoom) {
  int64_t now = 0;
  SpanRecorder recorder([&now] { return ++now; });
  recorder.End(recorder.Begin({}));  // before the start: nothing
  recorder.Start(3);
  const SpanRecorder::Open open = recorder.Begin({.kind = SpanKind::kSend, .peer = 1});
  {
    const SpanScope step(&recorder, {.kind = SpanKind::kStep, .index = 7});
    const SpanScope wait(&recorder, {.kind = SpanKind::kWait});
    const SpanScope no_room(&recorder, {.kind = SpanKind::kWait});
  }
  const SpanScope without(nullptr, {});
  const SpanRecorder::Recorded recorded = recorder.Stop();
  ASSERT_EQ(recorded.spans.size(), 3u);
  EXPECT_EQ(recorded.dropped, 1u);
  const Span &send = recorded.spans[0], &step = recorded.spans[1], &wait = recorded.spans[2];
  EXPECT_EQ(step.index, 7);
  EXPECT_LT(step.begin, wait.begin);
  EXPECT_LT(wait.end, step.end);
  EXPECT_GT(send.end, step.end) << "it was open";

  recorder.Start(3);
  const SpanRecorder::Open newer = recorder.Begin({});
  recorder.End(open);  // of the recording before
  const int64_t before = now;
  recorder.End(newer);
  EXPECT_EQ(recorder.Stop().spans[0].end, before + 1);
  recorder.End(newer);
}

// Through shared memory, which a node's ranks use from an operator's fourth execution on, and by the transport.
class RecordedMessagesTest : public testing::TestWithParam<TransportKind> {};

TEST_P(RecordedMessagesTest, EveryMessageIsRecordedAtBothEnds) {
  constexpr int kRanks = 3;
  constexpr int64_t kExecutions = 6;
  const Layout all = *Layout::Replicated({1000}, DType::kFloat32, {0, 1, 2});
  const Distribution from = Distribution::Of(*all.Dual()), to = Distribution::Of(all);
  std::vector<SpanRecorder::Recorded> recorded(kRanks);
  const absl::Status ran = RunRanks(kRanks, GetParam(), 5, [&](Transport& transport) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    SpanRecorder recorder;
    recorder.Start(1000);
    absl::StatusOr<MovementPlan> plan = MovementPlan::Build(from, to, transport.rank());
    if (!plan.ok()) return plan.status();
    std::vector<float> x(1000, 1), y(1000, 0);
    for (int64_t generation = 0; generation <= kExecutions; ++generation) {
      communicator.set_recorder(generation < kExecutions ? &recorder : nullptr);
      const absl::Status status = communicator.Execute({.op = 5, .name = "sum"}, *plan, BufferOf(x), BufferOf(y));
      if (!status.ok()) return status;
      std::fill(y.begin(), y.end(), 0.0f);
    }
    EXPECT_EQ(communicator.OperatorName(5), "sum");
    recorded[static_cast<size_t>(transport.rank())] = recorder.Stop();
    return absl::OkStatus();
  });
  ASSERT_EQ(ran, absl::OkStatus());
  std::vector<int> sends(kExecutions);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<Span>& spans = recorded[static_cast<size_t>(rank)].spans;
    ASSERT_FALSE(spans.empty());
    EXPECT_EQ(spans[0].kind, SpanKind::kMovement);
    for (const Span& span : spans) {
      EXPECT_EQ(span.index, 5);
      EXPECT_LE(span.begin, span.end);
      if (span.kind != SpanKind::kSend) continue;
      ++sends.at(static_cast<size_t>(span.generation));
      int received = 0;
      for (const Span& there : recorded[static_cast<size_t>(span.peer)].spans) {
        if (there.kind == SpanKind::kReceive && there.peer == rank && there.slot == span.slot &&
            there.bytes == span.bytes && there.generation == span.generation) {
          ++received;
          EXPECT_LE(span.begin, there.end) << "it was received before it was sent";
        }
      }
      EXPECT_EQ(received, 1) << "rank " << rank << " to " << span.peer << ", execution " << span.generation;
    }
  }
  EXPECT_GT(sends[0], 0);
  for (const int of_one : sends) EXPECT_EQ(of_one, sends[0]) << "each execution sends as many";
}

INSTANTIATE_TEST_SUITE_P(Transports, RecordedMessagesTest,
                         testing::Values(TransportKind::kInMemoryDelayed, TransportKind::kUcxSharedMemory,
                                         TransportKind::kUcxTcp));

}  // namespace
}  // namespace adjoin
