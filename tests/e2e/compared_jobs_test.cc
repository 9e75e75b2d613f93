// Several jobs beside each other, through a real coordinator and real daemons: `adjoin metrics` as a table, and `adjoin
// compare`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/e2e/line_job.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Json = nlohmann::json;
using Replaced = std::vector<std::pair<const absl::string_view, absl::string_view>>;

class ComparedJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  // Its id; "" where it did not succeed.
  std::string RunJob(const Replaced& replaced) {
    const absl::StatusOr<std::string> job = cluster_->Submit(absl::StrReplaceAll(kLineJob, replaced));
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return "";
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Deadline::After(absl::Seconds(120)));
    EXPECT_TRUE(end.ok()) << end.status();
    if (end.ok()) {
      EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    }
    return *job;
  }

  std::string Run(const std::vector<std::string>& arguments) {
    const LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments[0] << ": " << result.err;
    return result.out;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(ComparedJobsTest, StepsAndSpecsAreBesideEachOther) {
  const std::string a = RunJob({{"models/line", "a"}});
  const std::string b = RunJob({{"models/line", "b"}, {"steps: 3", "steps: 5"}, {"lr: 0.1", "lr: 0.05 momentum: 0"}});
  ASSERT_NE(a, "");
  ASSERT_NE(b, "");

  // The same numbers as in each job's own lines; of the shorter job the last steps are empty.
  const std::vector<std::string> lines =
      absl::StrSplit(Run({"metrics", a, b, "-o", "csv", "--field", "loss,samples"}), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(lines[0], absl::StrCat("step,", a, ".loss,", b, ".loss,", a, ".samples,", b, ".samples"));
  for (int step = 1; step <= 5; ++step) {
    const std::vector<std::string> cells = absl::StrSplit(lines[step], ',');
    ASSERT_THAT(cells, SizeIs(5));
    EXPECT_EQ(cells[0], absl::StrCat(step));
    EXPECT_EQ(cells[1].empty(), step > 3);
    EXPECT_FALSE(cells[2].empty());
    EXPECT_EQ(cells[3], step > 3 ? "" : "4");
  }
  std::vector<double> losses;
  for (absl::string_view line : absl::StrSplit(Run({"metrics", b, "--type", "step"}), '\n', absl::SkipEmpty())) {
    losses.push_back(Json::parse(std::string(line))["loss"]);
  }
  ASSERT_THAT(losses, SizeIs(5));
  for (int step = 1; step <= 5; ++step) {
    const std::vector<std::string> cells = absl::StrSplit(lines[step], ',');
    EXPECT_EQ(std::stod(cells[2]), losses[step - 1]) << "to the last digit";
  }

  // With JSON each line has its job, and one job's lines are as they are in the file.
  const std::vector<std::string> json =
      absl::StrSplit(Run({"metrics", a, b, "--type", "summary"}), '\n', absl::SkipEmpty());
  ASSERT_THAT(json, SizeIs(2));
  EXPECT_EQ(Json::parse(json[0])["job"], a);
  EXPECT_EQ(Json::parse(json[1])["job"], b);
  EXPECT_EQ(Run({"metrics", a}), Run({"get", a, "metrics.jsonl", "-O", "-"}));
  EXPECT_THAT(Run({"metrics", a, "-o", "text"}), StartsWith("step  loss"));
  EXPECT_THAT(Run({"metrics", a, b, "-o", "csv", "--by", "epoch", "--field", "step"}),
              AllOf(StartsWith(absl::StrCat("epoch,", a, ".step,", b, ".step\n1,2,2\n2,3,4\n3,,5\n"))));

  const LocalCluster::CliResult unknown = cluster_->Cli({"metrics", a, b, "-o", "csv", "--field", "los"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("has a field 'los'; there are: "), HasSubstr("loss")));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"metrics", a, a}, {"metrics", a, b, "-f"}, {"metrics", a, "no-such-job"}}) {
    EXPECT_EQ(cluster_->Cli(wrong).exit_code, 1);
  }

  const Json compared = Json::parse(Run({"compare", a, b, "-o", "json"}));
  std::vector<std::string> paths;
  for (const Json& each : compared["spec"]) paths.push_back(each["path"]);
  EXPECT_THAT(paths, ElementsAre("train.steps", "train.optimizer.sgd.lr", "output_dir"));
  EXPECT_EQ(compared["metrics"][0]["name"], "loss");
  EXPECT_EQ(compared["metrics"][0]["final"]["b"]["value"], losses[4]);
  ASSERT_THAT(compared["metrics"][0]["equal_steps"], SizeIs(3));
  EXPECT_EQ(compared["metrics"][0]["equal_steps"][2]["b"], losses[2]);
  EXPECT_GT(compared["numbers"]["steps_per_second"]["a"].get<double>(), 0);
  EXPECT_GT(compared["numbers"]["measured_resident_bytes"]["b"].get<double>(), 0);

  // A file's spec is compared with a job's, and two files need no coordinator.
  const std::string file = cluster_->folder() + "/line.textproto";
  std::ofstream(file) << absl::StrReplaceAll(kLineJob, {{"models/line", "a"}});
  EXPECT_THAT(Run({"compare", a, file}), StartsWith("the specs mean the same\n"));
  EXPECT_EQ(Run({"--coordinator", "127.0.0.1:1", "--retry-seconds", "0", "compare", file, file}),
            "the specs mean the same\n");
  EXPECT_THAT(Run({"compare", file, b}), AllOf(HasSubstr("train.optimizer.sgd.lr"), HasSubstr("0.05")));
  EXPECT_EQ(cluster_->Cli({"compare", a, "no-such-job"}).exit_code, 1);
}

}  // namespace
}  // namespace adjoin
