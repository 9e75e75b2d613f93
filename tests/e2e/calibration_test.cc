// A node measures itself, its daemon tells the coordinator, and `adjoin plan --measured` predicts with that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
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
