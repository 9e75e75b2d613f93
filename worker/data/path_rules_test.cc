#include "worker/data/path_rules.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace adjoin {
namespace {

namespace fs = std::filesystem;

class PathRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base_ = fs::path(getenv("TEST_TMPDIR")) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = base_ / "root";
    fs::create_directories(root_ / "sub");
    std::ofstream(root_ / "sub" / "file") << "x";
    std::ofstream(base_ / "secret") << "x";
    fs::create_symlink(base_ / "secret", root_ / "link_out");
    fs::create_directory_symlink(base_, root_ / "folder_out");
    fs::create_symlink("sub/file", root_ / "link_in");
    fs::create_symlink(base_ / "nothing_yet", root_ / "dangling");
  }
  fs::path base_, root_;
};

TEST_F(PathRulesTest, ReadsOnlyBelowTheRoot) {
  EXPECT_EQ(*ResolveBelow(root_, "sub/file"), fs::canonical(root_ / "sub/file").string());
  EXPECT_EQ(*ResolveBelow(root_, "link_in"), fs::canonical(root_ / "sub/file").string());
  std::ofstream(root_ / "a..b") << "x";
  EXPECT_TRUE(ResolveBelow(root_, "./a..b").ok());
  const std::string wrong_paths[] = {"",
                                     "/etc/passwd",
                                     "../secret",
                                     "sub/../../secret",
                                     "link_out",
                                     "folder_out/secret",
                                     std::string("sub/f\0e", 7),
                                     "sub/.."};
  for (const std::string& wrong : wrong_paths) {
    EXPECT_EQ(ResolveBelow(root_, wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(ResolveBelow("", "sub").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ResolveBelow(root_, "sub/other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PathRulesTest, WritesOnlyBelowTheRoot) {
  for (const char* right : {"", "sub", "new", "sub/new/deeper"}) {
    EXPECT_TRUE(CheckOutputPath(root_, right).ok()) << CheckOutputPath(root_, right);
  }
  for (const char* wrong : {"/tmp/x", "..", "sub/../..", "folder_out", "folder_out/new", "dangling", "dangling/new",
                            "attempt-7", "sub/attempt-7/new", ".epoch", "sub/.epoch.lock"}) {
    EXPECT_EQ(CheckOutputPath(root_, wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

std::string Content(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST_F(PathRulesTest, HoldsWhatItFound) {
  absl::StatusOr<HeldPath> held = HoldBelow(root_, "sub/file");
  ASSERT_TRUE(held.ok()) << held.status();
  fs::rename(root_ / "sub", root_ / "moved");
  fs::create_directory_symlink(base_, root_ / "sub");
  EXPECT_EQ(Content(held->path()), "x");
  EXPECT_EQ(held->AsShown(absl::DataLossError(held->path() + ": torn; " + held->path() + "0")).message(),
            "sub/file: torn; " + held->path() + "0");
}

TEST_F(PathRulesTest, HoldsOnlyWhatIsBelowTheRoot) {
  fs::create_symlink(fs::canonical(root_) / "sub/file", root_ / "link_absolute");
  fs::create_directory_symlink("..", root_ / "sub" / "up");
  for (const char* right : {"sub/file", "link_in", "link_absolute", "sub/up/sub/file", "./sub//file"}) {
    absl::StatusOr<HeldPath> held = HoldBelow(root_, right);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(Content(held->path()), "x") << right;
  }
  const std::string wrong_paths[] = {"",
                                     "/etc/passwd",
                                     "../secret",
                                     "sub/../../secret",
                                     "link_out",
                                     "folder_out/secret",
                                     std::string("sub/f\0e", 7),
                                     "sub/.."};
  for (const std::string& wrong : wrong_paths) {
    EXPECT_EQ(HoldBelow(root_, wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  fs::create_symlink("loop", root_ / "loop");
  EXPECT_EQ(HoldBelow(root_, "loop").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HoldBelow(root_, "sub/other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(HoldBelow(root_, "sub/file/x").status().code(), absl::StatusCode::kNotFound);
  // A pipe is not opened, so nothing waits for its writer.
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(HoldBelow(root_, "pipe").ok());
}

TEST_F(PathRulesTest, FoldersAreMadeBelowTheRootOnly) {
  for (const char* right : {"", "sub", "new", "sub/new/deeper", "sub/new/deeper/", "a//b"}) {
    absl::StatusOr<HeldPath> folder = HoldFolder(root_, right);
    ASSERT_TRUE(folder.ok()) << folder.status();
    std::ofstream(folder->path() + "/made") << "y";
    EXPECT_EQ(Content(root_ / right / "made"), "y");
  }
  for (const char* wrong : {"/tmp/x", "..", "sub/../..", "folder_out", "folder_out/new", "dangling", "dangling/new",
                            "sub/file", "sub/file/new"}) {
    EXPECT_FALSE(HoldFolder(root_, wrong).ok()) << wrong;
  }
  EXPECT_FALSE(fs::exists(base_ / "new"));
  EXPECT_FALSE(fs::exists(base_ / "nothing_yet"));
}

// A thread replaces a folder by a link to elsewhere, and puts the folder back, while others open files in it.
TEST_F(PathRulesTest, ALinkThatIsPutInTheWayMeanwhileLeadsNowhere) {
  const fs::path outside = base_ / "outside", folder = root_ / "data", link = root_ / "link";
  fs::create_directories(outside);
  fs::create_directories(folder);
  std::ofstream(outside / "file") << "outside";
  std::ofstream(folder / "file") << "inside";
  fs::create_directory_symlink(fs::canonical(outside), link);
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
  });
  int found = 0, refused = 0;
  const std::string root = root_;
  for (int i = 0; i < 5000 || ((found == 0 || refused == 0) && i < 2000000); ++i) {
    absl::StatusOr<HeldPath> held = HoldBelow(root, "data/file");
    if (held.ok()) {
      ASSERT_EQ(Content(held->path()), "inside");
      ++found;
    } else {
      ++refused;
    }
    absl::StatusOr<HeldPath> made = HoldFolder(root, "data/made");
    if (made.ok()) rmdir((root + "/data/made").c_str());
  }
  stop = true;
  swapper.join();
  EXPECT_GT(found, 0);
  EXPECT_GT(refused, 0);
  EXPECT_FALSE(fs::exists(outside / "made"));
}

}  // namespace
}  // namespace adjoin
