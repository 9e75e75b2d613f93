// Real rank processes against a daemon that the test plays: what they say of themselves, and how they end.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"
#include "worker/data/idx_test_files.h"
#include "worker/rank/gpu_lines.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 6;
constexpr int kRanks = 2;
constexpr int64_t kSamples = 16;

constexpr char kJob[] = R"(
name: "small" kind: TRAIN ranks: 2 seed: 3
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "conv" input: "image" x: "rows" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layout { name: "all" partition: [1, 1, 1, 1] rank: [1] }
layer { name: "together" y: "all" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set"
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 4 steps: 3 optimizer { sgd { lr: 0.1 } } }
output_dir: "out"
)";

// The daemon's end of the streams.
class FakeDaemon final : public RankLink::Service {
 public:
  using Stream = grpc::ServerReaderWriter<DaemonMessage, RankMessage>;
  struct Said {
    std::vector<RankPulse> pulses;
    JobProgress progress;
    RankResult result;
  };

  explicit FakeDaemon(RankStart start) : start_(std::move(start)) {}

  // For each pulse; true: this rank is asked to drain.
  std::function<bool(uint32_t rank, const RankPulse& pulse)> drain_at = [](uint32_t, const RankPulse&) {
    return false;
  };

  grpc::Status Connect(grpc::ServerContext* context, Stream* stream) override {
    RankMessage message;
    if (!stream->Read(&message) || !message.has_hello()) return grpc::Status::CANCELLED;
    const uint32_t rank = message.hello().rank();
    DaemonMessage orders;
    *orders.mutable_header() = MakeHeader(kEpoch);
    *orders.mutable_start() = start_;
    stream->Write(orders);
    while (stream->Read(&message)) {
      absl::MutexLock lock(&mutex_);
      Said& said = said_[rank];
      if (message.has_progress()) said.progress = message.progress();
      if (message.has_result()) said.result = message.result();
      if (message.has_pulse()) {
        said.pulses.push_back(message.pulse());
        if (drain_at(rank, message.pulse())) {
          orders.mutable_drain()->set_reason("the worker stops");
          stream->Write(orders);
        }
      }
      if (message.kind_case() != RankMessage::kTransportAddress) continue;
      addresses_[rank] = message.transport_address();
      changed_.NotifyAll();
      const auto all = [this] { return addresses_.size() == kRanks; };
      if (!changed_.Wait(mutex_, Deadline::After(absl::Seconds(30)), all)) return grpc::Status::CANCELLED;
      for (const auto& [number, address] : addresses_) {
        orders.mutable_connect()->add_transport_address(address);
      }
      stream->Write(orders);
    }
    return grpc::Status::OK;
  }

  Said OfRank(uint32_t rank) {
    absl::MutexLock lock(&mutex_);
    return said_[rank];
  }

 private:
  const RankStart start_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::map<uint32_t, std::string> addresses_;
  std::map<uint32_t, Said> said_;
};

class RankCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Unix sockets have short names; the test's own folder may not.
    char folder[] = "/tmp/adjoin-rank-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
    std::vector<double> images, labels;
    for (int64_t i = 0; i < kSamples * 36; ++i) images.push_back(static_cast<double>(i * 7 % 250));
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<double>(i % 2));
    WriteFile(root_ + "/images", Gzip(IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, images)));
    WriteFile(root_ + "/labels", IdxBytes(IdxType::kUInt8, {kSamples}, labels));
    spec_ = ParseSpec(kJob, "job").value().spec;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Runs all ranks to their end; their exit codes are those that are expected.
  void Run(int exit_code, std::function<bool(uint32_t, const RankPulse&)> drain_at = nullptr) {
    auto plan = Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules());
    ASSERT_TRUE(plan.ok()) << plan.status();
    RankStart start;
    start.set_world_size(kRanks);
    start.set_plan(plan->SerializeAsString());
    start.set_plan_hash(Planner::Hash(*plan));
    start.set_data_root(root_);
    start.set_output_root(root_);
    start.set_single_node(true);
    start.set_net_device("lo");
    start.set_cache_dir(root_ + "/cache");
    start.set_device(device_);
    daemon_ = std::make_unique<FakeDaemon>(start);
    if (drain_at) daemon_->drain_at = std::move(drain_at);
    const std::string socket = root_ + "/rank.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(daemon_.get());
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    ASSERT_NE(server, nullptr);
    std::vector<pid_t> pids;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<std::string> words = {
          "adjoin-rank", "--socket",          socket, "--job", "job-1", "--rank", absl::StrCat(rank),
          "--epoch",     absl::StrCat(kEpoch)};
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      pid_t pid = 0;
      ASSERT_EQ(posix_spawn(&pid, "worker/adjoin-rank", nullptr, nullptr, arguments.data(), environ), 0);
      pids.push_back(pid);
    }
    for (pid_t pid : pids) {  // the test's own time limit ends a rank that hangs
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), exit_code);
    }
    server->Shutdown();
  }

  std::set<std::string> Output() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/out")) names.insert(entry.path().filename());
    return names;
  }

  std::string root_;
  std::string device_;
  JobSpec spec_;
  std::unique_ptr<FakeDaemon> daemon_;
};

