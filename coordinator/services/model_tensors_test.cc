#include "coordinator/services/model_tensors.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/plan.pb.h"

namespace adjoin {
namespace {

TEST(ModelTensorsTest, HasTheParametersOfAPlanInTheirStoredShapes) {
  Plan plan;
  plan.set_version(1);
  plan.mutable_spec()->set_name("net");
  ParameterPlan& first = *plan.add_parameter();
  first.set_name("attention.in_proj_weight");
  for (int64_t extent : {3, 8, 4}) first.mutable_home()->add_shape(extent);
  first.add_stored_shape(24);
  first.add_stored_shape(4);
  ParameterPlan& second = *plan.add_parameter();
  second.set_name("fc.bias");
  second.mutable_home()->add_shape(10);
  plan.add_program()->set_name("train");
  CheckpointRead read;
  ASSERT_EQ(AddModelTensors(plan.SerializeAsString(), &read), absl::OkStatus());
  ASSERT_EQ(read.tensor_size(), 2);
  EXPECT_EQ(read.tensor(0).name(), "attention.in_proj_weight");
  ASSERT_EQ(read.tensor(0).shape_size(), 2);
  EXPECT_EQ(read.tensor(0).shape(0), 24);
  EXPECT_EQ(read.tensor(1).name(), "fc.bias");
  ASSERT_EQ(read.tensor(1).shape_size(), 1);
  EXPECT_EQ(read.tensor(1).shape(0), 10);
}

TEST(ModelTensorsTest, RefusesWhatIsNoPlan) {
  Plan plan;
  plan.add_parameter()->set_name("fc.bias");
  const std::string text = plan.SerializeAsString();
  CheckpointRead read;
  for (size_t size = 1; size < text.size(); ++size) {
    EXPECT_EQ(AddModelTensors(text.substr(0, size), &read).code(), absl::StatusCode::kDataLoss) << size;
  }
}

}  // namespace
}  // namespace adjoin
