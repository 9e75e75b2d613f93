#include "primitives/tensor_memory.h"

#include "base/process_memory.h"
#include "base/testing/test_seed.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

at::Tensor MiB(double mib, int64_t value = 0) {
  return at::full({static_cast<int64_t>(mib * 131072)}, value, at::kLong);
}

class TensorMemoryTest : public testing::Test {
 protected:
  void SetUp() override { ReuseTensorMemory(/*smallest=*/1 << 20); }
};

TEST_F(TensorMemoryTest, GivesALargeTensorTheMemoryOfOneThatIsGone) {
  at::Tensor first = MiB(8, 1);
  const void* const memory = first.data_ptr();
  at::Tensor alias = first.narrow(0, 5, 7);
  first.reset();
  at::Tensor other = MiB(8, 2);
  EXPECT_NE(other.data_ptr(), memory);  // still referred to
  EXPECT_TRUE(at::equal(alias, at::ones({7}, at::kLong)));
  alias.reset();
  const int64_t mapped = TensorMemoryInUse().mapped;
  at::Tensor second = MiB(7.5, 3);
  EXPECT_EQ(second.data_ptr(), memory);
  EXPECT_EQ(TensorMemoryInUse().mapped, mapped);
  EXPECT_TRUE(at::equal(second, at::full({983040}, 3, at::kLong)));
}

TEST_F(TensorMemoryTest, KeepsWasteSmall) {
  { const at::Tensor gone = MiB(8); }
  const int64_t live = TensorMemoryInUse().live;
  const at::Tensor small = MiB(4);
  EXPECT_EQ(TensorMemoryInUse().live - live, 4 << 20);
}

TEST_F(TensorMemoryTest, NeverHoldsMoreThanWasOnceInUse) {
  std::mt19937_64 random(TestSeed());
  std::vector<at::Tensor> tensors(6);
  for (int i = 0; i < 400; ++i) {
    at::Tensor& tensor = tensors[random() % tensors.size()];
    tensor.reset();
    if (random() % 4 != 0) tensor = MiB(0.5 + static_cast<double>(random() % 100) / 20, i);
    const TensorMemoryUse use = TensorMemoryInUse();
    ASSERT_LE(use.live + use.idle, use.highest);
    int64_t large = 0;
    for (const at::Tensor& t : tensors) {
      if (t.defined() && t.nbytes() >= 1 << 20) large += static_cast<int64_t>(t.nbytes());
    }
    ASSERT_GE(use.live, large);
  }
  tensors.clear();
}

TEST_F(TensorMemoryTest, CountsAllTensors) {
  const int64_t before = TensorMemoryInUse().tensors;
  {
    const at::Tensor large = MiB(4), small = MiB(0.25), empty = at::empty({0});
    EXPECT_EQ(TensorMemoryInUse().tensors - before, (4 << 20) + (1 << 18));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data_ptr()) % 64, 0);
    EXPECT_GE(TensorMemoryInUse().tensors_highest, TensorMemoryInUse().tensors);
  }
  EXPECT_EQ(TensorMemoryInUse().tensors, before);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 1000; ++j) MiB(0.001 * (j % 7));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(TensorMemoryInUse().tensors, before);
}

// Every block that was freed between others is taken by a tensor of its size that comes later.
TEST_F(TensorMemoryTest, TheHeapUsesMemoryOfOneSizeAgain) {
  std::vector<at::Tensor> kept, gone;
  for (int i = 0; i < 100; ++i) {
    gone.push_back(MiB(0.5));
    kept.push_back(MiB(0.25));
  }
  const int64_t before = ProcessMemoryInUse().data;
  for (int round = 0; round < 5; ++round) {
    gone.clear();
    for (int i = 0; i < 100; ++i) gone.push_back(MiB(0.5));
  }
  EXPECT_LE(ProcessMemoryInUse().data - before, 2 << 20);
}

TEST_F(TensorMemoryTest, LeavesSmallTensorsToTheHeap) {
  const TensorMemoryUse before = TensorMemoryInUse();
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(MiB(0.01));
  EXPECT_EQ(TensorMemoryInUse().live, before.live);
  EXPECT_EQ(TensorMemoryInUse().mapped, before.mapped);
}

// As oneDNN's wrapper does.
TEST_F(TensorMemoryTest, GivesRawMemoryOfAnySize) {
  const int64_t live = TensorMemoryInUse().live;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20, std::size_t{5} << 20}) {
    c10::Allocator* const allocator = c10::GetCPUAllocator();
    void* const data = allocator->raw_allocate(bytes);
    ASSERT_NE(data, nullptr);
    std::memset(data, 7, bytes);
    allocator->raw_deallocate(data);
  }
  EXPECT_EQ(TensorMemoryInUse().live, live);
}

TEST_F(TensorMemoryTest, WorksFromAnyThread) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor tensor = MiB(1 + i % 3, 100 * t + i);
        wrong[t] += tensor.min().item<int64_t>() != 100 * t + i || tensor.max().item<int64_t>() != 100 * t + i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(TensorMemoryTest, NamesTheSizeThatDoesNotFit) {
  EXPECT_THROW(at::empty({int64_t{1} << 50}, at::kLong), c10::Error);
}

}  // namespace
}  // namespace adjoin