TEST_F(RankCommandTest, SucceedsAndPublishes) {
  Run(0);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const FakeDaemon::Said said = daemon_->OfRank(rank);
    EXPECT_EQ(said.result.end(), RANK_SUCCEEDED) << said.result.error();
    ASSERT_FALSE(said.pulses.empty());
    EXPECT_EQ(said.pulses.front().phase(), "starting");
    EXPECT_EQ(said.pulses.front().activity(), STARTING_UP);
    for (const RankPulse& pulse : said.pulses) EXPECT_EQ(pulse.rank(), rank);
    EXPECT_EQ(said.progress.phase(), "finished");
    EXPECT_EQ(said.progress.step(), 3u);
    EXPECT_GT(said.progress.bytes_sent(), 0);
  }
  EXPECT_THAT(daemon_->OfRank(0).result.artifact(), ElementsAre("metrics.jsonl", "model.safetensors"));
  EXPECT_THAT(Output(), ElementsAre(".epoch", ".epoch.lock", "metrics.jsonl", "model.safetensors"));
  int copies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "/cache"))
    copies += entry.file_size() > 0 ? 1 : 0;
  EXPECT_EQ(copies, 1) << "both ranks read the same inflated copy";
}

// Rank 1's daemon asks, in mid-training, and rank 0 stops after the same step.
TEST_F(RankCommandTest, DrainsAtOneStep) {
  spec_.mutable_train()->set_steps(100000000);
  Run(0, [](uint32_t rank, const RankPulse& pulse) {
    return rank == 1 && pulse.phase() == "training" && pulse.step() >= 3;
  });
  const RankResult first = daemon_->OfRank(0).result;
  EXPECT_GE(first.drained_step(), 3u);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const FakeDaemon::Said said = daemon_->OfRank(rank);
    EXPECT_EQ(said.result.end(), RANK_DRAINED) << said.result.error();
    EXPECT_EQ(said.result.drained_step(), first.drained_step());
    EXPECT_TRUE(said.result.artifact().empty());
    if (rank == 1) {
      EXPECT_GT(said.pulses.back().step_seconds(), 0);
    }
    std::set<std::string> phases;
    for (const RankPulse& pulse : said.pulses) phases.insert(pulse.phase());
    EXPECT_THAT(phases, ElementsAre("starting", "training"));
  }
  EXPECT_THAT(Output(), ElementsAre(".epoch", ".epoch.lock", "attempt-6"));
}

TEST_F(RankCommandTest, ALossThatIsNotFiniteIsHopelessOnAllRanks) {
  spec_.mutable_train()->set_steps(100);
  spec_.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e30);
  Run(1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const RankResult result = daemon_->OfRank(rank).result;
    EXPECT_EQ(result.end(), RANK_HOPELESS) << result.error();
    EXPECT_THAT(result.error(), HasSubstr("the first value that is not finite is in "));
    EXPECT_THAT(result.error(), HasSubstr("of layer \""));
  }
}

TEST_F(RankCommandTest, AGpuThatCannotBeUsedIsTheNodesFault) {
  device_ = "cuda:99";  // on a machine with GPUs, too
  Run(1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const RankResult result = daemon_->OfRank(rank).result;
    EXPECT_EQ(result.end(), RANK_LOST) << result.error();
    EXPECT_THAT(result.error(), HasSubstr("its GPU cannot be used: "));
    EXPECT_THAT(result.error(), HasSubstr("adjoin-worker --gpus names those of the node that ranks may use"));
  }
}

TEST_F(RankCommandTest, ItListsTheGpusOfTheNode) {
  const std::string command = "worker/adjoin-rank " + std::string(kListGpus);
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  for (int c = 0; (c = fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0);
  const absl::StatusOr<std::vector<NodeGpu>> gpus = ReadGpuLines(text);  // what there are depends on the machine
  EXPECT_TRUE(gpus.ok() || absl::IsNotFound(gpus.status())) << text;
}

}  // namespace
}  // namespace adjoin
