// Traces of sessions: what they hold, when they begin, and that they change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/trace_file.h"
#include "worker/session/session_fixture.h"
#include "worker/session/trace_requests.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class SessionTraceTest : public SessionTest {
 protected:
  ReadTrace Read(const std::string& name) {
    std::ifstream file(absl::StrCat(root_, "out/small/", name), std::ios::binary);
    const auto trace = ReadTrace::Of({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    EXPECT_TRUE(trace.ok()) << name << ": " << trace.status();
    return trace.ok() ? *trace : ReadTrace();
  }

  std::set<std::string> Files() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "out/small")) {
      if (IsTraceFile(entry.path().filename().string())) names.insert(entry.path().filename());
    }
    return names;
  }

  std::vector<double> Losses() {
    std::vector<double> losses;
    for (const auto& line : Metrics()) {
      if (line["type"] == "step") losses.push_back(line["loss"]);
    }
    return losses;
  }

  // The steps that each rank has in a trace.
  static std::map<std::string, std::set<std::string>> StepsOf(const ReadTrace& trace) {
    std::map<std::string, std::set<std::string>> steps;
    for (const ReadTrace::Slice& slice : trace.slices) {
      if (slice.depth == 0 && slice.name.rfind("step ", 0) == 0) steps[slice.process].insert(slice.name);
    }
    return steps;
  }
};

TEST_F(SessionTraceTest, ShowsWhatEachRankDoesAndChangesNoBit) {
  ASSERT_TRUE(Run().ok());
  const std::vector<double> expected = Losses();
  const auto model = [this] {
    std::ifstream file(root_ + "out/small/model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  const std::string weights = model();
  EXPECT_EQ(Files().size(), 0u);

  spec_.mutable_train()->mutable_trace()->set_first_step(5);
  spec_.mutable_train()->mutable_trace()->set_steps(3);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Losses(), expected) << "bit for bit";
  EXPECT_EQ(model(), weights);
  EXPECT_EQ(Files(), std::set<std::string>{"trace-5-7.pftrace"});
  EXPECT_THAT(results_[0].artifacts, Contains("trace-5-7.pftrace"));
  EXPECT_THAT(log_, HasSubstr("the trace of steps 5 to 7 is in trace-5-7.pftrace: "));
  const TraceProgress& shown = results_[0].final.trace();
  EXPECT_EQ(shown.file(), "trace-5-7.pftrace");
  EXPECT_EQ(shown.request_id(), "");
  EXPECT_EQ(shown.first_step(), 5u);
  EXPECT_EQ(shown.last_step(), 7u);
  EXPECT_EQ(shown.dropped_events(), 0u);
  EXPECT_EQ(shown.bytes(), std::filesystem::file_size(root_ + "out/small/trace-5-7.pftrace"));

  const ReadTrace trace = Read("trace-5-7.pftrace");
  const std::set<std::string> steps = {"step 5", "step 6", "step 7"};
  EXPECT_EQ(StepsOf(trace), (std::map<std::string, std::set<std::string>>{{"rank 0", steps}, {"rank 1", steps}}));
  std::map<std::string, std::set<std::string>> names;
  for (const ReadTrace::Slice& slice : trace.slices) {
    names[slice.process].insert(slice.name);
    if (slice.track != "steps") continue;
    const int least = slice.category == "wait" ? 2 : slice.category == "layer" || slice.category == "movement" ? 1 : 0;
    EXPECT_GE(slice.depth, least) << slice.name;
  }
  for (const char* rank : {"rank 0", "rank 1"}) {
    EXPECT_THAT(names[rank], IsSupersetOf({"reads the batch", "conv forward", "conv backward", "relu forward",
                                           "together forward", "fc forward", "sums of gradients", "optimizer",
                                           "together.y", "together.y adjoint", "report"}));
  }
  EXPECT_FALSE(trace.messages.empty());
  for (const ReadTrace::Message& message : trace.messages) {
    EXPECT_EQ(message.send.args.at("bytes"), message.receive.args.at("bytes"));
    EXPECT_NE(message.send.process, message.receive.process);
    EXPECT_GE(message.receive.end, message.send.begin) << "threads of one process have one clock";
  }
  // Every byte of the three steps that the plan tells of, and no other.
  std::map<std::string, int64_t> bytes, expected_bytes;
  for (const ReadTrace::Message& message : trace.messages) bytes[message.send.process] += message.send.args.at("bytes");
  for (const auto& line : Metrics()) {
    if (line["type"] == "step" && line["step"] >= 5 && line["step"] <= 7) {
      expected_bytes["rank 0"] += line["bytes_sent"].get<int64_t>();
    }
  }
  EXPECT_EQ(bytes["rank 0"], expected_bytes["rank 0"]);
}

TEST_F(SessionTraceTest, IsMadeWhereItIsAskedFor) {
  TraceRequests requests;
  requests.Ask({"abc", 2});
  requests.Ask({"def", 3});  // takes its place
  const absl::Status status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) options.traces = &requests;
  });
  ASSERT_TRUE(status.ok()) << status;
  // Agreed on with the first step.
  EXPECT_EQ(Files(), std::set<std::string>{"trace-2-4.pftrace"});
  const std::set<std::string> steps = {"step 2", "step 3", "step 4"};
  EXPECT_EQ(StepsOf(Read("trace-2-4.pftrace")),
            (std::map<std::string, std::set<std::string>>{{"rank 0", steps}, {"rank 1", steps}}));
  bool begun = false;
  for (const JobProgress& progress : progress_[0])
    begun = begun || (progress.has_trace() && progress.trace().file().empty());
  EXPECT_TRUE(begun) << "its beginning is reported at once";
  EXPECT_EQ(results_[0].final.trace().request_id(), "def");
  EXPECT_EQ(results_[0].final.trace().file(), "trace-2-4.pftrace");
}

