#include "coordinator/decisions/output_folders.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(OutputFoldersTest, FindsAnotherOwnersJobWithTheSameFolderOrOneAboveOrBelow) {
  OutputFolders folders;
  folders.Add("alice/lenet5", "alice", 3);
  for (const char* folder : {"alice/lenet5", "./alice//lenet5/", "alice", "alice/lenet5/deeper/still"}) {
    EXPECT_EQ(folders.OfAnother(folder, "bob"), 3u) << folder;
    EXPECT_EQ(folders.OfAnother(folder, ""), 3u) << folder;
    EXPECT_EQ(folders.OfAnother(folder, "alice"), std::nullopt) << folder;
  }
  for (const char* folder :
       {"", ".", "bob", "alice/lenet", "alice/lenet55", "alice/lenet5-x", "alice/lenet5.x/y", "lenet5"}) {
    EXPECT_EQ(folders.OfAnother(folder, "bob"), std::nullopt) << folder;
  }
}

TEST(OutputFoldersTest, TheRootIsComparedWithItselfOnly) {
  OutputFolders folders;
  folders.Add("", "alice", 1);
  EXPECT_EQ(folders.OfAnother("bob/x", "bob"), std::nullopt);
  EXPECT_EQ(folders.OfAnother("./", "bob"), 1u);
  EXPECT_EQ(folders.OfAnother("", "alice"), std::nullopt);
}

TEST(OutputFoldersTest, NamesTheJobInTheWayAndWhatWouldBeRight) {
  OutputFolders folders;
  folders.Add("lenet5", "alice", 3);
  folders.Add("", "alice", 4);
  EXPECT_EQ(folders.Check("lenet5/x", "alice"), absl::OkStatus());
  const absl::Status refused = folders.Check("lenet5/x", "bob");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(
      std::string(refused.message()),
      "output_dir \"lenet5/x\" is the folder of job-3, above it or below it, and that job is somebody else's; choose"
      " another, such as \"bob/lenet5/x\"");
  EXPECT_EQ(
      std::string(folders.Check("", "bob").message()),
      "output_dir is missing, and the folder of jobs without one has results of job-4, which is somebody else's; write"
      " output_dir: \"bob/...\"");
}

TEST(OutputFoldersTest, RefusesToReadFilesOfOtherOwners) {
  OutputFolders folders;
  folders.Add("alice/x", "alice", 3);
  EXPECT_EQ(folders.CheckReads("", "bob"), absl::OkStatus());
  EXPECT_EQ(folders.CheckReads("alice/x/model.safetensors", "alice"), absl::OkStatus());
  EXPECT_EQ(folders.CheckReads("alice/model.safetensors", "bob"), absl::OkStatus()) << "beside it";
  EXPECT_EQ(folders.CheckReads("model.safetensors", "bob"), absl::OkStatus());
  for (const char* path : {"alice/x/model.safetensors", "./alice//x/best/model.safetensors", "alice/x"}) {
    EXPECT_EQ(folders.CheckReads(path, "bob").code(), absl::StatusCode::kPermissionDenied) << path;
  }
  folders.Add("", "alice", 4);
  EXPECT_EQ(folders.CheckReads("model.safetensors", "bob").code(), absl::StatusCode::kPermissionDenied)
      << "of the root";
}

TEST(OutputFoldersTest, ForgetsRemovedFolders) {
  OutputFolders folders;
  folders.Add("out", "alice", 1);
  folders.Add("out/", "alice", 2);
  folders.Add("out", "an admin", 4);
  EXPECT_EQ(folders.OfAnother("out", "alice"), 4u);
  folders.Remove("out", "an admin", 4);
  folders.Remove("out", "nobody", 1);
  EXPECT_EQ(folders.OfAnother("out", "alice"), std::nullopt);
  folders.Remove("./out", "alice", 1);
  EXPECT_EQ(folders.OfAnother("out/x", "bob"), 2u);
  folders.Remove("out", "alice", 2);
  folders.Remove("out", "alice", 2);
  EXPECT_EQ(folders.OfAnother("out", "bob"), std::nullopt);
}

}  // namespace
}  // namespace adjoin
