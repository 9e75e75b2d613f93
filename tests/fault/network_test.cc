// Two nodes on a network of their own: namespaces that a bridge connects, mutual TLS to the coordinator, ranks that
// talk over TCP. The link of one of them goes down for 5 s and for 30 s, and loses one packet in a hundred.
//
// Needs root, network namespaces and iptables; skipped elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"
#include "tests/harness/node_network.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kNodes = 2;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// Looks all the time at the ranks that there are: of how many attempts at once?
class AttemptsWatch {
 public:
  explicit AttemptsWatch(std::string folder) : folder_(std::move(folder)), thread_([this] { Watch(); }) {}
  ~AttemptsWatch() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  size_t most_at_once() const { return most_at_once_; }
  size_t seen() const { return seen_.size(); }

 private:
  void Watch() {
    static const std::regex kEpoch("adjoin-rank --socket .* --epoch (\\d+)");
    while (!stop_) {
      std::set<std::string> epochs;
      for (const auto& [pid, command] : ProcessesIn(folder_)) {
        std::smatch match;
        if (std::regex_search(command, match, kEpoch)) epochs.insert(match[1]);
      }
      most_at_once_ = std::max(most_at_once_, epochs.size());
      seen_.insert(epochs.begin(), epochs.end());
      absl::SleepFor(absl::Milliseconds(50));
    }
  }

  const std::string folder_;
  std::atomic<bool> stop_{false};
  size_t most_at_once_ = 0;
  std::set<std::string> seen_;
  std::thread thread_;
};

class NetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!network_.Make(kNodes)) GTEST_SKIP() << NodeNetwork::kNeeds;
    absl::StatusOr<LocalClusterOptions> options = network_.ClusterOptions(::testing::TempDir() + "/certs");
    ASSERT_TRUE(options.ok()) << options.status();
    // Daemons are lost as in production; their leases are shorter, for the test's sake.
    options->coordinator_flags = {"--lease-seconds", "20"};
    auto started = LocalCluster::Start(kNodes, /*slots_per_node=*/2, *options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
    watch_ = std::make_unique<AttemptsWatch>(cluster_->folder());
  }

  // LeNet-5 over both nodes.
  void Train(int steps) {
    const std::string spec = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
    absl::StatusOr<std::string> job =
        cluster_->Submit(absl::StrReplaceAll(spec, {{"epochs: 8", absl::StrCat("steps: ", steps)},
                                                    {"output_dir:", "restart { max_restarts: 3 } output_dir:"}}));
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *job;
    auto training = cluster_->WaitUntil(
        job_, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().step() >= 5; }, Within(120));
    ASSERT_TRUE(training.ok()) << training.status();
    absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job_);
    ASSERT_TRUE(described.ok()) << described.status();
    std::set<std::string> nodes;
    for (const RankStatus& rank : described->rank()) {
      nodes.insert(rank.worker());
      EXPECT_THAT(rank.transport(), HasSubstr("tcp")) << "rank " << rank.rank();
      EXPECT_FALSE(absl::StrContains(rank.transport(), "posix")) << rank.transport();
    }
    EXPECT_THAT(nodes, SizeIs(kNodes));
  }
  void CutLink(double seconds) {
    ASSERT_TRUE(network_.SetLink(1, false));
    absl::SleepFor(absl::Seconds(seconds));
    ASSERT_TRUE(network_.SetLink(1, true));
  }
  uint32_t ExpectSucceeds() {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(job_, Within(180));
    EXPECT_TRUE(end.ok()) << end.status();
    if (!end.ok()) return 0;
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    watch_->Stop();
    EXPECT_EQ(watch_->most_at_once(), 1u) << "attempts at once";
    std::cerr << end->attempts() << " attempts" << std::endl;
    return end->attempts();
  }

  NodeNetwork network_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<AttemptsWatch> watch_;
  std::string job_;
};

TEST_F(NetworkTest, ALinkThatIsDownForFiveSecondsEndsNothing) {
  Train(600);
  if (HasFatalFailure() || IsSkipped()) return;
  CutLink(5);
  const uint32_t attempts = ExpectSucceeds();
  EXPECT_GE(attempts, 1u);
  EXPECT_LE(attempts, 2u) << "UCX may have given the peers up";
}

TEST_F(NetworkTest, ANodeThatIsAwayForThirtySecondsIsLostAndItsJobRestarted) {
  Train(600);
  if (HasFatalFailure() || IsSkipped()) return;
  CutLink(30);
  EXPECT_GE(ExpectSucceeds(), 2u);
  absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job_);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_LE(described->job().restarts_counted(), 1u) << "a lost node is not the job's fault";
}

TEST_F(NetworkTest, ALossOfOnePacketInAHundredIsNoFault) {
  bool lossy = true;
  for (int node = 0; node < kNodes; ++node) {
    lossy =
        lossy &&
        network_.In(node, "/usr/sbin/iptables -A INPUT -i data0 -m statistic --mode random --probability 0.01 -j DROP");
  }
  if (!lossy) GTEST_SKIP() << "iptables does not lose packets here";
  Train(150);
  if (HasFatalFailure()) return;
  EXPECT_EQ(ExpectSucceeds(), 1u);
}

}  // namespace
}  // namespace adjoin
