#include "worker/trace/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/perfetto_trace.pb.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kElements = 100000;  // more than one message

std::string FolderOfTest() {
  std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/traceXXXXXX");
  return mkdtemp(path.data());
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Clocks that are seconds apart and run at different rates, as those of machines that started at different times.
int64_t SkewedNow(int rank) {
  const int64_t now = SpanRecorder::Now();
  return now + rank * 3600000000000 + rank * (now % 1000000000000 / 50000);
}
// The same moment on rank 0's clock.
int64_t Unskewed(int rank, int64_t there) {
  // Bisection: the clock only grows.
  int64_t low = 0, high = SpanRecorder::Now() + 1000000000;
  while (low < high) {
    const int64_t now = low + (high - low) / 2;
    if (now + rank * 3600000000000 + rank * (now % 1000000000000 / 50000) < there) {
      low = now + 1;
    } else {
      high = now;
    }
  }
  return low;
}

struct TracedRun {
  std::vector<StepTrace::Written> written = std::vector<StepTrace::Written>(kRanks);
  std::vector<float> result;  // rank 0's
  absl::Status status;
};

// Two steps with a halo-like message to the next rank and a sum over all.
TracedRun RunTraced(const absl::StatusOr<std::string>& path, bool trace, std::size_t most_spans = 0,
                    bool skewed = true) {
  TracedRun run;
  const Layout all = *Layout::Replicated({kElements}, DType::kFloat32, {0, 1, 2});
  const Distribution partial = Distribution::Of(*all.Dual()), whole = Distribution::Of(all);
  const Distribution first = Distribution::Of(Layout::Owner({kElements}, DType::kFloat32, 0));
  const Distribution last = Distribution::Of(Layout::Owner({kElements}, DType::kFloat32, 2));
  run.status = RunRanks(kRanks, TransportKind::kInMemoryDelayed, 7, [&](Transport& transport) -> absl::Status {
    const int rank = transport.rank();
    HostMemory memory;
    Communicator communicator(&transport, &memory, {});
    const std::function<int64_t()> now = [rank, skewed] { return skewed ? SkewedNow(rank) : SpanRecorder::Now(); };
    SpanRecorder recorder(now);
    StepTrace steps({.communicator = &communicator,
                     .recorder = &recorder,
                     .layers = {"conv1"},
                     .timeout = absl::Seconds(30),
                     .clock = {now, skewed ? 0u : 1u},
                     .most_spans = most_spans});
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan sum, MovementPlan::Build(partial, whole, rank));
    ADJOIN_ASSIGN_OR_RETURN(const MovementPlan move, MovementPlan::Build(first, last, rank));
    if (trace) ADJOIN_RETURN_IF_ERROR(steps.Begin());
    std::vector<float> x(kElements, static_cast<float>(rank) / 3), y(kElements, 0), none;
    const auto buffer = [](std::vector<float>& values) {
      Buffer made;
      made.data = values.data();
      made.bytes = values.size() * sizeof(float);
      return made;
    };
    for (int step = 1; step <= 2; ++step) {
      SpanRecorder* const at = communicator.recorder();
      const SpanScope whole_step(at, {.kind = SpanKind::kStep, .index = step});
      const SpanScope layer(at, {.kind = SpanKind::kForward, .index = 0});
      std::fill(y.begin(), y.end(), 0.0f);
      ADJOIN_RETURN_IF_ERROR(communicator.Execute({.op = 4, .name = "conv1.x"}, move,
                                                  rank == 0 ? buffer(x) : buffer(none),
                                                  rank == 2 ? buffer(y) : buffer(none)));
      std::fill(y.begin(), y.end(), 0.0f);
      ADJOIN_RETURN_IF_ERROR(communicator.Execute({.op = 5, .name = "conv1.weight", .direction = Direction::kAdjoint},
                                                  sum, buffer(x), buffer(y)));
    }
    if (rank == 0) run.result = y;
    if (trace) {
      ADJOIN_ASSIGN_OR_RETURN(run.written[static_cast<size_t>(rank)], steps.Write(path, "job-1, 3 ranks"));
    }
    EXPECT_EQ(communicator.recorder(), nullptr);
    return absl::OkStatus();
  });
  return run;
}

