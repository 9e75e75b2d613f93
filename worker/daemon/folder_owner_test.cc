#include "worker/daemon/folder_owner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

FolderUser Job(const std::string& owner, bool any_folder = false) {
  return {.owner = owner, .job_id = "job-7", .store_id = 255, .any_folder = any_folder};
}

class FolderOwnerTest : public ::testing::Test {
 protected:
  FolderOwnerTest() : root_(::testing::TempDir() + "/owners-XXXXXX") { EXPECT_NE(mkdtemp(root_.data()), nullptr); }
  ~FolderOwnerTest() override { fs::remove_all(root_); }

  // As a daemon does before a job's ranks start.
  absl::Status Use(const std::string& folder, const FolderUser& user) const {
    if (absl::Status may = CheckMayWrite(root_, folder, user); !may.ok()) return may;
    fs::create_directories(root_ + "/" + folder);
    return OwnFolder(root_, folder, user);
  }
  std::string OwnerOf(const std::string& folder) const {
    const UniqueFd fd(open((root_ + "/" + folder).c_str(), O_PATH | O_DIRECTORY));
    const auto owner = ReadOwner(fd.get());
    if (!owner.ok()) return std::string(owner.status().message());
    return owner->has_value() ? (*owner)->owner : "nobody";
  }
  bool Exists(const std::string& path) const { return fs::exists(root_ + "/" + path); }
  void Put(const std::string& path, const std::string& content = "x") const {
    std::ofstream(root_ + "/" + path) << content;
  }
  static bool Refused(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

  std::string root_;
};

TEST_F(FolderOwnerTest, AFolderStaysItsOwners) {
  ASSERT_EQ(Use("lenet5", Job("alice")), absl::OkStatus());
  EXPECT_EQ(Use("lenet5", Job("alice")), absl::OkStatus());
  const absl::Status refused = Use("lenet5", Job("bob"));
  EXPECT_TRUE(Refused(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("in a folder of 'alice'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job-7"));
  EXPECT_EQ(OwnerOf("lenet5"), "alice");
  // Names are compared whole, and other ways to write one are the same folder.
  EXPECT_TRUE(Refused(Use("lenet5", Job("alice2"))));
  EXPECT_TRUE(Refused(Use(".//lenet5/.", Job("bob"))));
  EXPECT_EQ(Use("lenet52", Job("bob")), absl::OkStatus());
}

TEST_F(FolderOwnerTest, WhatIsBelowIsTheOwnersToo) {
  ASSERT_EQ(Use("group/alice", Job("alice")), absl::OkStatus());
  EXPECT_EQ(Use("group/alice/run-1", Job("alice")), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("group/alice/run-2/deep", Job("bob"))));
  EXPECT_FALSE(Exists("group/alice/run-2")) << "nothing is made in another owner's folder";
  EXPECT_EQ(Use("group/bob", Job("bob")), absl::OkStatus());
}

TEST_F(FolderOwnerTest, AFolderAboveAnotherOwnersIsRefused) {
  ASSERT_EQ(Use("group/sub/alice", Job("alice")), absl::OkStatus());
  Put("group/file");
  const absl::Status refused = Use("group", Job("bob"));
  EXPECT_TRUE(Refused(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("above a folder of 'alice'"));
  EXPECT_EQ(OwnerOf("group"), "nobody");
  EXPECT_EQ(Use("group", Job("root", /*any_folder=*/true)), absl::OkStatus());
  EXPECT_EQ(OwnerOf("group"), "nobody") << "an admin's job shuts out nobody who was there";
  EXPECT_EQ(Use("group", Job("alice")), absl::OkStatus());
}

TEST_F(FolderOwnerTest, AdminsMayUseAnyFolderAndOwnNewOnes) {
  ASSERT_EQ(Use("alice", Job("alice")), absl::OkStatus());
  EXPECT_EQ(Use("alice", Job("root", true)), absl::OkStatus());
  EXPECT_EQ(Use("alice/new", Job("root", true)), absl::OkStatus());
  EXPECT_EQ(OwnerOf("alice"), "alice");
  EXPECT_EQ(OwnerOf("alice/new"), "nobody") << "it is alice's, by the note above";
  EXPECT_EQ(Use("alice/new", Job("alice")), absl::OkStatus());
  EXPECT_EQ(Use("of-root", Job("root", true)), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("of-root", Job("alice"))));
  EXPECT_EQ(CheckMayRead(root_, "alice", Job("root", true)), absl::OkStatus());
}

TEST_F(FolderOwnerTest, JobsWithoutAnOwnerAreOneOwner) {
  ASSERT_EQ(Use("local", Job("", true)), absl::OkStatus());
  EXPECT_EQ(Use("local", Job("")), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("local", Job("alice"))));
  ASSERT_EQ(Use("alice", Job("alice")), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("alice", Job(""))));
}

