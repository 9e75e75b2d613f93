#include "worker/daemon/ready_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

TEST(ReadyFileTest, IsThereWhileItIsSet) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/ready");
  std::ofstream(path) << "of an earlier daemon";
  {
    ReadyFile ready(path);
    ASSERT_EQ(ready.Check(), absl::OkStatus());
    EXPECT_FALSE(std::filesystem::exists(path));
    ready.Set();
    EXPECT_TRUE(std::filesystem::exists(path));
    ready.Clear();
    EXPECT_FALSE(std::filesystem::exists(path));
    ready.Set();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReadyFileTest, NoneIsMadeWithoutAPath) {
  ReadyFile ready("");
  EXPECT_EQ(ready.Check(), absl::OkStatus());
  ready.Set();
  ready.Clear();
}

TEST(ReadyFileTest, OnlyARegularFileIsReplacedOrRemoved) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  {
    ReadyFile ready(path);
    const absl::Status status = ready.Check();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("is no regular file, and only those are replaced"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(ReadyFileTest, AFolderThatIsNotThereIsAnErrorAtTheStart) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/nowhere/ready");
  const absl::Status status = ReadyFile(path).Check();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--ready-file: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

}  // namespace
}  // namespace adjoin
