// Each kind of layer has a rule of memory. tests/vs_serial/step_memory_test compares networks with the allocator.
#include "planner/memory/layer_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/job.pb.h"

namespace adjoin {
namespace {

TEST(LayerMemoryTest, KnowsEachKind) {
  const google::protobuf::OneofDescriptor* op = Layer::descriptor()->FindOneofByName("op");
  ASSERT_NE(op, nullptr);
  for (int i = 0; i < op->field_count(); ++i) {
    const std::string kind(op->field(i)->name());
    // A plan has the layers that a transformer is made of.
    if (kind == "custom" || kind == "transformer") continue;
    EXPECT_TRUE(KnowsMemoryOf(kind)) << "planner/memory/layer_memory.cc has no rule for \"" << kind << "\"";
  }
  EXPECT_FALSE(KnowsMemoryOf("custom"));
}

}  // namespace
}  // namespace adjoin
