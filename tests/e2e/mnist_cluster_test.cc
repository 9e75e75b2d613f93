// The jobs of examples/mnist through a real coordinator on 1, 2 and 4 real daemons: loss by loss, and to the same
// weights, as a plain serial program from the same initial file.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

constexpr int64_t kSteps = 50;

const SerialRun& Truth() {
  static const SerialRun truth = TrainSerially(
      {.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = kSteps}, InitialWeights(1, torch::kFloat64));
  return truth;
}

class MnistCluster : public testing::TestWithParam<int> {};

TEST_P(MnistCluster, EveryJobEqualsSerial) {
  const int nodes = GetParam();
  auto cluster = LocalCluster::Start(nodes, 4 / nodes);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  WriteWeights((*cluster)->data_root() + "/init.safetensors", InitialWeights(1, torch::kFloat64));
  for (const char* name : kExampleJobs) {
    JobSpec spec = ExampleJob(name).value();
    ShortenTo(kSteps, "float64", spec);
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(spec, &text));
    const auto job = (*cluster)->Submit(text);
    ASSERT_TRUE(job.ok()) << name << ": " << job.status();
    const auto end = (*cluster)->WaitFor(*job, Deadline::After(absl::Seconds(120)));
    ASSERT_TRUE(end.ok()) << name << ": " << end.status();
    ASSERT_EQ(end->state(), SUCCEEDED) << name << ": " << end->reason();
    EXPECT_EQ(end->progress().metric().at("correct"), static_cast<double>(Truth().correct)) << name;
    const auto output = ReadOutput(absl::StrCat((*cluster)->output_root(), "/", spec.output_dir()));
    ASSERT_TRUE(output.ok()) << name << ": " << output.status();
    EXPECT_EQ(Differences(*output, Truth(), 1e-10), "") << name << " on " << nodes << " daemons";
  }
  const absl::Status stopped = (*cluster)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

INSTANTIATE_TEST_SUITE_P(Daemons, MnistCluster, testing::Values(1, 2, 4),
                         [](const auto& info) { return absl::StrCat(info.param); });

}  // namespace
}  // namespace adjoin
