#include "worker/daemon/model_probe.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "base/content_hash.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/rank_file.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::string(getenv("TEST_TMPDIR")) + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(root_ + "/data");
    std::filesystem::create_directories(root_ + "/output/job");
    request_.mutable_weights()->set_init_from("model.safetensors");
    Expect("fc.weight", {2, 3});
    Expect("fc.bias", {2});
  }
  void Expect(const std::string& name, const std::vector<int64_t>& shape) {
    ModelTensor& tensor = *request_.add_tensor();
    tensor.set_name(name);
    for (int64_t extent : shape) tensor.add_shape(extent);
  }
  void Write(const std::string& path, const std::vector<SafetensorsEntry>& entries) {
    auto writer = SafetensorsWriter::Create(root_ + "/" + path, entries);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : entries) {
      const std::vector<char> zeros(entry.Bytes());
      ASSERT_TRUE((*writer)->Append(zeros.data(), entry.Bytes()).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  std::string Error() {
    result_.Clear();
    ProbeModel(root_ + "/data", root_ + "/output", request_, result_);
    return result_.error();
  }

  std::string root_;
  ModelProbe request_;
  ProbeResult result_;
};

TEST_F(ModelProbeTest, AcceptsAFileThatFits) {
  Write("data/model.safetensors", {{"fc.weight", DType::kFloat32, {2, 3}}, {"fc.bias", DType::kFloat64, {2}}});
  EXPECT_EQ(Error(), "");
  EXPECT_EQ(result_.field(), "");
  EXPECT_FALSE(result_.has_weights_file()) << "a user's own file may be mended before the job is tried again";
}

TEST_F(ModelProbeTest, MissingAndTruncatedFiles) {
  EXPECT_EQ(Error(), "weights.init_from: 'model.safetensors': no such file below the worker's data root");
  EXPECT_EQ(result_.field(), "weights.init_from");
  std::ofstream(root_ + "/data/model.safetensors", std::ios::binary) << std::string("\x03\0\0\0\0\0\0\0{}", 10);
  EXPECT_THAT(Error(), AllOf(HasSubstr("truncated"), Not(HasSubstr(root_))));
  request_.mutable_weights()->set_init_from("../output/x");
  EXPECT_THAT(Error(), HasSubstr("'..'"));
}

// The file is open by another path, in which its name is not.
TEST_F(ModelProbeTest, TheLineThatConvertsAFileNamesItAsTheJobDoes) {
  std::ofstream(root_ + "/data/unet.pt", std::ios::binary) << "PK\x03\x04 as torch.save writes";
  request_.mutable_weights()->set_init_from("unet.pt");
  EXPECT_THAT(Error(), AllOf(HasSubstr("weights.init_from: unet.pt: not a safetensors file but a zip archive"),
                             HasSubstr("torch.load(\"unet.pt\","), HasSubstr("\"unet.safetensors\")'")));
}

TEST_F(ModelProbeTest, DifferencesAreListed) {
  Expect("norm.bias", {2});
  Write("data/model.safetensors", {{"fc.weight", DType::kFloat32, {3, 2}},
                                   {"head.bias", DType::kFloat32, {2}},
                                   {"norm.bias", DType::kFloat32, {2}}});
  EXPECT_THAT(Error(), AllOf(HasSubstr("missing: fc.bias"), HasSubstr("not in the model: head.bias"),
                             HasSubstr("fc.weight: 2x3 in the model, 3x2 in the file"), HasSubstr("strict: false")));
  request_.mutable_weights()->set_strict(false);
  EXPECT_EQ(Error(), "");
  request_.mutable_weights()->clear_strict();
  request_.clear_tensor();
  EXPECT_EQ(Error(), "") << "nothing is known of the model";
}

TEST_F(ModelProbeTest, RefusesAFileOfWhichNothingFitsAlsoIfNotStrict) {
  Write("data/model.safetensors", {{"other.weight", DType::kFloat32, {2, 3}}});
  request_.mutable_weights()->set_strict(false);
  EXPECT_THAT(Error(), HasSubstr("has no tensor of the model"));
}

TEST_F(ModelProbeTest, FindsAModelThatAnotherJobWrote) {
  request_.mutable_weights()->clear_init_from();
  request_.mutable_weights()->set_from_output("job/model.safetensors");
  EXPECT_EQ(Error(), "weights.from_output: 'job/model.safetensors': no such file below the worker's output root");
  EXPECT_EQ(result_.field(), "weights.from_output");
  Write("output/job/model.safetensors", {{"fc.weight", DType::kFloat32, {2, 3}}, {"fc.bias", DType::kFloat32, {2}}});
  EXPECT_EQ(Error(), "");
  const std::string file = root_ + "/output/job/model.safetensors";
  ASSERT_EQ(result_.weights_file().sum_size(), 1) << "ranks find out by it that another job has replaced the file";
  EXPECT_EQ(result_.weights_file().bytes(), static_cast<int64_t>(std::filesystem::file_size(file)));
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(result_.weights_file().sum(0), ContentHash::Of(content.str()));
}

// Checkpoints of job 7, a rank each having half of fc.weight.
class CheckpointProbeTest : public ModelProbeTest {
 protected:
  void SetUp() override {
    ModelProbeTest::SetUp();
    request_.mutable_weights()->clear_init_from();
    request_.mutable_weights()->set_from_job("job-7");
    request_.mutable_checkpoint()->set_dir("job/ckpt");
    request_.mutable_checkpoint()->set_job_tag(7);
    files_ = std::make_unique<DiskFiles>(root_ + "/output");
    WriteCheckpoint(20, {{"loss", 1.5}});
    WriteCheckpoint(30, {{"loss", 2.5}});
    WriteCheckpoint(40, {});
  }
  static std::string PathOfStep(int64_t step) { return "job/ckpt/" + CheckpointName{step, 1, 7}.ToString(); }
  void WriteCheckpoint(int64_t step, const std::map<std::string, double>& validation) {
    Manifest manifest;
    manifest.name = {step, 1, 7};
    manifest.validation = validation;
    const std::string folder = PathOf("job/ckpt", manifest.name.ToString());
    ASSERT_EQ(files_->MakeFolder(folder), absl::OkStatus());
    const std::map<std::string, std::vector<int64_t>> shapes = {
        {"fc.weight", {2, 3}}, {"exp_avg/fc.weight", {2, 3}}, {"fc.bias", {2}}};
    for (const auto& [name, shape] : shapes) manifest.tensors[name] = {DType::kFloat32, shape, {}};
    const std::vector<float> cells(3, 0.5f);
    const std::atomic<bool> stop{false};
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<HeldBox> held;
      for (const auto& [name, shape] : shapes) {
        std::vector<Interval> dims = {{rank, rank + 1}};
        if (shape.size() == 2) dims.push_back({0, 3});
        held.push_back({.tensor = name, .dtype = DType::kFloat32, .box = Box(dims), .data = cells.data()});
      }
      ASSERT_EQ(WriteRankFile(*files_, folder, manifest.name, rank, held, stop), absl::OkStatus());
    }
    ASSERT_EQ(FinishCheckpoint(*files_, "job/ckpt", {0, 1}, manifest), absl::OkStatus());
  }
  CheckpointRead& read() { return *request_.mutable_checkpoint(); }

  std::unique_ptr<DiskFiles> files_;
};

