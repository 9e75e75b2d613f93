// The deep prior of examples/deep-prior on two real daemons, its data made as a user makes them: four ranks train what
// plain, serial PyTorch trains from the same weights, and the field of the example nears the solution it was not shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "planner/spec/spec_parser.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "tests/e2e/mnist_jobs.h"
#include "tests/e2e/serial_lenet.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 1e-10;
constexpr int kComparedSteps = 20;
constexpr double kLargestError = 0.15;  // root of the mean square, where the solution has 0.38

absl::StatusOr<JobSpec> Example(const std::string& name) {
  const std::string path = absl::StrCat("examples/deep-prior/", name, ".textproto");
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(ReadFile(Runfile(path)), path));
  return parsed.spec;
}

void RunPython(std::vector<std::string> command, const std::string& log) {
  command[0] = Runfile(absl::StrCat("examples/deep-prior/", command[0]));
  command.insert(command.begin(), "/usr/bin/python3");
  auto python = ChildProgram::Start(command, {"OMP_NUM_THREADS=1"}, testing::TempDir() + "/" + log);
  ASSERT_TRUE(python.ok()) << python.status();
  const absl::StatusOr<int> code = (*python)->Wait(Deadline::After(absl::Seconds(240)));
  ASSERT_TRUE(code.ok()) << code.status();
  ASSERT_EQ(*code, 0) << (*python)->Errors();
}

// Runs it to its end and returns the folder of its results.
absl::StatusOr<std::string> RunJob(LocalCluster& cluster, const JobSpec& spec) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(spec, &text)) return absl::InternalError("not printable");
  ADJOIN_ASSIGN_OR_RETURN(const std::string job, cluster.Submit(text));
  ADJOIN_ASSIGN_OR_RETURN(const JobSummary end, cluster.WaitFor(job, Deadline::After(absl::Seconds(240))));
  if (end.state() != SUCCEEDED) return absl::InternalError(absl::StrCat(spec.name(), ": ", end.reason()));
  return absl::StrCat(cluster.output_root(), "/", spec.output_dir());
}

// Returns the mean squared error against the solution that deep-prior-evaluate finds with the weights in this output
// folder.
absl::StatusOr<double> ErrorOf(LocalCluster& cluster, const std::string& trained) {
  ADJOIN_ASSIGN_OR_RETURN(JobSpec spec, Example("deep-prior-evaluate"));
  spec.set_name(trained + "-evaluate");
  spec.set_output_dir(spec.name());
  spec.mutable_weights()->set_from_output(trained + "/model.safetensors");
  ADJOIN_ASSIGN_OR_RETURN(const std::string folder, RunJob(cluster, spec));
  std::ifstream in(folder + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    if (entry["type"] == "evaluation") return entry.at("mse").get<double>();
  }
  return absl::NotFoundError("no evaluation in " + folder + "/metrics.jsonl");
}

void ExpectSame(const NamedTensors& weights, const NamedTensors& serial) {
  ASSERT_EQ(weights.size(), serial.size());
  for (const auto& [name, expected] : serial) {
    const auto found = weights.find(name);
    ASSERT_NE(found, weights.end()) << name;
    ASSERT_EQ(found->second.sizes(), expected.sizes()) << name;
    const double largest = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LE((found->second - expected).abs().max().item<double>(), kTolerance * largest) << name;
  }
}

class DeepPrior : public testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(2, 2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    data_ = cluster_->data_root() + "/deep-prior";
    ASSERT_NO_FATAL_FAILURE(RunPython({"make_data.py", data_}, "make_data"));
  }
  void TearDown() override { EXPECT_EQ(cluster_->Stop(), absl::OkStatus()); }

  std::unique_ptr<LocalCluster> cluster_;
  std::string data_;
};

TEST_F(DeepPrior, FourRanksTrainWhatSerialPyTorchTrains) {
  const std::string serial_folder = cluster_->folder() + "/serial";
  ASSERT_NO_FATAL_FAILURE(RunPython(
      {"train_pytorch.py", "--data", data_, "--steps", absl::StrCat(kComparedSteps), "--output", serial_folder},
      "serial"));
  const auto serial = ReadOutput(serial_folder);
  ASSERT_TRUE(serial.ok()) << serial.status();
  fs::copy_file(serial_folder + "/init.safetensors", data_ + "/init.safetensors");

  auto spec = Example("deep-prior");
  ASSERT_TRUE(spec.ok()) << spec.status();
  spec->mutable_train()->set_steps(kComparedSteps);
  spec->mutable_weights()->set_init_from("deep-prior/init.safetensors");
  const auto folder = RunJob(*cluster_, *spec);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto job = ReadOutput(*folder);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->losses.size(), static_cast<size_t>(kComparedSteps));
  ASSERT_EQ(serial->losses.size(), static_cast<size_t>(kComparedSteps));
  ASSERT_EQ(job->rates.size(), serial->rates.size());
  for (int step = 0; step < kComparedSteps; ++step) {
    EXPECT_NEAR(job->losses[step], serial->losses[step], kTolerance * serial->losses[step]) << "step " << step + 1;
    EXPECT_NEAR(job->rates[step], serial->rates[step], kTolerance * serial->rates[step]) << "step " << step + 1;
  }
  EXPECT_LT(serial->losses.back(), 0.05 * serial->losses.front()) << "it learns";
  ExpectSame(job->weights, serial->weights);
}

// The job of the README, from weights that the job draws itself.
TEST_F(DeepPrior, TheFieldNearsTheSolution) {
  auto first = Example("deep-prior");
  ASSERT_TRUE(first.ok()) << first.status();
  first->mutable_train()->set_steps(1);
  first->set_output_dir("first-step");
  ASSERT_TRUE(RunJob(*cluster_, *first).ok());
  const auto before = ErrorOf(*cluster_, "first-step");
  ASSERT_TRUE(before.ok()) << before.status();
  const auto spec = Example("deep-prior");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto folder = RunJob(*cluster_, *spec);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto after = ErrorOf(*cluster_, "deep-prior");
  ASSERT_TRUE(after.ok()) << after.status();
  std::cout << "mean squared error " << *before << " after a step, " << *after << " at the end" << std::endl;
  EXPECT_LT(*after, 0.1 * *before);
  EXPECT_LT(std::sqrt(*after), kLargestError);

  const auto job = ReadOutput(*folder);
  ASSERT_TRUE(job.ok()) << job.status();
  const at::Tensor stencil = job->weights.at("laplace.weight").flatten();
  ASSERT_EQ(stencil.numel(), 27);
  for (int i = 0; i < 27; ++i) {
    const bool neighbour = i == 4 || i == 10 || i == 12 || i == 14 || i == 16 || i == 22;
    EXPECT_EQ(stencil[i].item<double>(), i == 13 ? -6 : neighbour ? 1 : 0) << "place " << i << ": it is not trained";
  }
}

}  // namespace
}  // namespace adjoin
