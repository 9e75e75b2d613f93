#include "worker/rank/gpu_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& text) {
  const absl::Status status = ReadGpuLines(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
  return std::string(status.message());
}

TEST(GpuLinesTest, WhatIsPrintedIsRead) {
  const std::vector<NodeGpu> gpus = {{0, "GPU-a", "NVIDIA H100: one", uint64_t{80} << 30, ""},
                                     {3, "MIG-b", "NVIDIA A100", 5, "CUDA error:\nout of memory"},
                                     {4, "GPU-c", "", 0, ""}};
  const std::string text = GpuLines(gpus);
  EXPECT_EQ(text,
            "gpu 0 GPU-a 85899345920 NVIDIA H100: one\n"
            "unusable 3 MIG-b 5 NVIDIA A100: CUDA error:\\nout of memory\n"
            "gpu 4 GPU-c 0 \n"
            "end\n");
  const absl::StatusOr<std::vector<NodeGpu>> read = ReadGpuLines(text);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 3);
  for (size_t i = 0; i < gpus.size(); ++i) {
    EXPECT_EQ((*read)[i].index, gpus[i].index);
    EXPECT_EQ((*read)[i].uuid, gpus[i].uuid);
    EXPECT_EQ((*read)[i].name, gpus[i].name);
    EXPECT_EQ((*read)[i].memory_bytes, gpus[i].memory_bytes);
  }
  EXPECT_EQ((*read)[0].unusable, "");
  EXPECT_EQ((*read)[1].unusable, "CUDA error:\\nout of memory");
}

TEST(GpuLinesTest, ANodeWithoutGpusSaysWhy) {
  const std::string text = GpuLines(absl::NotFoundError("there is no CUDA driver: libcuda.so.1"));
  EXPECT_EQ(ReadGpuLines(text).status(), absl::NotFoundError("there is no CUDA driver: libcuda.so.1"));
  EXPECT_EQ(ReadGpuLines(GpuLines(std::vector<NodeGpu>{})).status(), absl::NotFoundError("the driver has no GPU"));
}

TEST(GpuLinesTest, LinesOfLibrariesArePassedOver) {
  const absl::StatusOr<std::vector<NodeGpu>> read = ReadGpuLines("[W] a warning\n\ngpu 1 GPU-a 7 A\nmore\nend\nlate");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 1);
  EXPECT_EQ((*read)[0].name, "A");
}

TEST(GpuLinesTest, WhatIsCutOrWrongIsRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("no end"));
  EXPECT_THAT(Refusal("gpu 0 GPU-a 7 A\n"), HasSubstr("no end"));
  EXPECT_THAT(Refusal("gpu 0 GPU-a 7 A\nen"), HasSubstr("no end"));
  EXPECT_THAT(Refusal("gpu zero GPU-a 7 A\nend\n"),
              HasSubstr("'zero GPU-a 7 A'; right would be INDEX UUID BYTES NAME"));
  EXPECT_THAT(Refusal("gpu -1 GPU-a 7 A\nend\n"), HasSubstr("right would be"));
  EXPECT_THAT(Refusal("gpu 0 GPU-a 99999999999999999999 A\nend\n"), HasSubstr("right would be"));
  EXPECT_THAT(Refusal("gpu 0 GPU-a\nend\n"), HasSubstr("right would be"));
  EXPECT_THAT(Refusal("gpu 0  7 A\nend\n"), HasSubstr("right would be"));
  EXPECT_THAT(Refusal("gpu 0 GPU-a 7 A\ngpu 1 GPU-a 7 A\nend\n"), HasSubstr("GPU-a twice"));
  std::string many;
  for (int i = 0; i <= kMaxGpus; ++i) absl::StrAppend(&many, "gpu ", i, " GPU-", i, " 7 A\n");
  EXPECT_THAT(Refusal(many + "end\n"), HasSubstr("more than 256"));
  const std::string long_uuid(kMaxNameBytes + 1, 'a');
  EXPECT_THAT(Refusal(absl::StrCat("gpu 0 ", long_uuid, " 7 A\nend\n")), HasSubstr("right would be"));
}

}  // namespace
}  // namespace adjoin
