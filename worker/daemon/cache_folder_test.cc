#include "worker/daemon/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kBob = 54321;

class CacheFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = ::testing::TempDir() + "/" + test + "/cache";
    std::filesystem::remove_all(::testing::TempDir() + "/" + test);
    bob_.name = "bob";
    bob_.uid = bob_.gid = kBob;
  }
  void Write(const std::string& name, uid_t owner) {
    std::ofstream(path_ + "/" + name) << "content";
    ASSERT_EQ(chown((path_ + "/" + name).c_str(), owner, owner), 0);
  }
  static uid_t OwnerOf(const std::string& path) {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 ? info.st_uid : -1;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : -1;
  }
  bool Has(const std::string& name) {
    return std::filesystem::exists(std::filesystem::symlink_status(path_ + "/" + name));
  }

  std::string path_;
  User bob_;
};

TEST_F(CacheFolderTest, IsMadeForOneUser) {
  ASSERT_TRUE(MakeCacheFolder(path_, false, std::nullopt).ok());
  EXPECT_EQ(OwnerOf(path_), geteuid());
  EXPECT_EQ(ModeOf(path_), 0700u);
  const std::string file = path_ + "/file";
  std::ofstream(file) << "x";
  const absl::Status status = MakeCacheFolder(file, true, std::nullopt);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(file), HasSubstr("Not a directory")));
}

// Takes from this thread the right to change what others own, as deploy/adjoin-worker-root.conf does.
class WithoutRightsOfOwners {
 public:
  WithoutRightsOfOwners() {
    EXPECT_EQ(syscall(SYS_capget, &header_, before_), 0);
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    less[0].effective &= ~(uint32_t{1} << CAP_FOWNER);
    EXPECT_EQ(syscall(SYS_capset, &header_, less), 0);
  }
  WithoutRightsOfOwners(const WithoutRightsOfOwners&) = delete;
  ~WithoutRightsOfOwners() { EXPECT_EQ(syscall(SYS_capset, &header_, before_), 0); }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

class CacheFolderOfRootTest : public CacheFolderTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
    CacheFolderTest::SetUp();
  }
};

TEST_F(CacheFolderOfRootTest, ANewUserGetsTheFolderWithoutTheFormerUsersFiles) {
  ASSERT_TRUE(MakeCacheFolder(path_, false, std::nullopt).ok());
  const std::string outside = path_ + "/../outside";
  std::ofstream(outside) << "root's";
  for (const char* name : {"lock", "a.inflated", "b.inflated.tmp"}) Write(name, 0);
  std::filesystem::create_symlink(outside, path_ + "/c.inflated");
  std::filesystem::create_hard_link(outside, path_ + "/d.inflated");
  ASSERT_TRUE(MakeCacheFolder(path_, false, bob_).ok());
  EXPECT_EQ(OwnerOf(path_), kBob);
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  EXPECT_EQ(OwnerOf(outside), 0u);
  // Ranks of root used it for a while.
  Write("a.inflated", kBob);
  Write("b.inflated", 0);
  ASSERT_TRUE(MakeCacheFolder(path_, false, bob_).ok());
  EXPECT_TRUE(Has("a.inflated"));
  EXPECT_FALSE(Has("b.inflated"));
}

TEST_F(CacheFolderOfRootTest, TheRightToChangeWhatOthersOwnIsNotNeeded) {
  const WithoutRightsOfOwners confined;
  ASSERT_EQ(MakeCacheFolder(path_, false, bob_), absl::OkStatus());
  EXPECT_EQ(OwnerOf(path_), kBob);
  EXPECT_EQ(ModeOf(path_), 0700u);
  // Another user has it, open to all and with their group for what is made in it.
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 02777), 0);
  ASSERT_EQ(chown(path_.c_str(), kBob + 1, kBob + 1), 0);
  Write("a.inflated", kBob + 1);
  ASSERT_EQ(MakeCacheFolder(path_, false, bob_), absl::OkStatus());
  EXPECT_EQ(OwnerOf(path_), kBob);
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_FALSE(Has("a.inflated"));
}

TEST_F(CacheFolderOfRootTest, ANamedFolderIsTakenOverOnlyWhereThatIsSafe) {
  ASSERT_TRUE(MakeCacheFolder(path_, true, bob_).ok());
  EXPECT_EQ(OwnerOf(path_), kBob);
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  Write("lock", 0);
  ASSERT_TRUE(MakeCacheFolder(path_, true, bob_).ok());
  EXPECT_EQ(OwnerOf(path_), kBob);
  EXPECT_FALSE(Has("lock"));

  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  Write("lock", 0);
  Write("precious", 0);
  absl::Status status = MakeCacheFolder(path_, true, bob_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()), "--cache-dir " + path_ +
                                               " is root's, and has 'precious' in it; ranks run as bob: "
                                               "name a folder that is theirs, or is not there yet");
  EXPECT_TRUE(Has("lock"));
  EXPECT_EQ(OwnerOf(path_), 0u);

  std::filesystem::remove(path_ + "/precious");
  ASSERT_EQ(chown(path_.c_str(), kBob + 1, kBob + 1), 0);
  status = MakeCacheFolder(path_, true, bob_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to the user with id 54322"));
  EXPECT_EQ(OwnerOf(path_), kBob + 1);
}

}  // namespace
}  // namespace adjoin
