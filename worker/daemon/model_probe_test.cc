#include "worker/daemon/model_probe.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primitives/geometry/dtype.h"
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
}

TEST_F(ModelProbeTest, MissingAndTruncatedFiles) {
  EXPECT_EQ(Error(), "weights.init_from: 'model.safetensors': no such file below the worker's data root");
  EXPECT_EQ(result_.field(), "weights.init_from");
  std::ofstream(root_ + "/data/model.safetensors", std::ios::binary) << std::string("\x03\0\0\0\0\0\0\0{}", 10);
  EXPECT_THAT(Error(), AllOf(HasSubstr("truncated"), Not(HasSubstr(root_))));
  request_.mutable_weights()->set_init_from("../output/x");
  EXPECT_THAT(Error(), HasSubstr("'..'"));
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
}

}  // namespace
}  // namespace adjoin
