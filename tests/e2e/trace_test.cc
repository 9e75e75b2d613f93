// Traces of jobs through a real coordinator, real daemons and ranks: the one of a job itself, and those that the
// command asks for; and who is slow, where one rank of four is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "proto/protocol.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

using Json = nlohmann::json;

// Convolutions whose ranks exchange halos.
std::string Job(const std::string& name, uint64_t steps, const std::string& train, int side = 16, int channels = 4) {
  return absl::StrCat("name: \"", name, R"(" kind: TRAIN ranks: 4 seed: 1
layout { name: "rows" partition: [1, 1, 4, 1] }
layer { name: "conv1" input: "x" x: "rows" conv { out_channels: )",
                      channels, R"( window { kernel: 3 pad_lo: 1 } } }
layer { name: "conv2" conv { out_channels: )",
                      channels, R"( window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: 8 } shape: [2, )",
                      side, ", ", side, R"(] }
  field { name: "y" synthetic { kind: "index" samples: 8 high: 2 } dtype: "int64" } }
train { dataset: "train" batch: 4 steps: )",
                      steps, " optimizer { sgd { lr: 0.01 } } ", train, " }\noutput_dir: \"", name, "\"\n");
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  std::string Submit(const std::string& spec) {
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : "";
  }
  bool RunsUntilStep(const std::string& job, uint64_t step) {
    const auto found = cluster_->WaitUntil(
        job, [&](const JobSummary& summary) { return summary.progress().step() >= step; },
        Deadline::After(absl::Seconds(120)));
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok();
  }
  absl::Status Ask(const std::string& job, const std::string& id, uint32_t steps) {
    TraceJobRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_job_id(job);
    request.set_steps(steps);
    request.set_request_id(id);
    TraceJobResponse response;
    grpc::ClientContext context;
    const grpc::Status status = cluster_->stub().TraceJob(&context, request, &response);
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  // The steps that a trace has of each rank; fails where the trace is none.
  std::map<std::string, std::set<std::string>> StepsOf(const std::string& bytes) {
    const auto trace = ReadTrace::Of(bytes);
    EXPECT_TRUE(trace.ok()) << trace.status();
    std::map<std::string, std::set<std::string>> steps;
    if (!trace.ok()) return steps;
    for (const ReadTrace::Slice& slice : trace->slices) {
      if (slice.depth == 0 && slice.name.rfind("step ", 0) == 0) steps[slice.process].insert(slice.name);
    }
    EXPECT_FALSE(trace->messages.empty());
    for (const ReadTrace::Message& message : trace->messages) {
      EXPECT_EQ(message.send.args.at("bytes"), message.receive.args.at("bytes"));
      EXPECT_GE(message.receive.end, message.send.begin) << "ranks of one machine have one clock";
    }
    return steps;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(TraceTest, TheCommandTracesAJobThatRuns) {
  const std::string job = Submit(Job("long", 1000000, ""));
  const std::string waits = Submit(Job("waits", 3, "trace { first_step: 2 steps: 2 }"));
  ASSERT_TRUE(RunsUntilStep(job, 2));

  const std::string file = cluster_->folder() + "/my.pftrace";
  const auto traced = cluster_->Cli({"trace", "long", "--steps", "3", "-O", file});
  ASSERT_EQ(traced.exit_code, 0) << traced.err;
  EXPECT_THAT(traced.out, HasSubstr(absl::StrCat(file, ": steps ")));
  EXPECT_THAT(traced.out, HasSubstr("the ranks' times agree within 0.0 microseconds"));
  const auto steps = StepsOf(ContentOf(file));
  ASSERT_EQ(steps.size(), 4u);
  for (const auto& [rank, names] : steps) EXPECT_EQ(names, steps.begin()->second) << rank;
  EXPECT_EQ(steps.begin()->second.size(), 3u);
  const auto described = cluster_->Cli({"describe", job});
  EXPECT_THAT(described.out, HasSubstr(".pftrace, steps "));
  EXPECT_THAT(cluster_->Cli({"events", job}).out, HasSubstr("of 3 steps, asked for by a user"));

  // One at a time; the same request again is the same trace.
  ASSERT_EQ(Ask(job, "first", 1000), absl::OkStatus());
  EXPECT_EQ(Ask(job, "first", 1000), absl::OkStatus());
  const absl::Status second = Ask(job, "second", 1);
  EXPECT_THAT(std::string(second.message()), HasSubstr("is being traced already"));
  const auto made = cluster_->WaitUntil(
      job,
      [](const JobSummary& summary) {
        return summary.progress().trace().request_id() == "first" && !summary.progress().trace().file().empty();
      },
      Deadline::After(absl::Seconds(300)));
  ASSERT_TRUE(made.ok()) << made.status();
  const TraceProgress& trace = made->progress().trace();
  EXPECT_EQ(trace.last_step() - trace.first_step(), 999u);
  // A trace that is there can be fetched while the job runs.
  const auto got = cluster_->Cli({"get", job, trace.file(), "-O", "-"});
  EXPECT_EQ(got.exit_code, 0) << got.err;
  EXPECT_EQ(got.out.size(), trace.bytes());

  // Jobs that do not run.
  const auto pending = cluster_->Cli({"trace", waits});
  EXPECT_EQ(pending.exit_code, 1);
  EXPECT_THAT(pending.err, HasSubstr("only a job that runs can be traced"));
  EXPECT_EQ(cluster_->Cli({"cancel", job}).exit_code, 0);
  const auto ended = cluster_->Cli({"trace", job});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("is cancelled"));
  EXPECT_EQ(cluster_->Cli({"trace", job, "--steps", "0"}).exit_code, 2);

  // The job's own: among its results.
  const auto end = cluster_->WaitFor(waits, Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  const auto own = StepsOf(ContentOf(cluster_->output_root() + "/waits/trace-2-3.pftrace"));
  EXPECT_EQ(own.size(), 4u);
  for (const auto& [rank, names] : own) EXPECT_EQ(names, (std::set<std::string>{"step 2", "step 3"})) << rank;
  const absl::StatusOr<DescribeJobResponse> response = cluster_->Describe(waits);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(std::vector<std::string>(response->artifact().begin(), response->artifact().end()),
              ::testing::Contains("trace-2-3.pftrace"));
}

TEST_F(TraceTest, AJobThatEndsBeforeItIsTraced) {
  const std::string job = Submit(Job("long", 1000000, ""));
  ASSERT_TRUE(RunsUntilStep(job, 1));
  std::vector<std::string> command = {Runfile("cli/adjoin"), "trace", job, "--steps", "1000"};
  auto child = ChildProgram::Start(command, {absl::StrCat("ADJOIN_COORDINATOR=", cluster_->address())},
                                   cluster_->folder() + "/trace");
  ASSERT_TRUE(child.ok()) << child.status();
  const auto begun = cluster_->WaitUntil(
      job, [](const JobSummary& summary) { return summary.progress().trace().first_step() > 0; },
      Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(cluster_->Cli({"cancel", job}).exit_code, 0);
  const absl::StatusOr<int> code = (*child)->Wait(Deadline::After(absl::Seconds(60)));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  EXPECT_THAT((*child)->Errors(), HasSubstr("before a trace was made"));
}

// Stops a process for most of the time.
class Slowed {
 public:
  explicit Slowed(pid_t pid)
      : thread_([this, pid] {
          while (!over_) {
            kill(pid, SIGSTOP);
            absl::SleepFor(absl::Milliseconds(60));
            kill(pid, SIGCONT);
            absl::SleepFor(absl::Milliseconds(30));
          }
        }) {}
  ~Slowed() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_F(TraceTest, TheSlowRankIsNamed) {
  constexpr int kSlow = 2;
  const std::string job = Submit(Job("slow", 1000000, "measure_layers_every: 2", /*side=*/64, /*channels=*/16));
  ASSERT_TRUE(RunsUntilStep(job, 2));
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job);
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->rank_size(), 4);
  const uint64_t begin = described->job().progress().step() + 2, end = begin + 80;
  {
    const Slowed slowed(static_cast<pid_t>(described->rank(kSlow).pid()));
    ASSERT_TRUE(RunsUntilStep(job, end));
    // It shows the last measured step, in which the rank may not have been stopped.
    std::string shown;
    for (uint64_t step = end + 2; step < end + 200 && !absl::StrContains(shown, "rank 2"); step += 2) {
      ASSERT_TRUE(RunsUntilStep(job, step));
      shown = cluster_->Cli({"describe", job}).out;
    }
    EXPECT_THAT(shown, HasSubstr("slow in step "));
    EXPECT_THAT(shown, HasSubstr("OF THE STEP"));
    EXPECT_THAT(shown, HasSubstr("rank 2"));
  }
  const auto lines = cluster_->Cli({"metrics", job, "--type", "slow"});
  EXPECT_EQ(lines.exit_code, 0) << lines.err;
  std::istringstream text(lines.out);
  int measured = 0;
  std::map<int, double> costs;  // by rank, of all these steps: some of them are over before it is stopped
  for (std::string line; std::getline(text, line);) {
    const Json parsed = Json::parse(line);
    EXPECT_GT(parsed["replayed_seconds"].get<double>(), 0);
    const std::vector<std::string> layers = parsed["computed_layer"];
    ASSERT_EQ(layers.front(), "conv1");
    ASSERT_EQ(parsed["computed_seconds"].size(), 4 * layers.size());
    ASSERT_EQ(parsed["computed_median_seconds"].size(), 4 * layers.size());
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_GT(parsed["computed_seconds"][rank * layers.size()].get<double>(), 0) << "conv1 on rank " << rank;
    }
    const uint64_t step = parsed["step"];
    if (step <= begin || step > end) continue;
    ++measured;
    for (size_t i = 0; i < parsed["kind"].size(); ++i) {
      if (parsed["kind"][i] != "compute") continue;
      costs[parsed["rank"][i].get<int>()] += parsed["cost_seconds"][i].get<double>();
      EXPECT_GT(parsed["part_seconds"][i].get<double>(), parsed["median_seconds"][i].get<double>());
    }
  }
  EXPECT_EQ(measured, 40);
  // The machine does other work, too, which makes the other ranks slow now and then.
  for (const int other : {0, 1, 3}) EXPECT_GT(costs[kSlow], 2 * costs[other]) << "rank " << other;
  EXPECT_EQ(cluster_->Cli({"cancel", job}).exit_code, 0);
}

}  // namespace
}  // namespace adjoin
