#include "worker/daemon/job_paths.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {
namespace {

class JobPathsTest : public testing::Test {
 protected:
  JobPathsTest() : folder_(testing::TempDir() + "/job_paths_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "no folder";
    std::filesystem::create_directories(folder_ + "/data");
    std::filesystem::create_directories(folder_ + "/output");
    roots_.data_root = folder_ + "/data";
    roots_.output_root = folder_ + "/output";
    Field* field = plan_.mutable_spec()->add_dataset()->add_field();
    field->set_name("volume");
    field->mutable_nifti()->add_path("brain.nii.gz");
    std::ofstream(folder_ + "/data/brain.nii.gz") << "x";
    plan_.mutable_spec()->set_output_dir("run");
    plan_.mutable_spec()->mutable_checkpoint()->set_dir("saved/run");
  }
  ~JobPathsTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Prepare() const {
    StartRanks start;
    start.set_plan(plan_.SerializeAsString());
    return PrepareJobPaths(roots_, start);
  }
  uid_t OwnerOf(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(stat((folder_ + path).c_str(), &info), 0) << path;
    return info.st_uid;
  }

  std::string folder_;
  JobRoots roots_;
  Plan plan_;
};

TEST_F(JobPathsTest, FilesOfEveryFormatAreLookedFor) {
  EXPECT_TRUE(Prepare().ok()) << Prepare();
  plan_.mutable_spec()->mutable_dataset(0)->mutable_field(0)->mutable_nifti()->set_path(0, "gone.nii");
  EXPECT_TRUE(absl::IsNotFound(Prepare())) << Prepare();
}

TEST_F(JobPathsTest, CheckpointsStayBelowTheRoot) {
  std::filesystem::create_directory_symlink("/tmp", folder_ + "/output/out");
  plan_.mutable_spec()->mutable_checkpoint()->set_dir("out/run");
  EXPECT_FALSE(Prepare().ok());
}

TEST_F(JobPathsTest, RanksOfAnotherUserGetTheFoldersThatTheyWriteInto) {
  const passwd* nobody = getpwnam("nobody");
  if (geteuid() != 0 || nobody == nullptr) GTEST_SKIP() << "needs root and a user 'nobody'";
  roots_.rank_user = User{"nobody", "/", nobody->pw_uid, nobody->pw_gid, {}};
  ASSERT_TRUE(Prepare().ok()) << Prepare();
  EXPECT_EQ(OwnerOf("/output/run"), nobody->pw_uid);
  EXPECT_EQ(OwnerOf("/output/saved/run"), nobody->pw_uid);
  EXPECT_EQ(OwnerOf("/output"), geteuid());
}

}  // namespace
}  // namespace adjoin
