// The jobs of examples/mnist through a real coordinator on 1, 2 and 4 real daemons: loss by loss, and to the same
// weights, as a plain serial program from the same initial file; and every rank sends as many bytes as the plan counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <tuple>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "planner/plan/file_halos.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

constexpr int64_t kSteps = 50;

struct Precision {
  const char* name;
  at::ScalarType dtype;
  uint64_t seed;
  double tolerance;
};
constexpr Precision kFloat64 = {"float64", at::kDouble, kSeedFloat64, 1e-10};
constexpr Precision kFloat32 = {"float32", at::kFloat, kSeedFloat32, 1e-4};

// kTrainLimit samples: seven batches and a smaller one.
constexpr bool IsTail(int64_t step) { return step % 8 == 7; }

const ProgramPlan& ProgramOf(const Plan& plan, bool tail) {
  for (const ProgramPlan& program : plan.program()) {
    if (program.name() == (tail ? "train_tail" : "train")) return program;
  }
  TORCH_CHECK(false, "no such program");
}

// The bytes that each rank sends, by its own count: rank 0 counts them step by step, the others all together.
void ExpectPlannedBytes(LocalCluster& cluster, const JobSpec& spec, const std::string& job, const JobOutput& output) {
  auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ReadHalosFromFiles(&*plan);  // as the coordinator does
  int64_t tails = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(output.bytes_sent[step], ProgramOf(*plan, IsTail(step)).bytes_per_step(0)) << "step " << step + 1;
    tails += IsTail(step);
  }
  for (uint32_t rank = 0; rank < spec.ranks(); ++rank) {
    const int64_t full = (kSteps - tails) * ProgramOf(*plan, false).bytes_per_step(static_cast<int>(rank));
    const int64_t tail = tails * ProgramOf(*plan, true).bytes_per_step(static_cast<int>(rank));
    EXPECT_THAT(cluster.Cli({"logs", "-f", job, "--rank", absl::StrCat(rank)}).out,
                testing::HasSubstr(absl::StrCat("sent ", full, " bytes in ", kSteps - tails, " steps of train, ", tail,
                                                " bytes in ", tails, " steps of train_tail;")))
        << "rank " << rank;
  }
}

class MnistCluster : public testing::TestWithParam<std::tuple<int, Precision>> {};

TEST_P(MnistCluster, EveryJobEqualsSerial) {
  const auto& [nodes, precision] = GetParam();
  const NamedTensors initial = InitialWeights(precision.seed, precision.dtype);
  const SerialRun truth =
      TrainSerially({.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = kSteps}, initial);
  auto cluster = LocalCluster::Start(nodes, 4 / nodes);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  WriteWeights((*cluster)->data_root() + "/init.safetensors", initial);
  for (const char* name : kExampleJobs) {
    SCOPED_TRACE(absl::StrCat(name, " on ", nodes, " daemons"));
    JobSpec spec = ExampleJob(name).value();
    ShortenTo(kSteps, precision.name, spec);
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(spec, &text));
    const auto job = (*cluster)->Submit(text);
    ASSERT_TRUE(job.ok()) << job.status();
    const auto end = (*cluster)->WaitFor(*job, Deadline::After(absl::Seconds(120)));
    ASSERT_TRUE(end.ok()) << end.status();
    ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
    EXPECT_EQ(end->progress().metric().at("correct"), static_cast<double>(truth.correct));
    const auto output = ReadOutput(absl::StrCat((*cluster)->output_root(), "/", spec.output_dir()));
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ(Differences(*output, truth, precision.tolerance), "");
    ExpectPlannedBytes(**cluster, spec, *job, *output);
  }
  // Each node has inflated those of the four gzip files that its ranks read, once for all ranks and jobs.
  for (int node = 0; node < nodes; ++node) {
    int copies = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat((*cluster)->folder(), "/worker-", node, "/link/cache"))) {
      copies += entry.file_size() > 0 ? 1 : 0;
    }
    EXPECT_GE(copies, 1);
    EXPECT_LE(copies, 4);
    if (nodes == 1) {
      EXPECT_EQ(copies, 4);
    }
  }
  const absl::Status stopped = (*cluster)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
}

INSTANTIATE_TEST_SUITE_P(Daemons, MnistCluster,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(kFloat64, kFloat32)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param).name);
                         });

}  // namespace
}  // namespace adjoin
