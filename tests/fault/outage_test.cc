// The coordinator is down while LeNet-5 trains: the job goes on with the same losses. A rank that dies
// meanwhile takes its peers with it, and all stay down until the coordinator is back.
//
// Outages last for 0 and 20 s; ADJOIN_OUTAGE_SECONDS names another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::string LeNet(const std::string& output_dir, const std::string& length, const std::string& more = "") {
  const std::string spec = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
  return absl::StrReplaceAll(
      spec, {{"epochs: 8", length},
             {"output_dir: \"lenet5-spatial\"", absl::StrCat("output_dir: \"", output_dir, "\" ", more)}});
}

// Losses as they are written, by step, of all that an output folder has: published or of the attempt under way.
std::map<int, std::string> Losses(const std::string& folder) {
  static const std::regex kLine("\"step\": (\\d+),.*\"loss\": ([^,}]+)");
  std::map<int, std::string> losses;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.path().filename() != "metrics.jsonl") continue;
    std::istringstream file(ReadFile(entry.path()));
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_search(line, match, kLine)) losses[std::stoi(match[1])] = match[2];
    }
  }
  return losses;
}

class OutageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/2);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  void WaitForStep(const std::string& job, uint64_t step) {
    auto reached = cluster_->WaitUntil(
        job, [&](const JobSummary& s) { return s.state() == RUNNING && s.progress().step() >= step; }, Within(240));
    ASSERT_TRUE(reached.ok()) << reached.status();
  }
  int Ranks() const {
    int ranks = 0;
    for (const auto& [pid, command] : ProcessesIn(cluster_->folder()))
      ranks += absl::StrContains(command, "adjoin-rank --socket ");
    return ranks;
  }

  // A job that trains through an outage, and the steps that it did, compared with those of a job of the same length.
  void ExpectSameLosses(double seconds) {
    absl::StatusOr<std::string> job = cluster_->Submit(LeNet("outage", "epochs: 1000"));
    ASSERT_TRUE(job.ok()) << job.status();
    WaitForStep(*job, 20);
    const auto pids = cluster_->RankPids(*job);
    ASSERT_TRUE(pids.ok()) << pids.status();
    ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
    const size_t before = Losses(cluster_->output_root() + "/outage").size();
    absl::SleepFor(absl::Seconds(seconds));  // the outage
    const size_t after = Losses(cluster_->output_root() + "/outage").size();
    if (seconds > 0) {
      EXPECT_GT(after, before) << "the job goes on while the coordinator is away";
    }
    absl::Status restarted = cluster_->RestartCoordinator();
    ASSERT_TRUE(restarted.ok()) << restarted;
    WaitForStep(*job, after + 20);
    absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->job().attempts(), 1u);
    EXPECT_EQ(cluster_->RankPids(*job).value_or(std::vector<pid_t>()), *pids);
    const std::map<int, std::string> losses = Losses(cluster_->output_root() + "/outage");
    ASSERT_EQ(cluster_->Cli({"cancel", *job}).exit_code, 0);

    absl::StatusOr<std::string> calm = cluster_->Submit(LeNet("calm", absl::StrCat("steps: ", losses.size())));
    ASSERT_TRUE(calm.ok()) << calm.status();
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(*calm, Within(300));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    EXPECT_EQ(Losses(cluster_->output_root() + "/calm"), losses);
    std::cerr << losses.size() << " steps, of which " << after - before << " without the coordinator" << std::endl;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(OutageTest, LossesAreThoseOfARunWithoutAnOutage) {
  const char* text = getenv("ADJOIN_OUTAGE_SECONDS");
  double seconds = 0;
  ASSERT_TRUE(text != nullptr && absl::SimpleAtod(text, &seconds)) << "ADJOIN_OUTAGE_SECONDS has to be a number";
  ExpectSameLosses(seconds);
}

TEST_F(OutageTest, ARankThatDiesDuringAnOutageTakesItsPeersAndAllComeBack) {
  absl::StatusOr<std::string> job = cluster_->Submit(LeNet("outage", "epochs: 1000", "restart { max_restarts: 1 }"));
  ASSERT_TRUE(job.ok()) << job.status();
  WaitForStep(*job, 5);
  const auto pids = cluster_->RankPids(*job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  ASSERT_EQ(Ranks(), 4);
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(kill((*pids)[1], SIGKILL), 0);
  for (Deadline deadline = Within(30); Ranks() > 0 && !deadline.Expired();) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(Ranks(), 0) << "peers see the death through UCX, or their daemon";
  absl::SleepFor(absl::Seconds(3));  // long enough for a daemon that started them again by itself
  EXPECT_EQ(Ranks(), 0);

  absl::Status restarted = cluster_->RestartCoordinator();
  ASSERT_TRUE(restarted.ok()) << restarted;
  WaitForStep(*job, 3);
  absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->job().attempts(), 2u);
  EXPECT_EQ(described->job().restarts_counted(), 1u) << "a killed rank is the job's own";
  const std::string events = cluster_->Cli({"events", *job}).out;
  EXPECT_THAT(events, ::testing::HasSubstr("rank 1 on worker-"));
  ASSERT_EQ(cluster_->KillRank(*job, 0, SIGKILL), absl::OkStatus());
  absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(30));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), FAILED) << "one restart is what its spec allows";
}

}  // namespace
}  // namespace adjoin
