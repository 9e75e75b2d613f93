#include "base/state_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace adjoin {
namespace {

std::string Path(const std::string& name) { return std::string(getenv("TEST_TMPDIR")) + "/" + name; }

int ModeOf(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : -1;
}

TEST(StateFolderTest, IsHeldByOneAtATime) {
  {
    auto first = StateFolder::Lock(Path("a/b"));
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(StateFolder::Lock(Path("a/b")).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(StateFolder::Lock(Path("a/b")).ok());
  EXPECT_EQ(StateFolder::Lock("/proc/nothing").status().code(), absl::StatusCode::kUnavailable);
}

TEST(StateFolderTest, OnlyAFolderThatItMadeIsClosedToOthers) {
  ASSERT_TRUE(StateFolder::Lock(Path("new")).ok());
  EXPECT_EQ(ModeOf(Path("new")), 0700);
  ASSERT_EQ(mkdir(Path("there").c_str(), 0755), 0);
  ASSERT_EQ(chmod(Path("there").c_str(), 0755), 0);
  ASSERT_TRUE(StateFolder::Lock(Path("there")).ok());
  EXPECT_EQ(ModeOf(Path("there")), 0755) << "--state-dir /tmp must not close /tmp";
}

TEST(StateFolderTest, FilesAreReplacedWhole) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "old").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "new").ok());
  std::ifstream file(Path("file"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "new");
  EXPECT_EQ(WriteFileAtomically(Path("nowhere/file"), "x").code(), absl::StatusCode::kUnavailable);
}

TEST(StateFolderTest, OnlyFilesAreReplaced) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(WriteFileAtomically(Path("pipe"), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_fifo(Path("pipe")));
  std::filesystem::create_symlink("pipe", Path("link"));
  EXPECT_EQ(WriteFileAtomically(Path("link"), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir()))
    EXPECT_NE(entry.path().extension(), ".tmp");
}

}  // namespace
}  // namespace adjoin
