#include "worker/daemon/result_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace adjoin {
namespace {

class ResultFolderTest : public ::testing::Test {
 protected:
  ResultFolderTest() : root_(::testing::TempDir() + "/results-XXXXXX") { EXPECT_NE(mkdtemp(root_.data()), nullptr); }
  ~ResultFolderTest() override { std::filesystem::remove_all(root_); }
  uid_t OwnerOf(const std::string& relative) {
    struct stat info = {};
    EXPECT_EQ(stat((root_ + "/" + relative).c_str(), &info), 0) << relative;
    return info.st_uid;
  }

  std::string root_;
};

TEST_F(ResultFolderTest, GivesFoldersThatItMakesToTheUser) {
  const uid_t user = geteuid() == 0 ? 12345 : geteuid();
  const gid_t group = geteuid() == 0 ? 12345 : getegid();
  std::filesystem::create_directories(root_ + "/old");
  ASSERT_EQ(MakeResultFolder(root_, "old/new/newer", user, group), absl::OkStatus());
  ASSERT_EQ(MakeResultFolder(root_, "old/new/newer", 54321, 54321), absl::OkStatus()) << "nothing to do";
  EXPECT_EQ(OwnerOf("old"), geteuid());
  EXPECT_EQ(OwnerOf("old/new"), user);
  EXPECT_EQ(OwnerOf("old/new/newer"), user);
  EXPECT_EQ(MakeResultFolder(root_, "", user, group), absl::OkStatus());
}

TEST_F(ResultFolderTest, FollowsNoLinkOutOfTheRoot) {
  std::filesystem::create_symlink("/tmp", root_ + "/away");
  std::filesystem::create_directories(root_ + "/a");
  std::filesystem::create_symlink("a", root_ + "/inside");
  EXPECT_TRUE(absl::IsPermissionDenied(MakeResultFolder(root_, "away/results", geteuid(), getegid())));
  EXPECT_FALSE(std::filesystem::exists("/tmp/results"));
  EXPECT_FALSE(MakeResultFolder(root_, "a/../../results", geteuid(), getegid()).ok());
  EXPECT_EQ(MakeResultFolder(root_, "inside/b", geteuid(), getegid()), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::exists(root_ + "/a/b"));
}

}  // namespace
}  // namespace adjoin
