// A node measures itself, its daemon tells the coordinator, `adjoin plan --measured` predicts with that, and
// `adjoin submit --auto --measured` chooses layouts by it.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "planner/time/rate_check.h"
#include "proto/job.pb.h"
#include "proto/rates.pb.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

TEST(CalibrationTest, ANodeThatHasMeasuredIsPredictedWith) {
  auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/2);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string job = Runfile("examples/mnist/lenet5-spatial.textproto");
  const LocalCluster::CliResult before = (*cluster)->Cli({"plan", "--measured", job});
  EXPECT_NE(before.exit_code, 0);
  EXPECT_THAT(before.err, HasSubstr("no node of the coordinator has measured its rates"));

  ASSERT_EQ((*cluster)->KillWorker(0), absl::OkStatus());
  const std::string state = (*cluster)->folder() + "/worker-0";
  const auto measures = ChildProgram::Start({Runfile("worker/adjoin-worker"), "--calibrate", "--calibrate-seconds", "1",
                                             "--state-dir", state, "--rank-binary", Runfile("worker/adjoin-rank")},
                                            {}, (*cluster)->folder() + "/calibrate");
  ASSERT_TRUE(measures.ok()) << measures.status();
  const absl::StatusOr<int> code = (*measures)->Wait(Within(200));
  ASSERT_TRUE(code.ok()) << code.status() << (*measures)->Errors();
  ASSERT_EQ(*code, 0) << (*measures)->Errors();
  EXPECT_THAT((*measures)->Output(), HasSubstr("between ranks through memory"));
  ASSERT_TRUE(std::filesystem::exists(state + "/rates.textproto"));

  ASSERT_EQ((*cluster)->StartWorker(0), absl::OkStatus());
  ASSERT_EQ((*cluster)->WaitForWorkers(Within(30)), absl::OkStatus());
  const LocalCluster::CliResult measured = (*cluster)->Cli({"plan", "--measured", "-o", "json", job});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  const LocalCluster::CliResult from_file =
      (*cluster)->Cli({"plan", "--rates", state + "/rates.textproto", "-o", "json", job});
  ASSERT_EQ(from_file.exit_code, 0) << from_file.err;
  EXPECT_EQ(measured.out, from_file.out) << "the coordinator hands on what the node has measured";
  const LocalCluster::CliResult built_in = (*cluster)->Cli({"plan", "-o", "json", job});
  ASSERT_EQ(built_in.exit_code, 0) << built_in.err;
  EXPECT_NE(measured.out, built_in.out);
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

// The built-in table, but for messages, of which each takes a second: so layouts are chosen that have few.
absl::StatusOr<RateTable> RatesWithSlowMessages() {
  const std::string path = Runfile("planner/time/rates/default_rates.textproto");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<RateTable> rates = ParseRates(text.str(), path);
  if (!rates.ok()) return rates;
  rates->set_machine("a machine with slow messages");
  for (LaneRate& lane : *rates->mutable_lane()) {
    lane.set_round_seconds(1);
    lane.set_message_seconds(1);
  }
  return rates;
}

// What a job says of how its tensors are cut, as text.
std::string LayoutsOf(const JobSpec& spec) {
  JobSpec cuts;
  cuts.set_ranks(spec.ranks());
  *cuts.mutable_layout() = spec.layout();
  *cuts.mutable_layer() = spec.layer();
  return cuts.DebugString();
}

TEST(CalibrationTest, SubmitChoosesLayoutsByTheRatesOfTheNodes) {
  auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/4);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string job = Runfile("examples/mnist/lenet5-spatial.textproto");
  const auto run = [&](const std::string& command, std::vector<std::string> flags) {
    const std::vector<std::string> first = {command,          job,     "--set",
                                            "train.epochs=1", "--set", "dataset[train].limit=64"};
    flags.insert(flags.begin(), first.begin(), first.end());
    return (*cluster)->Cli(flags);
  };
  const LocalCluster::CliResult before = run("submit", {"--auto", "--measured"});
  EXPECT_NE(before.exit_code, 0);
  EXPECT_THAT(before.err, HasSubstr("no node of the coordinator has measured its rates"));
  const LocalCluster::CliResult no_choice = run("submit", {"--measured"});
  EXPECT_NE(no_choice.exit_code, 0);
  EXPECT_THAT(no_choice.err, HasSubstr("--measured is for layouts that are chosen: add --auto"));
  const auto jobs = (*cluster)->ListJobs();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  EXPECT_EQ(jobs->job_size(), 0) << "what is refused is not submitted";

  ASSERT_EQ((*cluster)->KillWorker(0), absl::OkStatus());
  const absl::StatusOr<RateTable> rates = RatesWithSlowMessages();
  ASSERT_TRUE(rates.ok()) << rates.status();
  const std::string table = (*cluster)->folder() + "/worker-0/rates.textproto";
  std::ofstream(table) << RatesText(*rates);
  ASSERT_EQ((*cluster)->StartWorker(0), absl::OkStatus());
  ASSERT_EQ((*cluster)->WaitForWorkers(Within(30)), absl::OkStatus());

  const LocalCluster::CliResult shown = run("plan", {"--auto", "--measured"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("\n  by the rates of a machine with slow messages\n"));
  const LocalCluster::CliResult planned = run("plan", {"--auto", "--measured", "--emit"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  JobSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(planned.out, &expected)) << planned.out;
  const LocalCluster::CliResult built_in = run("plan", {"--auto", "--emit"});
  ASSERT_EQ(built_in.exit_code, 0) << built_in.err;
  ASSERT_NE(planned.out, built_in.out) << "where messages take a second, other layouts are best";

  for (const std::string& whose : {std::string("--measured"), "--rates=" + table}) {
    const LocalCluster::CliResult submitted = run("submit", {"--auto", whose, "--replace"});
    ASSERT_EQ(submitted.exit_code, 0) << whose << ": " << submitted.err;
    const std::string id(absl::StripAsciiWhitespace(submitted.out));
    const auto described = (*cluster)->Describe(id);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(LayoutsOf(described->spec()), LayoutsOf(expected)) << whose;
    const absl::StatusOr<JobSummary> end = (*cluster)->WaitFor(id, Within(100));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  }
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

TEST(CalibrationTest, AnInterruptEndsIt) {
  const std::string folder = absl::StrCat(getenv("TEST_TMPDIR"), "/interrupted");
  const auto measures =
      ChildProgram::Start({Runfile("worker/adjoin-worker"), "--calibrate", "--calibrate-seconds", "600", "--state-dir",
                           folder, "--rank-binary", Runfile("worker/adjoin-rank")},
                          {}, folder + "-calibrate");
  ASSERT_TRUE(measures.ok()) << measures.status();
  const Deadline started = Within(60);
  while (!absl::StrContains((*measures)->Errors(), "measures for about") && !started.Expired()) {
    EXPECT_TRUE(absl::IsDeadlineExceeded((*measures)->Wait(Within(0.02)).status()));
  }
  (*measures)->Signal(SIGTERM);
  const absl::StatusOr<int> code = (*measures)->Wait(Within(30));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_NE(*code, 0);
  EXPECT_THAT((*measures)->Errors(), HasSubstr("the calibration was interrupted"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/rates.textproto"));
}

}  // namespace
}  // namespace adjoin