TEST_F(SessionTraceTest, OneWaitsForTheOther) {
  TraceRequests requests;
  spec_.mutable_train()->mutable_trace()->set_steps(4);  // 1 to 4
  absl::Status status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) options.traces = &requests;
    if (rank == 0) requests.Ask({"abc", 2});
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Files(), (std::set<std::string>{"trace-1-4.pftrace", "trace-6-7.pftrace"}));
  EXPECT_EQ(results_[0].final.trace().request_id(), "abc");

  // The other way round: the job's own is due while the other is made.
  ASSERT_EQ(std::filesystem::remove(root_ + "out/small/trace-1-4.pftrace"), true);
  ASSERT_EQ(std::filesystem::remove(root_ + "out/small/trace-6-7.pftrace"), true);
  spec_.mutable_train()->mutable_trace()->set_first_step(3);
  status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) options.traces = &requests;
    if (rank == 0) requests.Ask({"abc", 3});
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Files(), (std::set<std::string>{"trace-2-4.pftrace", "trace-5-6.pftrace"}));
}

TEST_F(SessionTraceTest, EndsWithTraining) {
  TraceRequests requests;
  spec_.mutable_train()->set_steps(4);
  spec_.mutable_train()->mutable_trace()->set_first_step(9);
  spec_.mutable_train()->mutable_trace()->set_steps(2);
  absl::Status status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) options.traces = &requests;
    if (rank == 0) requests.Ask({"abc", 1000});
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Files(), std::set<std::string>{"trace-2-4.pftrace"});
  EXPECT_THAT(log_, HasSubstr("train.trace: training has ended after step 4, before the first step that was to be "
                              "traced, 9"));

  spec_.mutable_train()->set_steps(1);
  status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) options.traces = &requests;
    if (rank == 0) requests.Ask({"late", 2});
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(results_[0].final.trace().request_id(), "late");
  EXPECT_EQ(results_[0].final.trace().error(), "training has ended after step 1, before a trace could begin");
}

TEST_F(SessionTraceTest, AFullFolderHarmsNothing) {
  spec_.mutable_train()->mutable_trace()->set_first_step(2);
  spec_.mutable_train()->mutable_trace()->set_steps(15);
  spec_.mutable_train()->set_epochs(4);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {20000, before.rlim_max};  // enough for all else
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Run();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Files().size(), 0u);
  EXPECT_THAT(log_, HasSubstr("the trace of steps 2 to 16 is not written: "));
  EXPECT_NE(results_[0].final.trace().error(), "");
  EXPECT_EQ(results_[0].final.trace().file(), "");
  for (const std::string& artifact : results_[0].artifacts) EXPECT_FALSE(IsTraceFile(artifact)) << artifact;
}

}  // namespace
}  // namespace adjoin
