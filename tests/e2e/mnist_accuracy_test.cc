// The same as tools/quickstart: the whole example job through the command, to the accuracy that serial PyTorch
// reaches (96.3%), with weights that PyTorch itself counts as many right answers with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 8 * 157;  // 10,000 samples are 156 batches of 64 and one of 16

TEST(MnistAccuracy, TheExampleReaches96PercentAndPyTorchAgrees) {
  auto cluster = LocalCluster::Start(1, 4);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  LocalCluster::CliResult run =
      (*cluster)->Cli({"submit", "--follow", Runfile("examples/mnist/lenet5-spatial.textproto")});
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("steps/s"), HasSubstr(" left"), HasSubstr("accuracy 0.9")));

  const std::string fetched = (*cluster)->output_root() + "/fetched";
  std::filesystem::create_directories(fetched);
  for (const char* name : {"model.safetensors", "metrics.jsonl"}) {
    const LocalCluster::CliResult get = (*cluster)->Cli({"get", "lenet5-spatial", name, "-O", fetched + "/" + name});
    ASSERT_EQ(get.exit_code, 0) << get.err;
  }
  const auto output = ReadOutput(fetched);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_GE(output->correct, 1920) << "of 2000";
  EXPECT_EQ(static_cast<int64_t>(output->losses.size()), kSteps);

  auto python = ChildProgram::Start({"/usr/bin/python3", Runfile("examples/mnist/train_pytorch.py"), "--data",
                                     (*cluster)->data_root() + "/mnist", "--evaluate", fetched + "/model.safetensors"},
                                    {}, fetched + "/python");
  ASSERT_TRUE(python.ok()) << python.status();
  const absl::StatusOr<int> code = (*python)->Wait(Deadline::After(absl::Seconds(120)));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << (*python)->Errors();
  EXPECT_THAT((*python)->Output(), HasSubstr(absl::StrCat("test accuracy: ", output->correct, " of 2000 right")));

  const LocalCluster::CliResult described = (*cluster)->Cli({"describe", "lenet5-spatial"});
  EXPECT_THAT(described.out, AllOf(HasSubstr("T_comp "), HasSubstr("T_sync "), HasSubstr("T_sync / T_comp < R - 1 "),
                                   HasSubstr("R - 1 is 3")));
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
