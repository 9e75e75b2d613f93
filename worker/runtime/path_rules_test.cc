#include "worker/runtime/path_rules.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

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
  const std::string wrong_paths[] = {"",         "/etc/passwd",       "../secret",               "sub/../../secret",
                                     "link_out", "folder_out/secret", std::string("sub/f\0e", 7), "sub/.."};
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
  for (const char* wrong : {"/tmp/x", "..", "sub/../..", "folder_out", "folder_out/new", "dangling", "dangling/new"}) {
    EXPECT_EQ(CheckOutputPath(root_, wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace adjoin
