// What users are told of a job that waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PendingReasonTest : public CoordinationTest {};

TEST_F(PendingReasonTest, CountsOnlySlotsOfWorkersWithTheLabelsOfTheJob) {
  Connect(1, "worker-0", 4);
  JobSpec spec = Spec("near", 2);
  (*spec.mutable_resources()->mutable_node_label())["zone"] = "a";
  (*spec.mutable_resources()->mutable_node_label())["disk"] = "ssd";
  const std::string first = Submit(spec);
  EXPECT_THAT(Job(first).reason(), AllOf(StartsWith("needs 2 slots, and no worker is there with disk=ssd, zone=a"),
                                         HasSubstr("it starts when more workers connect")));
  WorkerHello hello = Hello("worker-1", 3);
  (*hello.mutable_label())["zone"] = "a";
  (*hello.mutable_label())["disk"] = "ssd";
  Connect(2, hello);
  EXPECT_EQ(Job(first).state(), STARTING);
  const std::string second = Submit(spec);
  EXPECT_THAT(Job(second).reason(), StartsWith("needs 2 slots, 1 of 3 free on 1 worker with disk=ssd, zone=a"));
  EXPECT_THAT(Job(second).reason(), Not(HasSubstr("when more workers")));
}

TEST_F(PendingReasonTest, CountsOnlyGpusOfThoseWorkersToo) {
  WorkerHello far = Hello("worker-0", 4);
  Gpu& gpu = *far.add_gpu();
  gpu.set_uuid("GPU-0");
  gpu.set_name("NVIDIA H200");
  Connect(1, far);
  WorkerHello near = Hello("worker-1", 4);
  (*near.mutable_label())["zone"] = "a";
  Connect(2, near);
  JobSpec spec = Spec("net", 1);
  spec.mutable_resources()->set_gpus(1);
  (*spec.mutable_resources()->mutable_node_label())["zone"] = "a";
  EXPECT_THAT(Job(Submit(spec)).reason(),
              StartsWith("needs 1 slot, 4 of 4 free on 1 worker with zone=a, and 1 GPU, 0 of 0 free on 0 workers"));
}

}  // namespace
}  // namespace adjoin
