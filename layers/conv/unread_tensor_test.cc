#include "layers/conv/unread_tensor.h"

#include <cstdint>
#include <fstream>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(UnreadTensorTest, HasShapeAndType) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = UnreadTensor({2, 3, 5}, at::TensorOptions(type));
    EXPECT_EQ(x.sizes(), at::IntArrayRef({2, 3, 5}));
    EXPECT_EQ(x.scalar_type(), type);
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_FALSE(x.requires_grad());
  }
  EXPECT_EQ(UnreadTensor({2, 0, 5}, at::TensorOptions(at::kFloat)).numel(), 0);
}

TEST(UnreadTensorTest, ReadsAsZeros) {
  const at::Tensor x = UnreadTensor({7, 1000}, at::TensorOptions(at::kDouble));
  EXPECT_TRUE((x + at::ones({7, 1000}, at::kDouble)).equal(at::ones({7, 1000}, at::kDouble)));
}

TEST(UnreadTensorTest, TakesNoMemory) {
  const int64_t before = ResidentBytes();
  ASSERT_GT(before, 0);
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(UnreadTensor({1 << 30}, at::TensorOptions(at::kByte)));
  EXPECT_LT(ResidentBytes() - before, 16 << 20);
}

}  // namespace
}  // namespace adjoin
