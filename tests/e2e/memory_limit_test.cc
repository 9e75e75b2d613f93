// A network that does not fit: one rank would need more than resources.memory_bytes allows. With --auto four ranks
// train it under that limit, and their losses are those of one rank that nothing limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-10;

// One rank needs 2 GiB of tensors, most of it for the convolution after the last concatenation.
constexpr char kUNet[] = R"job(
layer { name: "down1.conv1" input: "volume" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down1.norm1" norm { kind: "batch" } }
layer { name: "down1.relu1" activation { fn: "relu" } }
layer { name: "down1.conv2" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down1.norm2" norm { kind: "batch" } }
layer { name: "down1.relu2" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 } } }
layer { name: "down2.conv1" conv { out_channels: 16 window { kernel: 3 pad_lo: 1 } } }
layer { name: "down2.norm1" norm { kind: "batch" } }
layer { name: "down2.relu1" activation { fn: "relu" } }
layer { name: "pool2" pool { mode: "max" window { kernel: 2 } } }
layer { name: "bottom.conv1" conv { out_channels: 32 window { kernel: 3 pad_lo: 1 } } }
layer { name: "bottom.norm1" norm { kind: "batch" } }
layer { name: "bottom.relu1" activation { fn: "relu" } }
layer { name: "up2" conv { out_channels: 16 transposed: true window { kernel: 2 stride: 2 } } }
layer { name: "skip2" input: ["down2.relu1", "up2"] concat { arg: 1 } }
layer { name: "left2.conv1" conv { out_channels: 16 window { kernel: 3 pad_lo: 1 } } }
layer { name: "left2.norm1" norm { kind: "batch" } }
layer { name: "left2.relu1" activation { fn: "relu" } }
layer { name: "up1" conv { out_channels: 8 transposed: true window { kernel: 2 stride: 2 } } }
layer { name: "skip1" input: ["down1.relu2", "up1"] concat { arg: 1 } }
layer { name: "left1.conv1" conv { out_channels: 8 window { kernel: 3 pad_lo: 1 } } }
layer { name: "left1.norm1" norm { kind: "batch" } }
layer { name: "left1.relu1" activation { fn: "relu" } }
layer { name: "head" conv { out_channels: 3 window { kernel: 1 } } }
loss { kind: "cross_entropy" input: "head" target: "label" }
dataset { name: "train"
  field { name: "volume" synthetic { kind: "normal" samples: 8 } shape: [1, 80, 80, 80] }
  field { name: "label" synthetic { kind: "index" samples: 8 high: 3 } shape: [80, 80, 80] dtype: "int64" } }
train { dataset: "train" batch: 1 steps: 2 optimizer { sgd { lr: 0.05 momentum: 0.9 } } }
precision { compute: "float64" params: "float64" }
)job";

// Less than one rank needs, also with the 1 GiB that the program itself may use.
constexpr char kLimit[] = "resources { memory_bytes: 629145600 }\n";

std::string JobText(const std::string& name, absl::string_view limit) {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: 1 seed: 1 output_dir: \"", name, "\"", kUNet, limit);
}

absl::StatusOr<JobSummary> End(LocalCluster& cluster, const absl::StatusOr<std::string>& job) {
  if (!job.ok()) return job.status();
  return cluster.WaitFor(*job, Deadline::After(absl::Seconds(200)));
}

TEST(MemoryLimit, FourRanksTrainUnderItWhatOneRankCannot) {
  auto cluster = LocalCluster::Start(1, 4);
  ASSERT_TRUE(cluster.ok()) << cluster.status();

  const auto limited = End(**cluster, (*cluster)->Submit(JobText("limited", kLimit)));
  if (limited.ok()) {
    EXPECT_EQ(limited->state(), FAILED) << "it fits";
    EXPECT_THAT(limited->reason(), HasSubstr("out of memory"));
  } else {
    EXPECT_THAT(std::string(limited.status().message()), AnyOf(HasSubstr("memory_bytes"), HasSubstr("memory")));
  }

  const std::string file = (*cluster)->folder() + "/cut.textproto";
  std::ofstream(file) << JobText("cut", kLimit);
  const LocalCluster::CliResult submitted = (*cluster)->Cli({"submit", "--auto", "--ranks", "4", file});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string id = submitted.out.substr(submitted.out.rfind("job-"));
  const auto cut = End(**cluster, std::string(absl::StripAsciiWhitespace(id)));
  ASSERT_TRUE(cut.ok()) << cut.status();
  ASSERT_EQ(cut->state(), SUCCEEDED) << cut->reason();
  const auto described = (*cluster)->Describe(cut->job_id());
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->rank_size(), 4);

  const auto serial = End(**cluster, (*cluster)->Submit(JobText("serial", "")));
  ASSERT_TRUE(serial.ok()) << serial.status();
  ASSERT_EQ(serial->state(), SUCCEEDED) << serial->reason();

  const auto found = ReadOutput((*cluster)->output_root() + "/cut");
  ASSERT_TRUE(found.ok()) << found.status();
  const auto expected = ReadOutput((*cluster)->output_root() + "/serial");
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(expected->losses.size(), 2u);
  ASSERT_EQ(found->losses.size(), 2u);
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(found->losses[step], expected->losses[step], kTolerance) << "step " << step + 1;
  }
  EXPECT_LT(expected->losses[1], expected->losses[0]) << "the step has changed something";
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
