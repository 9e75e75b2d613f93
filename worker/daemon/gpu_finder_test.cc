#include "worker/daemon/gpu_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kLibc[] = "libc.so.6";  // there is one everywhere: stands for the driver
constexpr char kTwo[] = "echo gpu 1 GPU-b 7 Second; echo gpu 0 GPU-a 5 First; echo end";
constexpr char kOneBroken[] = "echo gpu 0 GPU-a 5 First; echo unusable 1 GPU-b 7 Second: no memory; echo end";

class GpuFinderTest : public ::testing::Test {
 protected:
  GpuFinderTest() {
    folder_ = ::testing::TempDir() + "/gpus-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  // What the program of a rank is: a shell script.
  SpawnRequest Program(const std::string& script) {
    std::ofstream(folder_ + "/rank") << "#!/bin/sh\n[ \"$*\" = --list-gpus ] || exit 9\n" << script << "\n";
    chmod((folder_ + "/rank").c_str(), 0755);
    return ListGpusCommand(folder_ + "/rank", std::nullopt);
  }
  absl::StatusOr<std::vector<Gpu>> Find(const std::string& choice, const std::string& script,
                                        absl::Duration limit = absl::Seconds(30), const std::string& library = kLibc) {
    absl::StatusOr<GpuChoice> parsed = ParseGpuChoice(choice);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return FindGpus(*parsed, Program(script), limit, library);
  }
  std::vector<std::string> Uuids(const std::string& choice, const std::string& script) {
    const absl::StatusOr<std::vector<Gpu>> found = Find(choice, script);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> uuids;
    if (!found.ok()) return uuids;
    for (const Gpu& gpu : *found) uuids.push_back(gpu.uuid());
    return uuids;
  }
  std::string Refusal(const std::string& choice, const std::string& script, absl::Duration limit = absl::Seconds(30)) {
    const absl::Status status = Find(choice, script, limit).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }

  std::string folder_;
};

TEST_F(GpuFinderTest, OffersWhatIsChosenByIndex) {
  EXPECT_THAT(Uuids("auto", kTwo), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT(Uuids("all", kTwo), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT(Uuids("0-1", kTwo), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT(Uuids("1", kTwo), ElementsAre("GPU-b"));
  EXPECT_THAT(Uuids("none", "exit 1"), IsEmpty());
  const absl::StatusOr<std::vector<Gpu>> found = Find("1", kTwo);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->at(0).index(), 1);
  EXPECT_EQ(found->at(0).name(), "Second");
  EXPECT_EQ(found->at(0).memory_bytes(), 7);
}

TEST_F(GpuFinderTest, WhatIsAskedForByNameHasToWork) {
  EXPECT_THAT(Refusal("0,2-3", kTwo), StartsWith("--gpus 0,2-3: there is no GPU 2-3; this node has 0-1; --gpus none"));
  EXPECT_THAT(Refusal("all", kOneBroken), HasSubstr("GPU 1 (Second) cannot be used: no memory"));
  EXPECT_THAT(Refusal("1", kOneBroken), HasSubstr("GPU 1 (Second) cannot be used: no memory"));
  EXPECT_THAT(Uuids("0", kOneBroken), ElementsAre("GPU-a"));
  EXPECT_THAT(Refusal("all", "echo none there is no CUDA driver; echo end"),
              StartsWith("--gpus all: there is no CUDA driver; "));
}

TEST_F(GpuFinderTest, AutoOffersWhatWorks) {
  EXPECT_THAT(Uuids("auto", kOneBroken), ElementsAre("GPU-a"));
  EXPECT_THAT(Uuids("auto", "echo none this LibTorch was built without CUDA; echo end"), IsEmpty());
  EXPECT_THAT(Uuids("auto", "exit 1"), IsEmpty());
  const absl::StatusOr<std::vector<Gpu>> no_driver =
      Find("auto", absl::StrCat("touch ", folder_, "/ran; ", kTwo), absl::Seconds(30), "libno-such-driver.so.1");
  ASSERT_TRUE(no_driver.ok()) << no_driver.status();
  EXPECT_THAT(*no_driver, IsEmpty());
  EXPECT_FALSE(std::ifstream(folder_ + "/ran").good()) << "a node without a driver starts nothing";
}

TEST_F(GpuFinderTest, AProgramThatDoesNotAnswerIsEnded) {
  EXPECT_THAT(Refusal("all", "echo gpu 0 GPU-a 5 First; sleep 600", absl::Milliseconds(300)),
              HasSubstr("did not answer in 300ms"));
  EXPECT_THAT(Refusal("all", "sleep 600 & sleep 600", absl::Milliseconds(300)), Not(HasSubstr("does not die")));
}

TEST_F(GpuFinderTest, WhatAProgramWroteBeforeItsEndIsInTheError) {
  EXPECT_THAT(Refusal("all", "echo first >&2; echo 'libtorch.so: no such file' >&2; exit 127"),
              AllOf(HasSubstr("its list of GPUs has no end"), HasSubstr("; it wrote: libtorch.so: no such file")));
  EXPECT_THAT(Refusal("all", "yes | head -c 9000000; echo end"), HasSubstr("no end")) << "no more than that is kept";
}

TEST_F(GpuFinderTest, TheProgramSeesWhatTheDaemonSees) {
  setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  SpawnRequest command = ListGpusCommand("/bin/true", std::nullopt);
  EXPECT_THAT(command.environment, Contains("CUDA_VISIBLE_DEVICES=3,1"));
  EXPECT_THAT(command.environment, Contains("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  unsetenv("CUDA_VISIBLE_DEVICES");
  command = ListGpusCommand("/bin/true", std::nullopt);
  EXPECT_THAT(command.environment, Not(Contains(StartsWith("CUDA_VISIBLE_DEVICES"))));
}

TEST(ParseGpuChoiceTest, RefusesWhatIsNoChoice) {
  for (const char* wrong : {"", ",", "0,", "-1", "1-", "-", "2-1", "0,0", "0-2,1", "0x1", "01", "+1", " 1", "99999",
                            "0-4294967295", "All", "a\nb"}) {
    const absl::Status status = ParseGpuChoice(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not auto, all, none or a list of numbers")) << wrong;
  }
  EXPECT_THAT(ParseGpuChoice("0-2,6")->indices, ElementsAre(0, 1, 2, 6));
}

}  // namespace
}  // namespace adjoin
