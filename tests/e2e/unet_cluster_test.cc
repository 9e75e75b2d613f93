// The U-Net of examples/unet through a real coordinator on two real daemons, its images made as a user makes them: four
// ranks train it to the weights, running statistics, losses and accuracy per pixel that one rank does. The job with
// batch normalisation, transposed convolutions, concatenation and a loss per pixel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "planner/spec/spec_parser.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/e2e/serial_lenet.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

constexpr double kTolerance = 1e-9;
constexpr int kSteps = 9;        // an epoch and a half
constexpr int kTrainLimit = 44;  // five batches of eight and one of four
constexpr int kTestLimit = 20;

// The example, short and in float64; on `ranks` ranks, four or one.
absl::StatusOr<JobSpec> ShortJob(int ranks) {
  const std::string path = "examples/unet/unet2d.textproto";
  auto parsed = ParseSpec(ReadFile(Runfile(path)), path);
  if (!parsed.ok()) return parsed.status();
  JobSpec spec = parsed->spec;
  spec.mutable_precision()->set_compute("float64");
  spec.mutable_precision()->set_params("float64");
  spec.mutable_train()->set_steps(kSteps);
  for (Dataset& dataset : *spec.mutable_dataset()) {
    dataset.set_limit(dataset.name() == "train" ? kTrainLimit : kTestLimit);
  }
  spec.set_name(absl::StrCat("unet2d-", ranks));
  spec.set_output_dir(spec.name());
  if (ranks == 4) return spec;
  spec.set_ranks(1);
  for (LayoutSpec& layout : *spec.mutable_layout()) {
    for (auto& parts : *layout.mutable_partition()) parts = 1;
  }
  return spec;
}

struct Trained {
  JobSummary end;
  std::vector<std::string> workers;  // by rank
  JobOutput output;
};

absl::StatusOr<Trained> Train(LocalCluster& cluster, int ranks) {
  const auto spec = ShortJob(ranks);
  if (!spec.ok()) return spec.status();
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(*spec, &text)) return absl::InternalError("not printable");
  const auto job = cluster.Submit(text);
  if (!job.ok()) return job.status();
  Trained trained;
  const auto end = cluster.WaitFor(*job, Deadline::After(absl::Seconds(120)));
  if (!end.ok()) return end.status();
  trained.end = *end;
  if (end->state() != SUCCEEDED) return absl::InternalError(end->reason());
  const auto described = cluster.Describe(*job);
  if (!described.ok()) return described.status();
  for (const RankStatus& rank : described->rank()) trained.workers.push_back(rank.worker());
  auto output = ReadOutput(absl::StrCat(cluster.output_root(), "/", spec->output_dir()));
  if (!output.ok()) return output.status();
  trained.output = *std::move(output);
  return trained;
}

void MakeImages(const std::string& folder) {
  auto python = ChildProgram::Start({"/usr/bin/python3", Runfile("examples/unet/make_data.py"), folder}, {},
                                    testing::TempDir() + "/make_data");
  ASSERT_TRUE(python.ok()) << python.status();
  const absl::StatusOr<int> code = (*python)->Wait(Deadline::After(absl::Seconds(60)));
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_EQ(*code, 0) << (*python)->Errors();
}

void ExpectSameWeights(const NamedTensors& weights, const NamedTensors& serial) {
  ASSERT_EQ(weights.size(), serial.size());
  for (const auto& [name, expected] : serial) {
    const auto found = weights.find(name);
    ASSERT_NE(found, weights.end()) << name;
    ASSERT_EQ(found->second.sizes(), expected.sizes()) << name;
    const bool counter = absl::EndsWith(name, ".num_batches_tracked");
    ASSERT_EQ(found->second.scalar_type(), counter ? at::kLong : at::kDouble) << name;
    const double largest = counter ? 0 : std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LE((found->second - expected).abs().max().item<double>(), kTolerance * largest) << name;
  }
}

// Every batch normalisation saved its statistics, and none are those it began with.
void ExpectTrainedStatistics(const NamedTensors& weights) {
  int count = 0;
  for (const auto& [name, tensor] : weights) {
    if (absl::EndsWith(name, ".num_batches_tracked")) {
      EXPECT_EQ(tensor.item<int64_t>(), kSteps) << name;
    }
    if (!absl::StrContains(name, ".running_")) continue;
    ++count;
    const double initial = absl::EndsWith(name, "running_var") ? 1 : 0;
    EXPECT_GT((tensor - initial).abs().min().item<double>(), 1e-6) << name;
  }
  EXPECT_EQ(count, 20) << "mean and variance of ten layers";
}

TEST(UNetCluster, FourRanksOnTwoDaemonsTrainToWhatOneRankDoes) {
  auto cluster = LocalCluster::Start(2, 2);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_NO_FATAL_FAILURE(MakeImages((*cluster)->data_root() + "/unet"));
  const auto serial = Train(**cluster, 1);
  ASSERT_TRUE(serial.ok()) << serial.status();
  EXPECT_EQ(serial->workers.size(), 1u);
  const auto cut = Train(**cluster, 4);
  ASSERT_TRUE(cut.ok()) << cut.status();
  std::vector<std::string> workers = cut->workers;
  std::sort(workers.begin(), workers.end());
  EXPECT_THAT(workers, ElementsAre("worker-0", "worker-0", "worker-1", "worker-1"));

  ASSERT_EQ(serial->output.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(cut->output.losses.size(), static_cast<size_t>(kSteps));
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(cut->output.losses[step], serial->output.losses[step], kTolerance) << "step " << step + 1;
  }
  EXPECT_LT(serial->output.losses.back(), 0.9 * serial->output.losses.front()) << "it learns";
  ExpectSameWeights(cut->output.weights, serial->output.weights);
  ExpectTrainedStatistics(cut->output.weights);

  EXPECT_GT(serial->output.correct, 0);
  EXPECT_EQ(cut->output.correct, serial->output.correct);
  EXPECT_NEAR(cut->output.test_loss, serial->output.test_loss, kTolerance);
  const auto& metric = cut->end.progress().metric();
  EXPECT_EQ(metric.at("accuracy"), serial->end.progress().metric().at("accuracy"));
  EXPECT_DOUBLE_EQ(metric.at("accuracy"), cut->output.correct / (kTestLimit * 64.0 * 64.0));
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
