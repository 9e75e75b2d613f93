// What a rank's spans say about its step: what it works, and what it waits for. All by hand.
#include "worker/trace/step_ops.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "primitives/comm/span_recorder.h"
#include "worker/trace/clock_alignment.h"
#include "worker/trace/slow_parts.h"
#include "worker/trace/step_replay.h"

namespace adjoin {
namespace {

constexpr int64_t kMs = 1000000;

int64_t At(int64_t ms) { return 1000 * kMs + ms * kMs; }

// In milliseconds; moments after At(0).
std::string TextOf(const RecordedStep& step) {
  std::string text;
  for (const StepOp& op : step.ops) {
    const int64_t at = op.ns / kMs - 1000;
    switch (op.kind) {
      case StepOp::Kind::kWork: absl::StrAppend(&text, "work ", op.part, " ", op.ns / kMs); break;
      case StepOp::Kind::kSend: absl::StrAppend(&text, "send ", op.bytes, " at ", at); break;
      case StepOp::Kind::kReady: absl::StrAppend(&text, "ready for ", op.bytes, " at ", at); break;
      case StepOp::Kind::kReceive: absl::StrAppend(&text, "receive ", op.bytes, " at ", at); break;
      case StepOp::Kind::kAwaitReady:
      case StepOp::Kind::kAwaitTaken: absl::StrAppend(&text, "await ", at); break;
    }
    absl::StrAppend(&text, op.waited > 0 ? absl::StrCat(" waited ", op.waited / kMs) : "", ", ");
  }
  return text;
}

// What a rank recorded: it reads for 1, computes a layer for 4, of which it waits 2 for rank 1, then 3 after the step's
// layers.
TEST(StepOpsTest, TimeIsWorkOrWaiting) {
  const std::vector<Span> spans = {
      {.kind = SpanKind::kWait, .peer = 1, .begin = At(-5), .end = At(-4)},  // before the step
      {.kind = SpanKind::kStep, .index = 7, .begin = At(0), .end = At(9)},
      {.kind = SpanKind::kData, .begin = At(0), .end = At(1)},
      {.kind = SpanKind::kForward, .index = 3, .begin = At(1), .end = At(5)},
      {.kind = SpanKind::kMovement, .index = 9, .begin = At(1), .end = At(4)},
      {.kind = SpanKind::kReceive, .index = 9, .peer = 1, .bytes = 64, .begin = At(1), .end = At(4)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 32, .begin = At(2), .end = At(3)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(2), .end = At(4)},
      {.kind = SpanKind::kWait, .peer = 1, .begin = At(6), .end = At(8)},  // for no message
  };
  const RecordedStep step = StepOf(spans, /*rank=*/0, ClockAlignment());
  EXPECT_EQ(step.begin, At(0));
  EXPECT_EQ(step.end, At(9));
  EXPECT_EQ(TextOf(step),
            "work -1 1, ready for 64 at 1, work 6 1, send 32 at 2, receive 64 at 4 waited 2, work 6 1, work -2 1, "
            "work -2 2, work -2 1, ");
  EXPECT_TRUE(StepOf({}, 0, ClockAlignment()).ops.empty());
}

// A message may be sent once the receiver has taken in the one before the one before; a rank that waits for that packs
// what it sends after the wait, or not. The first wait, of which no message tells anything, stays work.
TEST(StepOpsTest, AWaitBeforeASendIsForRoom) {
  const std::vector<Span> spans = {
      {.kind = SpanKind::kStep, .index = 7, .begin = At(0), .end = At(9)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(0), .end = At(1)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 10, .generation = 4, .begin = At(1), .end = At(1)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 11, .generation = 5, .begin = At(1), .end = At(1)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(2), .end = At(4)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 12, .generation = 6, .begin = At(4), .end = At(4)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(5), .end = At(6)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 13, .generation = 7, .begin = At(8), .end = At(8)},
  };
  const RecordedStep step = StepOf(spans, /*rank=*/0, ClockAlignment());
  EXPECT_EQ(TextOf(step),
            "work -2 1, send 10 at 1, send 11 at 1, work -2 1, await 4 waited 2, send 12 at 4, work -2 1, "
            "await 6 waited 1, work -2 2, send 13 at 8, work -2 1, ");
  ASSERT_EQ(step.ops.size(), 11u);
  EXPECT_EQ(step.ops[4].kind, StepOp::Kind::kAwaitTaken);
  EXPECT_EQ(step.ops[4].flow, step.ops[1].flow) << "generation 4";
  EXPECT_EQ(step.ops[7].kind, StepOp::Kind::kAwaitTaken);
  EXPECT_EQ(step.ops[7].flow, step.ops[2].flow) << "generation 5";
}

// The rank waits from 1 to 4 for a message, which it takes in a little later, and before that makes room for another
// one. That it does after the wait.
TEST(StepOpsTest, WhatARankIsReadyForAfterAWaitStandsAfterIt) {
  const int64_t us = 1000;
  const std::vector<Span> spans = {
      {.kind = SpanKind::kStep, .index = 7, .begin = At(0), .end = At(9)},
      {.kind = SpanKind::kReceive, .index = 9, .peer = 1, .bytes = 64, .begin = At(0), .end = At(4) + 20 * us},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(1), .end = At(4)},
      {.kind = SpanKind::kReceive, .index = 8, .peer = 2, .bytes = 32, .begin = At(4) + 10 * us, .end = At(7)},
      {.kind = SpanKind::kWait, .index = 8, .peer = 2, .begin = At(6), .end = At(7)},
  };
  EXPECT_EQ(TextOf(StepOf(spans, /*rank=*/0, ClockAlignment())),
            "ready for 64 at 0, work -2 1, receive 64 at 4 waited 3, ready for 32 at 4, work -2 1, "
            "receive 32 at 7 waited 1, work -2 2, ");
}

// Rank 0 computes for 1, sends, and waits until that is over, then computes for 3. Rank 1 computes for 4 before it is
// ready; moving takes 1: until 5, and 8 in all. If rank 1 computed for 2, the message would be over at 3, and all at 6.
TEST(StepOpsTest, AWaitUntilAMessageIsOverIsForItsReceiver) {
  const std::vector<Span> sender = {
      {.kind = SpanKind::kStep, .index = 1, .begin = At(0), .end = At(8)},
      {.kind = SpanKind::kForward, .index = 0, .begin = At(0), .end = At(1)},
      {.kind = SpanKind::kSend, .index = 9, .peer = 1, .bytes = 8, .begin = At(1), .end = At(5)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 1, .begin = At(1), .end = At(5)},
      {.kind = SpanKind::kForward, .index = 0, .begin = At(5), .end = At(8)},
  };
  const std::vector<Span> receiver = {
      {.kind = SpanKind::kStep, .index = 1, .begin = At(0), .end = At(5)},
      {.kind = SpanKind::kForward, .index = 1, .begin = At(0), .end = At(4)},
      {.kind = SpanKind::kReceive, .index = 9, .peer = 0, .bytes = 8, .begin = At(4), .end = At(5)},
      {.kind = SpanKind::kWait, .index = 9, .peer = 0, .begin = At(4), .end = At(5)},
  };
  const std::vector<RecordedStep> steps = {StepOf(sender, 0, ClockAlignment()), StepOf(receiver, 1, ClockAlignment())};
  EXPECT_EQ(TextOf(steps[0]), "work 0 1, send 8 at 1, await 5 waited 4, work 0 3, ");
  EXPECT_EQ(TextOf(steps[1]), "work 2 4, ready for 8 at 4, receive 8 at 5 waited 1, ");
  const StepGraph graph(steps);
  EXPECT_NEAR(graph.Replay(), 0.008, 1e-12);
  EXPECT_NEAR(graph.Replay({.work = {{}, {0.002, 0, 0}}}), 0.006, 1e-12);
}

// Rank 0 is the first stage of a pipeline: 1 for each of five micro-batches. Ranks 1 and 2 are the second: rank 1 takes
// 2 for each, and rank 2 takes 6. Messages take no time, and may be sent once both have taken in the one before the one
// before.
//
//   micro-batch       0      1      2      3      4
//   rank 0 computes   0-1    1-2    2-3    3-4    7-8
//   and sends at      1      2      3      7      13     it waits 4-7 and 8-13
//   rank 1 computes   1-3    3-5    5-7    7-9    13-15  it waits 0-1 and 9-13
//   rank 2 computes   1-7    7-13   13-19  19-25  25-31  it waits 0-1
//
// If rank 2 took 2 as well, rank 0 would send at 1, 2, 3, 4 and 5, and the last would end at 1 + 5 * 2 = 11: rank 2
// costs 20. What rank 0 waits for is not its own: with 3 and 5 as its work the last would end at 13 + 2.
TEST(StepOpsTest, ASlowLaterStageCostsWhatTheEarlierOnesWaitForIt) {
  const std::vector<int64_t> sends = {1, 2, 3, 7, 13};
  const std::vector<int64_t> computes[] = {{0, 1, 2, 3, 7}, {1, 3, 5, 7, 13}, {1, 7, 13, 19, 25}};
  const int64_t takes[] = {1, 2, 6};
  std::vector<std::vector<Span>> spans;
  for (const int64_t end : {13, 15, 31}) {
    spans.push_back({Span{.kind = SpanKind::kStep, .index = 1, .begin = At(0), .end = At(end)}});
  }
  const auto waits = [&spans](int rank, int peer, int64_t from, int64_t to) {
    spans[static_cast<size_t>(rank)].push_back(
        {.kind = SpanKind::kWait, .index = 9, .peer = peer, .begin = At(from), .end = At(to)});
  };
  for (size_t batch = 0; batch < sends.size(); ++batch) {
    for (size_t rank = 0; rank < 3; ++rank) {
      const int64_t begin = computes[rank][batch];
      spans[rank].push_back(
          {.kind = SpanKind::kForward, .index = rank == 0 ? 0 : 1, .begin = At(begin), .end = At(begin + takes[rank])});
      if (rank == 0) continue;
      const int64_t asks = batch == 0 ? 0 : computes[rank][batch - 1] + takes[rank];
      spans[rank].push_back({.kind = SpanKind::kReceive,
                             .index = 9,
                             .peer = 0,
                             .bytes = 1000,
                             .generation = static_cast<int64_t>(batch),
                             .begin = At(asks),
                             .end = At(begin)});
      if (asks < begin) waits(static_cast<int>(rank), 0, asks, begin);
      spans[0].push_back({.kind = SpanKind::kSend,
                          .index = 9,
                          .peer = static_cast<int32_t>(rank),
                          .bytes = 1000,
                          .generation = static_cast<int64_t>(batch),
                          .begin = At(sends[batch]),
                          .end = At(sends[batch])});
    }
  }
  waits(0, 2, 4, 7);
  waits(0, 2, 8, 13);
  std::vector<RecordedStep> steps;
  for (int rank = 0; rank < 3; ++rank)
    steps.push_back(StepOf(spans[static_cast<size_t>(rank)], rank, ClockAlignment()));
  EXPECT_NEAR(StepGraph(steps).Replay(), 0.031, 1e-12);
  const SlowParts found = FindSlowParts(steps, [](int, int) { return 1.0; });
  ASSERT_EQ(found.parts.size(), 1u);
  EXPECT_EQ(found.parts[0].kind, SlowPartFound::Kind::kCompute);
  EXPECT_EQ(found.parts[0].rank, 2);
  EXPECT_EQ(found.parts[0].layer, 1);
  EXPECT_NEAR(found.parts[0].cost, 0.020, 1e-9);
  EXPECT_NEAR(found.parts[0].seconds, 0.030, 1e-9);
  EXPECT_NEAR(found.parts[0].median, 0.010, 1e-9);
}

}  // namespace
}  // namespace adjoin
