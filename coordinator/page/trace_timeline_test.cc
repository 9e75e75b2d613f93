// What the page shows of traces: steps, ranks and messages that are chosen, its limits, and files that are no traces.
// tests/page:page_data_test compares it with what a trace of real ranks has.
#include "coordinator/page/trace_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "proto/perfetto_trace.pb.h"

namespace adjoin {
namespace {

using perfetto::protos::Trace;
using perfetto::protos::TracePacket;
using perfetto::protos::TrackEvent;
using Json = nlohmann::json;

// Packets of one rank, as ranks write them: names with their first use.
class RankPackets {
 public:
  explicit RankPackets(int rank) : rank_(rank) {
    TracePacket& first = New();
    first.set_sequence_flags(TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    int iid = 0;
    for (const char* name : {"step", "layer", "movement", "wait", "message", "file"}) {
      auto& category = *first.mutable_interned_data()->add_event_categories();
      category.set_iid(++iid);
      category.set_name(name);
    }
    iid = 0;
    for (const char* name : {"bytes", "clock error ns", "spans left out"}) {
      auto& annotation = *first.mutable_interned_data()->add_debug_annotation_names();
      annotation.set_iid(++iid);
      annotation.set_name(name);
    }
    TracePacket& steps = New();
    steps.mutable_track_descriptor()->set_uuid(Track(1));
    steps.mutable_track_descriptor()->mutable_thread()->set_thread_name("steps");
    for (const int track : {2, 3}) {
      TracePacket& messages = New();
      messages.mutable_track_descriptor()->set_uuid(Track(track));
      messages.mutable_track_descriptor()->set_name(track == 2 ? "sends" : "receives");
    }
    TracePacket& clock = New();
    clock.mutable_track_event()->set_type(TrackEvent::TYPE_INSTANT);
    clock.mutable_track_event()->set_track_uuid(Track(1));
    auto& error = *clock.mutable_track_event()->add_debug_annotations();
    error.set_name_iid(2);
    error.set_int_value(100 * rank);
    auto& dropped = *clock.mutable_track_event()->add_debug_annotations();
    dropped.set_name_iid(3);
    dropped.set_uint_value(7);
  }
  // `category`: from 1, in the order above.
  TrackEvent& Begin(int64_t at, int category, const std::string& name, int track = 1) {
    TracePacket& packet = New();
    packet.set_timestamp(static_cast<uint64_t>(at));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(TrackEvent::TYPE_SLICE_BEGIN);
    event.set_track_uuid(Track(track));
    event.add_category_iids(static_cast<uint64_t>(category));
    event.set_name_iid(++names_);
    auto& defined = *packet.mutable_interned_data()->add_event_names();
    defined.set_iid(names_);
    defined.set_name(name);
    return event;
  }
  TrackEvent& End(int64_t at, int track = 1) {
    TracePacket& packet = New();
    packet.set_timestamp(static_cast<uint64_t>(at));
    TrackEvent& event = *packet.mutable_track_event();
    event.set_type(TrackEvent::TYPE_SLICE_END);
    event.set_track_uuid(Track(track));
    return event;
  }
  void Send(int64_t at, uint64_t flow, int64_t bytes) {
    TrackEvent& event = Begin(at, 5, "conv1.x to rank 1", 2);
    event.add_flow_ids(flow);
    auto& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(1);
    annotation.set_int_value(bytes);
    End(at + 1, 2);
  }
  void Receive(int64_t at, uint64_t flow) {
    Begin(at - 1, 5, "conv1.x from rank 0", 3);
    End(at, 3).add_terminating_flow_ids(flow);
  }
  std::string Bytes() const { return trace_.SerializeAsString(); }

 private:
  uint64_t Track(int number) const { return static_cast<uint64_t>(rank_ + 1) << 32 | static_cast<uint64_t>(number); }
  TracePacket& New() {
    TracePacket& packet = *trace_.add_packet();
    packet.set_trusted_packet_sequence_id(static_cast<uint32_t>(rank_) + 1);
    return packet;
  }
  const int rank_;
  uint64_t names_ = 0;
  Trace trace_;
};

// Two steps on three ranks: each waits in the second one, and rank 0 sends rank 1 a message in both.
std::string ThreeRanks() {
  std::string bytes;
  for (int rank = 0; rank < 3; ++rank) {
    RankPackets packets(rank);
    for (int step = 1; step <= 2; ++step) {
      const int64_t begin = step * 1000 + rank;
      packets.Begin(begin, 1, absl::StrCat("step ", step));
      packets.Begin(begin + 10, 2, "conv1 forward");
      if (step == 2) packets.Begin(begin + 20, 4, "waits for rank 1");
      if (step == 2) packets.End(begin + 30);
      packets.End(begin + 100);
      packets.End(begin + 200);
    }
    for (uint64_t step = 1; step <= 2; ++step) {
      const auto at = static_cast<int64_t>(step * 1000);
      if (rank == 0) packets.Send(at + 50, 90 + step, 4096);
      if (rank == 1) packets.Receive(at + 60, 90 + step);
    }
    bytes += packets.Bytes();
  }
  return bytes;
}

Json Of(const std::string& bytes, const TraceTimeline::Wanted& wanted, size_t part = std::string::npos) {
  TraceTimeline timeline(wanted);
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = std::min(part, bytes.size() - at);
    const absl::Status status = timeline.Take(absl::string_view(bytes).substr(at, length));
    EXPECT_TRUE(status.ok()) << status;
    at += length;
  }
  return Json::parse(timeline.Json());
}

TEST(TraceTimelineTest, HasTheStepThatIsWanted) {
  const Json shown = Of(ThreeRanks(), {.step = 2});
  EXPECT_EQ(shown["length_ns"], 202);
  EXPECT_EQ(shown["clock_error_ns"], 400) << "between ranks 1 and 2";
  EXPECT_EQ(shown["events_dropped"], 21);
  ASSERT_EQ(shown["rank"].size(), 3);
  const auto name = [&](int index) { return shown["names"][static_cast<size_t>(index)]; };
  for (int rank = 0; rank < 3; ++rank) {
    const Json& of = shown["rank"][static_cast<size_t>(rank)];
    EXPECT_EQ(of["rank"], rank);
    ASSERT_EQ(of["slice"].size(), 3);
    EXPECT_EQ(of["slice"][0], Json({rank, 200, 0, 0, of["slice"][0][4]}));
    EXPECT_EQ(of["slice"][1], Json({rank + 10, 90, 1, 1, of["slice"][1][4]}));
    EXPECT_EQ(of["slice"][2], Json({rank + 20, 10, 2, 3, of["slice"][2][4]}));
    EXPECT_EQ(name(of["slice"][0][4]), "step 2");
    EXPECT_EQ(name(of["slice"][1][4]), "conv1 forward");
    EXPECT_EQ(name(of["slice"][2][4]), "waits for rank 1");
  }
  ASSERT_EQ(shown["message"].size(), 1);
  EXPECT_EQ(shown["message"][0], Json({0, 1, 50, 60, 4096, shown["message"][0][5]}));
  EXPECT_EQ(name(shown["message"][0][5]), "conv1.x to rank 1");
  EXPECT_TRUE(Of(ThreeRanks(), {.step = 3})["rank"].empty());
}

TEST(TraceTimelineTest, TheSizeOfThePartsMakesNoDifference) {
  const std::string bytes = ThreeRanks();
  const Json whole = Of(bytes, {.step = 2});
  for (const size_t part : {size_t{1}, size_t{7}, size_t{100}}) EXPECT_EQ(Of(bytes, {.step = 2}, part), whole) << part;
}

TEST(TraceTimelineTest, RanksAreChosenAndMessagesNeedBoth) {
  const Json two = Of(ThreeRanks(), {.step = 2, .first_rank = 1, .ranks = 2});
  ASSERT_EQ(two["rank"].size(), 2);
  EXPECT_EQ(two["rank"][0]["rank"], 1);
  EXPECT_EQ(two["rank"][0]["slice"][0][0], 0) << "the first of these ranks begins at 0";
  EXPECT_TRUE(two["message"].empty());
  EXPECT_EQ(two["clock_error_ns"], 400) << "of all ranks";
  EXPECT_EQ(Of(ThreeRanks(), {.step = 2, .first_rank = 0, .ranks = 2})["message"].size(), 1);
}

TEST(TraceTimelineTest, OfTooManySlicesTheLongestStay) {
  constexpr int kSlices = 40000;
  RankPackets packets(0);
  packets.Begin(0, 1, "step 1");
  for (int i = 0; i < kSlices; ++i) {
    packets.Begin(i * 1000, 2, "a");
    packets.End(i * 1000 + 1 + i % 500);
  }
  packets.End(kSlices * 1000);
  const Json shown = Of(packets.Bytes(), {.step = 1});
  ASSERT_EQ(shown["rank"].size(), 1);
  const Json& slices = shown["rank"][0]["slice"];
  EXPECT_EQ(slices.size(), TraceTimeline::kMostSlices);
  EXPECT_EQ(shown["slices_left_out"], kSlices + 1 - TraceTimeline::kMostSlices);
  EXPECT_EQ(slices[0][1], kSlices * 1000) << "the step itself";
  int64_t least = INT64_MAX, last = -1;
  for (const Json& slice : slices) {
    least = std::min<int64_t>(least, slice[1]);
    EXPECT_GE(slice[0], last);
    last = slice[0];
  }
  // 150 of the 500 lengths are 12000 slices, but for the step's place.
  EXPECT_EQ(least, 351);
  EXPECT_EQ(shown["shorter_than_ns"], 351);
}

TEST(TraceTimelineTest, OfTooManyMessagesItSaysSo) {
  RankPackets first(0), second(1);
  for (RankPackets* packets : {&first, &second}) {
    packets->Begin(0, 1, "step 1");
    packets->End(100000);
  }
  for (int i = 0; i < 6000; ++i) {
    first.Send(i, static_cast<uint64_t>(i) + 1, 1);
    second.Receive(i + 2, static_cast<uint64_t>(i) + 1);
  }
  const Json shown = Of(first.Bytes() + second.Bytes(), {.step = 1, .first_rank = 0, .ranks = 2});
  EXPECT_EQ(shown["message"].size(), TraceTimeline::kMostMessages);
  EXPECT_EQ(shown["messages_left_out"], 6000 - TraceTimeline::kMostMessages);
}

// What a rank has sent leaves room for what it gets.
TEST(TraceTimelineTest, MessagesInBothDirections) {
  for (const int count : {1500, 3000}) {
    RankPackets first(0), second(1);
    for (RankPackets* packets : {&first, &second}) {
      packets->Begin(0, 1, "step 1");
      packets->End(100000);
    }
    for (int i = 0; i < count; ++i) {
      first.Send(i, static_cast<uint64_t>(i) + 1, 1);
      second.Send(i, static_cast<uint64_t>(i) + 100000, 1);
    }
    for (int i = 0; i < count; ++i) {
      second.Receive(i + 2, static_cast<uint64_t>(i) + 1);
      first.Receive(i + 2, static_cast<uint64_t>(i) + 100000);
    }
    const Json shown = Of(first.Bytes() + second.Bytes(), {.step = 1, .first_rank = 0, .ranks = 2});
    const size_t most = TraceTimeline::kMostMessages, all = static_cast<size_t>(count) * 2;
    EXPECT_EQ(shown["message"].size(), std::min(most, all));
    EXPECT_EQ(shown["messages_left_out"], all - std::min(most, all));
  }
}

// Names of all ranks together have the limit: each of them would be below it.
TEST(TraceTimelineTest, TooManyNamesAreRefused) {
  TraceTimeline timeline({.step = 1, .first_rank = 0, .ranks = TraceTimeline::kMostRanks});
  constexpr int kNames = static_cast<int>(TraceTimeline::kMostNames) / TraceTimeline::kMostRanks;
  const auto take = [&](int rank, int count) {
    RankPackets packets(rank);
    for (int i = 0; i < count; ++i) {
      packets.Begin(2 * i, 2, absl::StrCat("name ", i));
      packets.End(2 * i + 1);
    }
    return timeline.Take(packets.Bytes());
  };
  for (int rank = 0; rank + 1 < TraceTimeline::kMostRanks; ++rank) ASSERT_TRUE(take(rank, kNames).ok());
  ASSERT_TRUE(take(TraceTimeline::kMostRanks, 2 * kNames).ok());  // is not wanted, so it does not count
  EXPECT_EQ(take(TraceTimeline::kMostRanks - 1, 2 * kNames).code(), absl::StatusCode::kDataLoss);
}

TEST(TraceTimelineTest, NamesAreText) {
  RankPackets packets(0);
  packets.Begin(0, 1, "step 1");
  packets.Begin(1, 2, std::string("\"</script>\n\x01\0", 14) + std::string(10000, 'x'));
  packets.End(2);
  packets.End(3);
  const Json shown = Of(packets.Bytes(), {.step = 1});
  for (const Json& name : shown["names"]) {
    EXPECT_LE(name.get<std::string>().size(), 400);
    EXPECT_EQ(name.get<std::string>().find('\n'), std::string::npos);
  }
}

TEST(TraceTimelineTest, WhatIsNoTraceIsRefused) {
  const auto status_of = [](const std::string& bytes) { return TraceTimeline({.step = 1}).Take(bytes); };
  const std::string good = ThreeRanks();
  EXPECT_EQ(status_of("#!/bin/sh").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of(std::string("\x0a\x02\xff\xff", 4)).code(), absl::StatusCode::kDataLoss);
  RankPackets unbalanced(0);
  unbalanced.End(5);
  EXPECT_EQ(status_of(unbalanced.Bytes()).code(), absl::StatusCode::kDataLoss);
  RankPackets deep(0);
  for (int i = 0; i < 100; ++i) deep.Begin(i, 2, "a");
  EXPECT_EQ(status_of(deep.Bytes()).code(), absl::StatusCode::kDataLoss);
  RankPackets backwards(0);
  backwards.Begin(10, 1, "step 1");
  backwards.End(5);
  EXPECT_EQ(status_of(backwards.Bytes()).code(), absl::StatusCode::kDataLoss);
  // One that is cut off shows what there is.
  const Json cut = Of(good.substr(0, good.size() / 2), {.step = 1});
  EXPECT_GE(cut["rank"].size(), 1);
}

}  // namespace
}  // namespace adjoin
