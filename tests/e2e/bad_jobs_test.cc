// `adjoin submit` refuses a wrong job with the line of the error and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct BadJob {
  const char* name;
  const char* from;  // in lenet5-spatial.textproto, once or more: the first one counts
  const char* to;
  const char* line;  // begins the line that is to be named; null: that of `from`
  const char* what;
  const char* right;  // what would be right
};

const BadJob kBadJobs[] = {
    {"an unknown field", "seed: 1", "sead: 1", nullptr, "no field named \"sead\"", ""},
    {"an unknown kind of layer", "repartition {}", "repartitoin {}", nullptr, "no field named \"repartitoin\"", ""},
    {"an unregistered layer", "repartition {}", "custom { type: \"mine\" }", nullptr,
     "layer type \"mine\" is not known", "known"},
    {"an input that is no layer", "name: \"conv2\"", "name: \"conv2\" input: \"conv7\"", nullptr,
     "neither an earlier layer nor a field", ""},
    {"a loss of no layer", "input: \"fc3\"", "input: \"fc4\"", nullptr, "there is no layer \"fc4\"",
     "the last one is \"fc3\""},
    {"a partition of other ranks than it names", "partition: [1, 2, 1, 1]", "partition: [1, 3, 1, 1]", nullptr,
     "1x3x1x1 takes 3 ranks, but 2 are named", ""},
    {"more parts than ranks", "partition: [1, 1, 2, 2]", "partition: [1, 1, 2, 3]", nullptr, "takes more ranks",
     "the job has, 4"},
    {"a kernel larger than the padded input", "out_channels: 16 window { kernel: 5 }",
     "out_channels: 16 window { kernel: 15 }", nullptr, "layer 3 \"conv2\": kernel 15", "14 + 0 + 0 = 14"},
    {"layers whose shapes do not fit", "layer { name: \"flat\" flatten { arg: 1 } }", "", "layer { name: \"fc1\"",
     "layout \"row\" is for tensors of 2 dims", ""},
    {"a flatten of a layout that does not fit", "name: \"flat\" flatten", "name: \"flat\" x: \"grid\" flatten", nullptr,
     "layer 7 \"flat\": from 64x16x5x5 to 64x400", "let it name a layout such as partition: [1, 4, 1, 1]"},
    {"a batch of 0", "batch: 64", "batch: 0", nullptr, "train.batch is 0", "at least 1"},
    {"a missing data file", "mnist/train-labels.idx.gz", "mnist/labels.idx.gz", nullptr,
     "data set 'train', field 'label': 'mnist/labels.idx.gz': no such file", "below the worker's data root"},
    {"a truncated data file", "mnist/test-images.idx.gz", "mnist/truncated.idx.gz", nullptr,
     "data set 'test', field 'image': 'mnist/truncated.idx.gz': truncated", "fetch the file again"},
    {"a truncated plain data file", "mnist/test-labels.idx.gz", "mnist/short.idx", nullptr,
     "data set 'test', field 'label': 'mnist/short.idx': truncated", "so 2000 bytes of data were expected, found 1000"},
};

// "12" for the place of `text` in a job of many lines.
int64_t LineOf(const std::string& job, const std::string& text) {
  return 1 + std::count(job.begin(), job.begin() + static_cast<int64_t>(job.find(text)), '\n');
}

TEST(BadJobs, AreRefusedWithTheirLineAndWhatWouldBeRight) {
  auto cluster = LocalCluster::Start(1, 4);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::filesystem::path data = (*cluster)->data_root() + "/mnist";
  const std::string whole = ReadFile(data / "test-images.idx.gz");
  std::ofstream(data / "truncated.idx.gz", std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::ofstream(data / "short.idx", std::ios::binary)
      << std::string("\0\0\x08\x01\0\0\x07\xd0", 8) << std::string(1000, 1);
  const std::string good = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
  const std::string file = (*cluster)->output_root() + "/job.textproto";
  for (const BadJob& bad : kBadJobs) {
    SCOPED_TRACE(bad.name);
    const size_t at = good.find(bad.from);
    ASSERT_NE(at, std::string::npos);
    const std::string job = std::string(good).replace(at, std::string(bad.from).size(), bad.to);
    std::ofstream(file) << job;
    const LocalCluster::CliResult refused = (*cluster)->Cli({"submit", file});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_EQ(refused.out, "");
    const int64_t line = bad.line == nullptr ? LineOf(good, bad.from) : LineOf(job, bad.line);
    EXPECT_THAT(refused.err, AllOf(StartsWith(absl::StrCat("adjoin: error: ", file, ":", line, ":")),
                                   HasSubstr(bad.what), HasSubstr(bad.right)));
  }
  EXPECT_THAT((*cluster)->Cli({"ps"}).out, HasSubstr("no jobs"));
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