TEST_F(CheckpointProbeTest, ChoosesOneAndTellsItsPlace) {
  read().set_newest(true);
  EXPECT_EQ(Error(), "");
  EXPECT_EQ(result_.weights(), PathOfStep(40));
  read().mutable_choice()->set_best(true);
  EXPECT_EQ(Error(), "");
  EXPECT_EQ(result_.weights(), PathOfStep(20));
  read().mutable_choice()->set_best(false);
  read().mutable_choice()->set_step(30);
  EXPECT_EQ(Error(), "");
  EXPECT_EQ(result_.weights(), PathOfStep(30));
}

TEST_F(CheckpointProbeTest, TellsWhatThereIsWhereNoneFits) {
  read().mutable_choice()->set_step(35);
  EXPECT_EQ(Error(),
            "weights.from_job: job-7: no checkpoint is of step 35; there are checkpoints of the steps 40, 30, 20 (the "
            "best by loss)");
  EXPECT_EQ(result_.field(), "weights.from_job");
  read().mutable_choice()->set_step(0);
  read().mutable_choice()->set_best(true);
  read().set_metric("dice");
  EXPECT_THAT(Error(), HasSubstr("as checkpoint { keep_best: \"dice\" } has them taken"));
  read().mutable_choice()->set_best(false);
  read().set_newest(true);
  read().set_job_tag(8);
  EXPECT_EQ(Error(), "weights.from_job: job-7: the job has left no finished checkpoint");
  EXPECT_EQ(result_.weights(), "");
}

TEST_F(CheckpointProbeTest, TensorsAreComparedAsInAFileWithoutTheOptimizers) {
  read().set_newest(true);
  Expect("norm.bias", {2});
  EXPECT_THAT(Error(), AllOf(HasSubstr("missing: norm.bias"), Not(HasSubstr("exp_avg"))));
  EXPECT_EQ(result_.weights(), "");
  request_.mutable_weights()->set_strict(false);
  EXPECT_EQ(Error(), "");
  request_.mutable_weights()->clear_strict();
  request_.clear_tensor();
  Expect("fc.bias", {2});
  Expect("fc.weight", {6});
  EXPECT_THAT(Error(), HasSubstr("fc.weight: 6 in the model, 2x3 in the file"));
  // A file has heads, features and inputs in one dim, a checkpoint does not.
  request_.mutable_tensor(1)->add_home_shape(2);
  request_.mutable_tensor(1)->add_home_shape(3);
  EXPECT_EQ(Error(), "");
}

TEST_F(CheckpointProbeTest, FromOutputMayNameACheckpointToo) {
  request_.clear_checkpoint();
  request_.mutable_weights()->clear_from_job();
  request_.mutable_weights()->set_from_output(PathOfStep(20));
  EXPECT_EQ(Error(), "");
  request_.mutable_weights()->set_from_output(PathOfStep(21));
  EXPECT_EQ(Error(),
            "weights.from_output: '" + PathOfStep(21) + "': no such checkpoint below the worker's output root");
}

}  // namespace
}  // namespace adjoin
