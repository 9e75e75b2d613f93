#include "worker/daemon/job_paths.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"
#include "worker/daemon/mount_calls.h"
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

  absl::Status Prepare(const std::string& owner = "", bool any_folder = false) const {
    StartRanks start;
    start.set_job_id("job-7");
    start.set_job_tag(tag_);
    start.set_owner(owner);
    start.set_any_folder(any_folder);
    for (uint32_t rank : ranks_) start.add_rank(rank);
    start.set_plan(plan_.SerializeAsString());
    return PrepareJobPaths(roots_, start, enter_);
  }
  uid_t OwnerOf(const std::string& path) const {
    struct stat info = {};
    EXPECT_EQ(stat((folder_ + path).c_str(), &info), 0) << path;
    return info.st_uid;
  }

  std::string folder_;
  JobRoots roots_;
  Plan plan_;
  std::vector<uint32_t> ranks_ = {0, 1};
  uint64_t tag_ = 77;
  MountCalls::Enter enter_;
};

TEST_F(JobPathsTest, FilesOfEveryFormatAreLookedFor) {
  EXPECT_TRUE(Prepare().ok()) << Prepare();
  plan_.mutable_spec()->mutable_dataset(0)->mutable_field(0)->mutable_nifti()->set_path(0, "gone.nii");
  EXPECT_TRUE(absl::IsNotFound(Prepare())) << Prepare();
}

TEST_F(JobPathsTest, EachPathIsTouchedOnlyAfterItWasEntered) {
  std::ofstream(folder_ + "/data/first.safetensors") << "x";
  JobSpec& spec = *plan_.mutable_spec();
  spec.mutable_weights()->set_init_from("first.safetensors");
  const std::string data = folder_ + "/data", output = folder_ + "/output";
  const std::string volume = data + "/brain.nii.gz", weights = data + "/first.safetensors";
  std::set<std::string> entered;
  std::string dead;
  enter_ = [&](const std::string& path) {
    entered.insert(path);
    return path == dead ? absl::ResourceExhaustedError("dead") : absl::OkStatus();
  };
  // While there may be checkpoints, nobody needs the weights that the job began with.
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(entered, (std::set<std::string>{data, volume, output, output + "/run", output + "/saved/run"}));
  for (const std::string& path : std::set<std::string>(entered)) {
    dead = path;
    EXPECT_TRUE(absl::IsResourceExhausted(Prepare())) << path << ": " << Prepare();
  }
  dead.clear();
  entered.clear();
  spec.clear_checkpoint();
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(entered, (std::set<std::string>{data, volume, weights, output, output + "/run"}));

  std::filesystem::remove_all(folder_ + "/output/run");
  dead = folder_ + "/output/run";
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare()));
  EXPECT_FALSE(std::filesystem::exists(dead)) << "it was touched";
}

TEST_F(JobPathsTest, CheckpointsStayBelowTheRoot) {
  std::filesystem::create_directory_symlink("/tmp", folder_ + "/output/out");
  plan_.mutable_spec()->mutable_checkpoint()->set_dir("out/run");
  EXPECT_FALSE(Prepare().ok());
}

TEST_F(JobPathsTest, AnOlderCoordinatorsJobsOwnNothing) {
  tag_ = 0;
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/output/run/.adjoin-owner"));
}

TEST_F(JobPathsTest, FoldersOfAnotherOwnerAreNeitherWrittenNorRead) {
  ASSERT_EQ(Prepare("alice"), absl::OkStatus());
  EXPECT_EQ(Prepare("alice"), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
  std::ofstream(folder_ + "/output/run/model.safetensors") << "x";
  std::filesystem::create_directories(folder_ + "/output/saved/run/step-1");

  JobSpec& spec = *plan_.mutable_spec();
  spec.set_output_dir("bob/run");
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << "its checkpoints are alice's";
  spec.mutable_checkpoint()->set_dir("bob/saved");
  EXPECT_EQ(Prepare("bob"), absl::OkStatus());
  spec.mutable_checkpoint()->set_resume_from("saved/run");
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
  EXPECT_EQ(Prepare("root", /*any_folder=*/true), absl::OkStatus());
  spec.clear_checkpoint();
  spec.mutable_weights()->set_from_output("run/model.safetensors");
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
  spec.clear_weights();
  EXPECT_EQ(Prepare("bob"), absl::OkStatus());

  // Where the data root has the results in it, they can be named as data.
  roots_.data_root = folder_;
  spec.mutable_dataset(0)->mutable_field(0)->mutable_nifti()->set_path(0, "output/run/model.safetensors");
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
  spec.mutable_dataset(0)->mutable_field(0)->mutable_nifti()->set_path(0, "data/brain.nii.gz");
  EXPECT_EQ(Prepare("bob"), absl::OkStatus());
  spec.mutable_weights()->set_init_from("output/run/model.safetensors");
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
}

TEST_F(JobPathsTest, TheNodeOfRank0WritesTheNotes) {
  ranks_ = {1, 2};
  ASSERT_EQ(Prepare("alice"), absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/output/run"));
  ranks_ = {0};
  ASSERT_EQ(Prepare("alice"), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/output/run/.adjoin-owner"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/output/saved/run/.adjoin-owner"));
  ranks_ = {1, 2};
  EXPECT_TRUE(absl::IsFailedPrecondition(Prepare("bob"))) << Prepare("bob");
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