// Typed from the public files, not from those of this folder.
TEST(PerfettoTraceTest, FieldNumbersAreThePublicOnes) {
  const std::map<std::string, int> numbers = {{"Trace.packet", 1},
                                              {"TracePacket.timestamp", 8},
                                              {"TracePacket.track_event", 11},
                                              {"TracePacket.track_descriptor", 60},
                                              {"TracePacket.trusted_packet_sequence_id", 10},
                                              {"TracePacket.interned_data", 12},
                                              {"TracePacket.sequence_flags", 13},
                                              {"InternedData.event_categories", 1},
                                              {"InternedData.event_names", 2},
                                              {"InternedData.debug_annotation_names", 3},
                                              {"EventCategory.iid", 1},
                                              {"EventCategory.name", 2},
                                              {"EventName.iid", 1},
                                              {"EventName.name", 2},
                                              {"DebugAnnotationName.iid", 1},
                                              {"DebugAnnotationName.name", 2},
                                              {"TrackDescriptor.uuid", 1},
                                              {"TrackDescriptor.name", 2},
                                              {"TrackDescriptor.process", 3},
                                              {"TrackDescriptor.thread", 4},
                                              {"TrackDescriptor.parent_uuid", 5},
                                              {"ProcessDescriptor.pid", 1},
                                              {"ProcessDescriptor.process_name", 6},
                                              {"ThreadDescriptor.pid", 1},
                                              {"ThreadDescriptor.tid", 2},
                                              {"ThreadDescriptor.thread_name", 5},
                                              {"TrackEvent.category_iids", 3},
                                              {"TrackEvent.debug_annotations", 4},
                                              {"TrackEvent.type", 9},
                                              {"TrackEvent.name_iid", 10},
                                              {"TrackEvent.track_uuid", 11},
                                              {"TrackEvent.name", 23},
                                              {"TrackEvent.flow_ids", 47},
                                              {"TrackEvent.terminating_flow_ids", 48},
                                              {"DebugAnnotation.name_iid", 1},
                                              {"DebugAnnotation.bool_value", 2},
                                              {"DebugAnnotation.uint_value", 3},
                                              {"DebugAnnotation.int_value", 4},
                                              {"DebugAnnotation.double_value", 5},
                                              {"DebugAnnotation.string_value", 6},
                                              {"DebugAnnotation.name", 10}};
  const auto* file = perfetto::protos::Trace::descriptor()->file();
  size_t found = 0;
  for (int m = 0; m < file->message_type_count(); ++m) {
    const auto* message = file->message_type(m);
    for (int f = 0; f < message->field_count(); ++f, ++found) {
      const std::string name = absl::StrCat(message->name(), ".", message->field(f)->name());
      ASSERT_EQ(numbers.count(name), 1u) << name;
      EXPECT_EQ(message->field(f)->number(), numbers.at(name)) << name;
    }
  }
  EXPECT_EQ(found, numbers.size());
  using Type = google::protobuf::FieldDescriptor::Type;
  for (const char* flows : {"flow_ids", "terminating_flow_ids"}) {
    EXPECT_EQ(perfetto::protos::TrackEvent::descriptor()->FindFieldByName(flows)->type(), Type::TYPE_FIXED64);
  }
}

