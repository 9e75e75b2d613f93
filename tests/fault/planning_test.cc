// Specs whose plans take long, take all memory, or crash: they harm nobody but who submitted them.
#include <errno.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/protocol.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// One convolution on 16,384 ranks: a plan that takes many times as long as a small one.
constexpr char kLarge[] = R"(name: "large" kind: TRAIN ranks: 16384 seed: 1
layout { name: "grid" partition: [1, 1, 128, 128] }
layer { name: "conv" input: "image" x: "grid" conv { out_channels: 1 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "mse" input: "conv" target: "image" }
dataset { name: "train" field { name: "image" synthetic { kind: "normal" samples: 8 } shape: [1, 1024, 1024] } }
train { dataset: "train" batch: 2 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

std::string Spec(const std::string& name, const std::string& layer) {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: 1 seed: 1\n", layer, R"(
layer { name: "fc" )",
                      layer.empty() ? "input: \"x\" " : "", R"(linear { out_features: 4 } }
loss { kind: "mse" input: "fc" target: "x" }
dataset { name: "train" field { name: "x" synthetic { kind: "normal" samples: 8 } shape: [4] } }
train { dataset: "train" batch: 2 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)");
}
std::string Small() { return Spec("small", ""); }

bool Alive(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

// Waits for what other processes do. Returns whether it came.
template <typename Condition>
bool Comes(Condition condition) {
  for (const Deadline deadline = Deadline::After(kPatience); !condition();) {
    if (deadline.Expired()) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

class PlanningTest : public ::testing::Test {
 protected:
  ~PlanningTest() override {
    coordinator_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void Start(std::vector<std::string> flags = {}) {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    std::vector<std::string> command = {Runfile("tests/fault/misbehaving-coordinator"),
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--port-file",
                                        folder_ + "/address",
                                        "--state-dir",
                                        folder_ + "/state"};
    command.insert(command.end(), flags.begin(), flags.end());
    auto started = ChildProgram::Start(command, {}, folder_ + "/coordinator");
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    ASSERT_TRUE(Comes([&] { return !ReadFile(folder_ + "/address").empty(); })) << coordinator_->Errors();
    address_ = ReadFile(folder_ + "/address");
    address_.pop_back();
    stub_ = Adjoin::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  }

  grpc::Status Submit(const std::string& text, grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    if (context == nullptr) context = &own;
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    SubmitRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_spec_source(text);
    request.set_spec_file("job.textproto");
    SubmitResponse response;
    return stub_->Submit(context, request, &response);
  }
  std::string Misbehaving(const std::string& how) {
    return Spec("bad", absl::StrCat("layer { name: \"bad\" input: \"x\" custom { type: \"misbehave\"",
                                    " arg { key: \"how\" value: \"", how, "\" } arg { key: \"mark\" value: \"", folder_,
                                    "/mark\" } } }"));
  }
  // The processes that came to the rule, in order.
  std::vector<pid_t> Planners() const {
    std::istringstream text(ReadFile(folder_ + "/mark"));
    std::vector<pid_t> pids;
    for (pid_t pid; text >> pid;) pids.push_back(pid);
    return pids;
  }
  bool AwaitPlanners(size_t count) const {
    return Comes([&] { return Planners().size() >= count; });
  }
  std::vector<std::string> Jobs() {
    grpc::ClientContext context;
    ListJobsRequest request;
    *request.mutable_header() = MakeHeader();
    ListJobsResponse response;
    EXPECT_TRUE(stub_->ListJobs(&context, request, &response).ok());
    std::vector<std::string> names;
    for (const JobSummary& job : response.job()) names.push_back(job.name());
    return names;
  }
  void ExpectServes() {
    const grpc::Status small = Submit(Small());
    EXPECT_TRUE(small.ok()) << small.error_message();
  }

  std::string folder_ = "/tmp/planning-test-XXXXXX";
  std::string address_;
  std::unique_ptr<ChildProgram> coordinator_;
  std::unique_ptr<Adjoin::Stub> stub_;
};

TEST_F(PlanningTest, ASmallJobDoesNotWaitForTwelveLargeOnes) {
  Start({"--planners", "2"});
  ExpectServes();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::future<grpc::Status>> large;
  for (int i = 0; i < 12; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    large.push_back(
        std::async(std::launch::async, [&, context = contexts.back().get()] { return Submit(kLarge, context); }));
  }
  const auto waits = [](const std::future<grpc::Status>& status) {
    return status.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  };
  // Ten of them, so that the large ones are surely among the plans that wait.
  for (int i = 0; i < 10; ++i) {
    ExpectServes();
    // One waits for a planner that is at a large one; a queue would let all twelve pass.
    if (i == 4) {
      EXPECT_GT(std::count_if(large.begin(), large.end(), waits), 0) << "small ones passed none";
    }
  }
  for (const auto& context : contexts) context->TryCancel();
  for (std::future<grpc::Status>& status : large) {
    const grpc::StatusCode code = status.get().error_code();
    EXPECT_TRUE(code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK) << code;
  }
}

TEST_F(PlanningTest, AClientThatIsKilledLeavesNoJob) {
  Start();
  const std::string spec = folder_ + "/job.textproto";
  std::ofstream(spec) << Misbehaving("spin");
  auto client =
      ChildProgram::Start({Runfile("cli/adjoin"), "--coordinator", address_, "submit", spec}, {}, folder_ + "/client");
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(AwaitPlanners(1)) << (*client)->Errors();
  (*client)->Signal(SIGKILL);
  // The process that plans it ends, although it would never have.
  EXPECT_TRUE(Comes([&] { return !Alive(Planners()[0]); }));
  ExpectServes();
  EXPECT_THAT(Jobs(), ::testing::ElementsAre("small"));
}

TEST_F(PlanningTest, APlannerThatIsKilledIsTriedOnceMoreAndThenAnError) {
  Start();
  auto status = std::async(std::launch::async, [&] { return Submit(Misbehaving("spin")); });
  ASSERT_TRUE(AwaitPlanners(1));
  kill(Planners()[0], SIGKILL);
  ASSERT_TRUE(AwaitPlanners(2));
  kill(Planners()[1], SIGKILL);
  const grpc::Status failed = status.get();
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(failed.error_message(), HasSubstr("the planner failed on job.textproto: it was killed by signal 9"));
  EXPECT_EQ(Planners().size(), 2);
  ExpectServes();
}

TEST_F(PlanningTest, APlanHasALimitOfTime) {
  Start({"--plan-seconds", "3"});
  const grpc::Status failed = Submit(Misbehaving("spin"));
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.error_message(), AllOf(HasSubstr("the plan of job.textproto took longer than 3s"),
                                            HasSubstr("--plan-seconds"), HasSubstr("take fewer ranks")));
  ASSERT_FALSE(Planners().empty());
  EXPECT_FALSE(Alive(Planners()[0]));
  ExpectServes();
}

TEST_F(PlanningTest, APlanHasALimitOfMemory) {
  Start({"--plan-memory-mb", "256"});
  const grpc::Status failed = Submit(Misbehaving("fill"));
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(failed.error_message(),
              AllOf(HasSubstr("the plan of job.textproto takes more than 256 MiB"), HasSubstr("--plan-memory-mb")));
  ExpectServes();
}

TEST_F(PlanningTest, ARuleThatThrowsOrCrashesEndsItsOwnSubmissionOnly) {
  Start();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"throw", "the planner threw \"a rule that throws\""},
      {"throw-number", "the planner threw something that is no std::exception"},
      {"recurse", "was killed by signal 11"},
      {"abort", "was killed by signal 6"}};
  for (const auto& [how, error] : cases) {
    const grpc::Status failed = Submit(Misbehaving(how));
    EXPECT_EQ(failed.error_code(), grpc::StatusCode::INTERNAL) << how;
    EXPECT_THAT(failed.error_message(), HasSubstr(error)) << how;
    ExpectServes();
  }
}

TEST_F(PlanningTest, TheCoordinatorEndsInTimeWhileItPlans) {
  Start({"--planners", "3"});
  std::vector<std::future<grpc::Status>> spins;
  for (int i = 0; i < 4; ++i)
    spins.push_back(std::async(std::launch::async, [&] { return Submit(Misbehaving("spin")); }));
  ASSERT_TRUE(AwaitPlanners(2));
  absl::StatusOr<int> code = coordinator_->Stop(Deadline::After(absl::Seconds(20)));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << coordinator_->Errors();
  for (std::future<grpc::Status>& spin : spins) EXPECT_FALSE(spin.get().ok());
  for (pid_t planner : Planners()) EXPECT_FALSE(Alive(planner));
}

TEST_F(PlanningTest, PlannersDieWithACoordinatorThatIsKilled) {
  Start();
  auto spin = std::async(std::launch::async, [&] { return Submit(Misbehaving("spin")); });
  ASSERT_TRUE(AwaitPlanners(1));
  coordinator_->Signal(SIGKILL);
  EXPECT_FALSE(spin.get().ok());
  EXPECT_TRUE(Comes([&] { return !Alive(Planners()[0]); }));
}

}  // namespace
}  // namespace adjoin
