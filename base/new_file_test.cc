#include "base/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {
namespace {

class NewFileTest : public ::testing::Test {
 protected:
  NewFileTest() : folder_(::testing::TempDir() + "/new-file-XXXXXX") { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~NewFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& content) const { std::ofstream(Path(name)) << content; }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  mode_t KindOf(const std::string& name) const {
    struct stat info = {};
    EXPECT_EQ(lstat(Path(name).c_str(), &info), 0) << name;
    return info.st_mode & S_IFMT;
  }
  int Files() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  absl::Status WriteNew(const std::string& name, const std::string& content, NewFile::Over over) const {
    absl::StatusOr<NewFile> file = NewFile::Begin(Path(name), over);
    if (!file.ok()) return file.status();
    if (absl::Status written = file->Write(content); !written.ok()) return written;
    return file->Finish();
  }
  // Makes one of everything that is no regular file; returns their names.
  std::vector<std::string> MakeOthers() const {
    EXPECT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
    EXPECT_EQ(mknod(Path("socket").c_str(), S_IFSOCK | 0600, 0), 0);
    std::filesystem::create_directory(Path("folder"));
    std::vector<std::string> names = {"pipe", "socket", "folder"};
    // The device that /dev/null is; only root may make one.
    if (mknod(Path("device").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) names.push_back("device");
    return names;
  }

  std::string folder_;
};

TEST_F(NewFileTest, HasItsNameOnlyWhenItIsWhole) {
  Put("model", "old");
  {
    absl::StatusOr<NewFile> file = NewFile::Begin(Path("model"), NewFile::Over::kRegularFile);
    ASSERT_EQ(file.status(), absl::OkStatus());
    ASSERT_EQ(file->Write("new"), absl::OkStatus());
    EXPECT_EQ(Content("model"), "old");
  }
  EXPECT_EQ(Content("model"), "old") << "it was never finished";
  EXPECT_EQ(Files(), 1);
  ASSERT_EQ(WriteNew("model", "new", NewFile::Over::kRegularFile), absl::OkStatus());
  EXPECT_EQ(Content("model"), "new");
  ASSERT_EQ(WriteNew("other", "first", NewFile::Over::kNothing), absl::OkStatus());
  EXPECT_EQ(Content("other"), "first");
  EXPECT_TRUE(absl::IsAlreadyExists(WriteNew("other", "second", NewFile::Over::kNothing)));
  EXPECT_EQ(Content("other"), "first");
  EXPECT_EQ(Files(), 2);
}

TEST_F(NewFileTest, NamesTheFolderThatIsMissing) {
  for (NewFile::Over over : {NewFile::Over::kRegularFile, NewFile::Over::kNothing}) {
    const absl::Status status = NewFile::Begin(Path("none/model"), over).status();
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_EQ(status.message(), Path("none/model") + " cannot be written: there is no folder " + Path("none"));
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(NewFileTest, ReplacesNothingButRegularFiles) {
  for (const std::string& name : MakeOthers()) {
    const mode_t kind = KindOf(name);
    for (NewFile::Over over : {NewFile::Over::kRegularFile, NewFile::Over::kNothing}) {
      EXPECT_FALSE(WriteNew(name, "new", over).ok()) << name;
      EXPECT_EQ(KindOf(name), kind) << name;
    }
    // One that comes while the file is written.
    absl::StatusOr<NewFile> file = NewFile::Begin(Path("late"), NewFile::Over::kRegularFile);
    ASSERT_EQ(file.status(), absl::OkStatus());
    std::filesystem::rename(Path(name), Path("late"));
    EXPECT_TRUE(absl::IsFailedPrecondition(file->Finish())) << name;
    EXPECT_EQ(KindOf("late"), kind) << name;
    Put("from", "new");
    EXPECT_TRUE(absl::IsFailedPrecondition(ReplaceFile(Path("from"), Path("late")))) << name;
    EXPECT_EQ(KindOf("late"), kind) << name;
    std::filesystem::remove(Path("late"));
  }
}

TEST_F(NewFileTest, FollowsALinkToAFileAndRefusesOthers) {
  std::filesystem::create_directory(Path("elsewhere"));
  Put("elsewhere/model", "old");
  std::filesystem::create_symlink("elsewhere/model", Path("link"));
  ASSERT_EQ(WriteNew("link", "new", NewFile::Over::kRegularFile), absl::OkStatus());
  EXPECT_EQ(KindOf("link"), S_IFLNK);
  EXPECT_EQ(Content("elsewhere/model"), "new");
  std::filesystem::create_symlink("nowhere", Path("dangling"));
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteNew("dangling", "new", NewFile::Over::kRegularFile)));
  std::filesystem::create_symlink("/dev/null", Path("null"));
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteNew("null", "new", NewFile::Over::kRegularFile)));
  EXPECT_EQ(KindOf("null"), S_IFLNK);
  // As /dev/stdout is.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(ends[1]), Path("stdout"));
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteNew("stdout", "new", NewFile::Over::kRegularFile)));
  EXPECT_EQ(KindOf("stdout"), S_IFLNK);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(NewFileTest, AJobsResultTakesThePlaceOfALink) {
  Put("from", "new");
  Put("target", "old");
  std::filesystem::create_symlink("target", Path("to"));
  ASSERT_EQ(ReplaceFile(Path("from"), Path("to")), absl::OkStatus());
  EXPECT_EQ(KindOf("to"), S_IFREG);
  EXPECT_EQ(Content("target"), "old");
}

}  // namespace
}  // namespace adjoin