TEST(StepTraceTest, HasEveryMessageAtBothEndsAndTimesThatAgree) {
  const std::string path = FolderOfTest() + "/trace-1-2.pftrace";
  const TracedRun run = RunTraced(path, true);
  ASSERT_TRUE(run.status.ok()) << run.status;
  const StepTrace::Written& written = run.written[0];
  ASSERT_TRUE(written.status.ok()) << written.status;
  const std::string bytes = ContentOf(path);
  EXPECT_EQ(written.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(written.dropped, 0u);
  EXPECT_GT(written.clock_error_ns, 0);
  EXPECT_LT(written.clock_error_ns, 1000000000);
  const auto trace = ReadTrace::Of(bytes);
  ASSERT_TRUE(trace.ok()) << trace.status();

  std::map<std::string, std::set<std::string>> names;  // by rank
  std::map<std::string, std::vector<ReadTrace::Slice>> steps;
  for (const ReadTrace::Slice& slice : trace->slices) {
    if (slice.track != "steps") continue;
    names[slice.process].insert(slice.name);
    if (slice.category == "step") steps[slice.process].push_back(slice);
    const int depth = slice.category == "step"       ? 0
                      : slice.category == "layer"    ? 1
                      : slice.category == "movement" ? 2
                                                     : 3;
    EXPECT_EQ(slice.depth, depth) << slice.name;
  }
  for (const std::string rank : {"rank 0", "rank 1", "rank 2"}) {
    for (const char* name : {"step 1", "step 2", "conv1 forward", "conv1.x", "conv1.weight adjoint"}) {
      EXPECT_EQ(names[rank].count(name), 1u) << rank << ": " << name;
    }
    ASSERT_EQ(steps[rank].size(), 2u);
    // A step's sum needs all ranks: no step ends before the other ranks' have begun.
    for (const std::string other : {"rank 0", "rank 1", "rank 2"}) {
      EXPECT_GE(steps[rank][1].end + written.clock_error_ns, steps[other][1].begin);
    }
  }
  ASSERT_FALSE(trace->messages.empty());
  int64_t moved = 0;
  for (const ReadTrace::Message& message : trace->messages) {
    EXPECT_EQ(message.send.args.at("bytes"), message.receive.args.at("bytes"));
    EXPECT_EQ(message.send.args.at("operator"), message.receive.args.at("operator"));
    EXPECT_EQ(message.send.args.at("generation"), message.receive.args.at("generation"));
    EXPECT_EQ(message.send.args.at("adjoint"), message.receive.args.at("adjoint"));
    EXPECT_EQ(absl::StrCat("rank ", message.send.args.at("peer")), message.receive.process);
    EXPECT_EQ(absl::StrCat("rank ", message.receive.args.at("peer")), message.send.process);
    EXPECT_GE(message.receive.end + written.clock_error_ns, message.send.begin) << "received before it was sent";
    if (message.send.args.at("operator") != 4) continue;
    EXPECT_EQ(message.send.name, "conv1.x to rank 2");
    EXPECT_EQ(message.receive.name, "conv1.x from rank 0");
    moved += message.send.args.at("bytes");
  }
  EXPECT_EQ(moved, 2 * kElements * 4) << "two steps";
  ASSERT_EQ(trace->instants.size(), 3u);
  for (int rank = 0; rank < kRanks; ++rank) {
    const ReadTrace::Instant& instant = trace->instants[static_cast<size_t>(rank)];
    EXPECT_EQ(instant.process, absl::StrCat("rank ", rank));
    EXPECT_EQ(instant.name, rank == 0 ? "job-1, 3 ranks" : "the recording begins");
    EXPECT_EQ(instant.args.at("clock error ns") > 0, rank > 0);
    EXPECT_EQ(instant.args.at("spans left out"), 0);
    EXPECT_NEAR(static_cast<double>(instant.args.at("clock offset ns")), rank * 3.6e12, rank * 2.1e7 + 1);
  }
}

// What is said of the error holds: a moment that two clocks show is never further from itself than that.
TEST(ClockAlignmentTest, TheErrorIsABound) {
  std::atomic<int> wrong{0};
  const absl::Status status = RunRanks(kRanks, TransportKind::kInMemoryDelayed, 3, [&](Transport& transport) {
    const int rank = transport.rank();
    RankMessages messages(&transport, absl::Seconds(30));
    const RankClock clock{[rank] { return SkewedNow(rank); }, 0};
    const auto before = ReadClocks(messages, clock);
    if (!before.ok()) return before.status();
    const int64_t here = clock.now();
    const auto after = ReadClocks(messages, clock);
    if (!after.ok()) return after.status();
    const ClockAlignment alignment(*before, *after);
    const int64_t apart = std::abs(alignment.OnRank0(here) - Unskewed(rank, here));
    if (apart > alignment.error() + 2) ++wrong;
    EXPECT_EQ(alignment.error() > 0, rank > 0);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(wrong, 0);
}

TEST(ClockAlignmentTest, RanksWithOneClockNeedNoMessages) {
  const std::string path = FolderOfTest() + "/trace-1-2.pftrace";
  const TracedRun run = RunTraced(path, true, 0, /*skewed=*/false);
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(run.written[0].clock_error_ns, 0);
  const auto trace = ReadTrace::Of(ContentOf(path));
  ASSERT_TRUE(trace.ok()) << trace.status();
  for (const ReadTrace::Message& message : trace->messages) EXPECT_GE(message.receive.end, message.send.begin);
  EXPECT_NE(RankClock::OfProcess().id, 0u);
  EXPECT_EQ(RankClock::OfProcess().id, RankClock::OfProcess().id);
}

TEST(StepTraceTest, ChangesNoBit) {
  const TracedRun plain = RunTraced(absl::CancelledError(), false);
  const TracedRun traced = RunTraced(FolderOfTest() + "/t.pftrace", true);
  ASSERT_TRUE(plain.status.ok() && traced.status.ok());
  EXPECT_EQ(plain.result, traced.result);
}

TEST(StepTraceTest, CountsWhatHasNoRoom) {
  const std::string path = FolderOfTest() + "/trace-1-2.pftrace";
  const TracedRun run = RunTraced(path, true, /*most_spans=*/5);
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_TRUE(run.written[0].status.ok());
  EXPECT_GT(run.written[0].dropped, 3u);
  perfetto::protos::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(ContentOf(path)));
  EXPECT_EQ(StepTrace::SpansOf(1), StepTrace::kMostSpans);
  EXPECT_EQ(StepTrace::SpansOf(1024), StepTrace::kMostAllSpans / 1024);
}

TEST(StepTraceTest, AFileThatCannotBeWrittenIsNoErrorOfTheRanks) {
  const TracedRun nowhere = RunTraced(std::string("/nonexistent/trace.pftrace"), true);
  ASSERT_TRUE(nowhere.status.ok()) << nowhere.status;
  EXPECT_THAT(std::string(nowhere.written[0].status.message()), HasSubstr("/nonexistent/trace.pftrace"));
  EXPECT_EQ(nowhere.written[0].bytes, 0);
  const TracedRun refused = RunTraced(absl::FailedPreconditionError("a later attempt has begun"), true);
  ASSERT_TRUE(refused.status.ok()) << refused.status;
  EXPECT_EQ(refused.written[0].status.message(), "a later attempt has begun");

  // No room for more than a few bytes.
  const std::string folder = FolderOfTest();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const TracedRun full = RunTraced(folder + "/trace-1-2.pftrace", true);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(full.status.ok()) << full.status;
  EXPECT_FALSE(full.written[0].status.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing is left of it";
}

}  // namespace
}  // namespace adjoin