TEST_F(FolderOwnerTest, TheRootIsComparedWithItselfOnly) {
  ASSERT_EQ(Use("", Job("alice")), absl::OkStatus());
  EXPECT_EQ(OwnerOf(""), "alice");
  EXPECT_TRUE(Refused(Use("", Job("bob"))));
  EXPECT_TRUE(Refused(Use(".", Job("bob"))));
  EXPECT_EQ(Use("bob", Job("bob")), absl::OkStatus());
  Put("model");
  Put("bob/model");
  EXPECT_TRUE(Refused(CheckMayRead(root_, "model", Job("bob"))));
  EXPECT_EQ(CheckMayRead(root_, "bob/model", Job("bob")), absl::OkStatus());
}

TEST_F(FolderOwnerTest, NobodyReadsFromAnothersFolder) {
  ASSERT_EQ(Use("alice/run", Job("alice")), absl::OkStatus());
  fs::create_directories(root_ + "/alice/run/checkpoints");
  Put("alice/run/model");
  fs::create_directories(root_ + "/bob");
  fs::create_symlink("../alice/run/model", root_ + "/bob/model");
  fs::create_directory_symlink("../alice/run", root_ + "/bob/run");
  for (const char* path : {"alice/run", "alice/run/model", "alice/run/checkpoints", "bob/model", "bob/run/model"}) {
    EXPECT_TRUE(Refused(CheckMayRead(root_, path, Job("bob")))) << path;
    EXPECT_EQ(CheckMayRead(root_, path, Job("alice")), absl::OkStatus()) << path;
  }
  EXPECT_TRUE(Refused(Use("bob/run", Job("bob")))) << "a link is the folder that it leads to";
  EXPECT_EQ(CheckMayRead(root_, "gone/model", Job("bob")), absl::OkStatus()) << "others tell that it is not there";
  EXPECT_FALSE(CheckMayRead(root_, "../other", Job("bob")).ok());
}

TEST_F(FolderOwnerTest, NotesThatAreNoneKeepEverybodyOut) {
  fs::create_directories(root_ + "/link");
  fs::create_symlink("/dev/null", root_ + "/link/.adjoin-owner");
  fs::create_directories(root_ + "/pipe");
  ASSERT_EQ(mkfifo((root_ + "/pipe/.adjoin-owner").c_str(), 0600), 0);
  fs::create_directories(root_ + "/text");
  Put("text/.adjoin-owner", "alice\n");
  fs::create_directories(root_ + "/empty");
  Put("empty/.adjoin-owner", "");
  for (const char* folder : {"link", "pipe", "text", "empty"}) {
    EXPECT_TRUE(Refused(Use(folder, Job("alice")))) << folder;
    EXPECT_TRUE(Refused(CheckMayRead(root_, folder, Job("alice")))) << folder;
    EXPECT_EQ(Use(folder, Job("root", true)), absl::OkStatus()) << folder;
  }
  fs::create_directories(root_ + "/by-hand");
  Put("by-hand/.adjoin-owner", "owner: alice\n");
  EXPECT_EQ(Use("by-hand", Job("alice")), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("by-hand", Job("bob"))));
}

TEST_F(FolderOwnerTest, NamesOfAnyBytesStayDifferent) {
  const std::string newline = "eve\nowner: alice", tab = "eve\t", escaped = "eve\\t";
  ASSERT_EQ(Use("a", Job(newline)), absl::OkStatus());
  EXPECT_EQ(OwnerOf("a"), newline);
  EXPECT_TRUE(Refused(Use("a", Job("alice"))));
  EXPECT_TRUE(Refused(Use("a", Job("eve"))));
  ASSERT_EQ(Use("b", Job(tab)), absl::OkStatus());
  EXPECT_TRUE(Refused(Use("b", Job(escaped))));
  EXPECT_EQ(Use("b", Job(tab)), absl::OkStatus());
}

TEST_F(FolderOwnerTest, OfManyDaemonsAtOnceOneIsFirst) {
  for (int round = 0; round < 20; ++round) {
    const std::string folder = absl::StrCat("race-", round);
    fs::create_directories(root_ + "/" + folder);
    std::vector<absl::Status> ends(8);
    std::vector<std::thread> daemons;
    for (size_t i = 0; i < ends.size(); ++i) {
      daemons.emplace_back([&, i] { ends[i] = OwnFolder(root_, folder, Job(i % 2 == 0 ? "alice" : "bob")); });
    }
    for (std::thread& daemon : daemons) daemon.join();
    const std::string owner = OwnerOf(folder);
    for (size_t i = 0; i < ends.size(); ++i) {
      EXPECT_EQ(ends[i].ok(), owner == (i % 2 == 0 ? "alice" : "bob")) << ends[i];
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/" + folder), {}), 1) << "only the note is there";
  }
}

TEST_F(FolderOwnerTest, ManyFilesWithoutANoteAreNotLookedThrough) {
  fs::create_directories(root_ + "/full/below");
  for (int i = 0; i <= 20000; ++i) close(open(absl::StrCat(root_, "/full/", i).c_str(), O_CREAT | O_WRONLY, 0600));
  const absl::Status refused = Use("full", Job("alice"));
  EXPECT_TRUE(Refused(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("too many"));
  Put("full/.adjoin-owner", "owner: alice");
  EXPECT_EQ(Use("full", Job("alice")), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
