#include "worker/data/inflate_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

// The errno that the file system returns to each request for a lock; 0: the real answer.
std::atomic<int> refused_locks{0};

std::string Content(int64_t bytes, int seed = 0) {
  std::string content(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>((i * 7 + seed) % 251 ^ i >> 9);
  return content;
}

std::set<std::string> FilesIn(const std::string& folder) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && name != "lock") names.insert(name);
  }
  return names;
}

std::string Content(const OpenFile& file) {
  std::string content(static_cast<size_t>(*file.Size()), '\0');
  EXPECT_TRUE(file.ReadAt(0, content.data(), static_cast<int64_t>(content.size())).ok());
  return content;
}

class InflateCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = TestPath("cache");
    EXPECT_EQ(std::system(absl::StrCat("rm -rf ", folder_).c_str()), 0);
  }
  // A file that inflates to Content(bytes, seed).
  InflateRequest Request(const std::string& name, int64_t bytes, int seed = 0) {
    InflateRequest request{.path = TestPath(name), .name = name, .bytes = bytes, .cache_dir = folder_};
    WriteFile(request.path, Gzip(Content(bytes, seed)));
    return request;
  }
  std::string folder_;
};

TEST_F(InflateCacheTest, InflatesOnceAndFindsItAgain) {
  const InflateRequest request = Request("a.gz", 300'000);
  for (int round = 0; round < 3; ++round) {
    const auto copy = InflatedCopy(request);
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(Content(*copy), Content(300'000));
    ASSERT_EQ(FilesIn(folder_).size(), 1u);
    struct stat info;
    ASSERT_EQ(stat(folder_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
  // A change of the copy is read back: nothing was inflated again.
  const std::string copied = folder_ + "/" + *FilesIn(folder_).begin();
  WriteFile(copied, Content(300'000, 5));
  EXPECT_EQ(Content(*InflatedCopy(request)), Content(300'000, 5));
  // A copy of another size is not used (the machine died before its disk had written everything).
  WriteFile(copied, "short");
  EXPECT_EQ(Content(*InflatedCopy(request)), Content(300'000));
}

TEST_F(InflateCacheTest, AChangedFileGetsANewCopy) {
  const InflateRequest request = Request("a.gz", 1000, 1);
  ASSERT_EQ(Content(*InflatedCopy(request)), Content(1000, 1));
  Request("a.gz", 1000, 2);
  EXPECT_EQ(Content(*InflatedCopy(request)), Content(1000, 2));
  EXPECT_EQ(FilesIn(folder_).size(), 2u);
}

TEST_F(InflateCacheTest, LeavesNothingWhereThereIsNoFolder) {
  InflateRequest request = Request("a.gz", 100'000);
  request.cache_dir = "";
  const auto copy = InflatedCopy(request);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(Content(*copy), Content(100'000));
  struct stat info;
  ASSERT_EQ(fstat(copy->fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0u);
}

TEST_F(InflateCacheTest, OnlyOneOfManyProcessesAndThreadsInflates) {
  const InflateRequest request = Request("a.gz", 3'000'000);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto copy = InflatedCopy(request);
      struct stat info;
      // All have the same file.
      _exit(copy.ok() && fstat(copy->fd(), &info) == 0 && Content(*copy) == Content(3'000'000)
                ? static_cast<int>(info.st_ino % 199) + 1
                : 0);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  std::vector<ino_t> inodes(4, 0);
  for (ino_t& inode : inodes) {
    threads.emplace_back([&inode, &request] {
      const auto copy = InflatedCopy(request);
      struct stat info;
      if (copy.ok() && fstat(copy->fd(), &info) == 0) inode = info.st_ino;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ino_t inode : inodes) EXPECT_EQ(inode, inodes[0]);
  EXPECT_NE(inodes[0], 0u);
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(inodes[0] % 199) + 1);
  }
  EXPECT_EQ(FilesIn(folder_).size(), 1u);
}

TEST_F(InflateCacheTest, TimesOutWhileAnotherInflatesAndReplacesADeadProcess) {
  InflateRequest request = Request("a.gz", 1000);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    mkdir(folder_.c_str(), 0700);
    const int fd = open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT, 0600);
    struct flock all = {};
    all.l_type = F_WRLCK;
    fcntl(fd, F_OFD_SETLK, &all);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  request.deadline = Deadline::After(absl::Milliseconds(50));
  const absl::Status late = InflatedCopy(request).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr("a.gz: waited too long for another process that inflates it"));
  // It leaves a part behind.
  WriteFile(folder_ + "/x.inflated.tmp", "part");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  request.deadline = Deadline::After(absl::Seconds(30));
  EXPECT_EQ(Content(*InflatedCopy(request)), Content(1000));
  EXPECT_EQ(FilesIn(folder_).size(), 1u);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(InflateCacheTest, RemovesTheLongestUnusedCopiesFirst) {
  std::vector<InflateRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(Request(absl::StrCat("f", i, ".gz"), 10'000, i));
    requests.back().limit = 30'000;
  }
  const auto set_used = [&](int64_t age) {
    // Older than anything that is used from now on.
    for (const std::string& name : FilesIn(folder_)) {
      struct timespec times[2];
      clock_gettime(CLOCK_REALTIME, &times[0]);
      times[0].tv_sec -= age;
      times[1] = times[0];
      struct stat info;
      stat((folder_ + "/" + name).c_str(), &info);
      if (info.st_mtim.tv_sec > times[0].tv_sec) utimensat(AT_FDCWD, (folder_ + "/" + name).c_str(), times, 0);
    }
  };
  const auto held = InflatedCopy(requests[0]);
  set_used(300);
  ASSERT_TRUE(InflatedCopy(requests[1]).ok());
  set_used(200);
  ASSERT_TRUE(InflatedCopy(requests[2]).ok());
  const std::set<std::string> three = FilesIn(folder_);
  ASSERT_EQ(three.size(), 3u);
  ASSERT_TRUE(InflatedCopy(requests[0]).ok());  // used again: now f1 is the oldest
  ASSERT_TRUE(InflatedCopy(requests[3]).ok());
  EXPECT_EQ(FilesIn(folder_).size(), 3u);
  struct stat before, after;
  fstat(held->fd(), &before);
  const auto again = InflatedCopy(requests[0]);
  fstat(again->fd(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino) << "f0 was made anew";
  EXPECT_EQ(Content(*InflatedCopy(requests[1])), Content(10'000, 1));
  InflateRequest large = Request("large.gz", 30'001);
  large.limit = 30'000;
  const absl::Status status = InflatedCopy(large).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("large.gz: inflated it has 30001 bytes, more than the cache"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("30000"));
}

TEST_F(InflateCacheTest, KeepsCopiesThatAreOpen) {
  std::vector<InflateRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(Request(absl::StrCat("f", i, ".gz"), 10'000, i));
    requests.back().limit = 20'000;
  }
  const auto inode = [](const absl::StatusOr<OpenFile>& copy) {
    struct stat info = {};
    EXPECT_TRUE(copy.ok() && fstat(copy->fd(), &info) == 0) << copy.status();
    return info.st_ino;
  };
  std::vector<absl::StatusOr<OpenFile>> held;
  held.push_back(InflatedCopy(requests[0]));
  inode(InflatedCopy(requests[1]));
  // The longest unused copy is open, so the other one is removed.
  held.push_back(InflatedCopy(requests[2]));
  EXPECT_EQ(FilesIn(folder_).size(), 2u);
  EXPECT_EQ(inode(InflatedCopy(requests[0])), inode(held[0]));
  // Copies that were found are held like those that were made. Where all are held, they exceed the limit.
  held.push_back(InflatedCopy(requests[0]));
  held.push_back(InflatedCopy(requests[3]));
  EXPECT_EQ(FilesIn(folder_).size(), 3u);
  held[0] = absl::CancelledError();
  inode(InflatedCopy(requests[4]));
  EXPECT_EQ(inode(InflatedCopy(requests[0])), inode(held[2]));
  EXPECT_EQ(inode(InflatedCopy(requests[2])), inode(held[1]));
  EXPECT_EQ(inode(InflatedCopy(requests[3])), inode(held[3]));
  held.clear();
  inode(InflatedCopy(requests[1]));
  EXPECT_EQ(FilesIn(folder_).size(), 2u);
}

TEST_F(InflateCacheTest, WithoutLocksEachProcessHasItsOwnCopyAtOnce) {
  InflateRequest request = Request("a.gz", 100'000);
  request.deadline = Deadline::After(absl::Seconds(1));
  for (int error : {ENOLCK, EINVAL, EOPNOTSUPP}) {
    refused_locks = error;
    const auto copy = InflatedCopy(request);
    refused_locks = 0;
    ASSERT_TRUE(copy.ok()) << strerror(error) << ": " << copy.status();
    EXPECT_EQ(Content(*copy), Content(100'000));
    EXPECT_TRUE(FilesIn(folder_).empty());
  }
  refused_locks = EAGAIN;
  EXPECT_EQ(InflatedCopy(request).status().code(), absl::StatusCode::kDeadlineExceeded);
  refused_locks = 0;
}

TEST_F(InflateCacheTest, StopsWhileItInflatesAndWhileItWaits) {
  InflateRequest request = Request("a.gz", 100'000);
  const std::atomic<bool> stop = true;
  request.stop = &stop;
  for (const std::string& cache_dir : {folder_, std::string()}) {
    request.cache_dir = cache_dir;
    EXPECT_EQ(InflatedCopy(request).status().code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(FilesIn(folder_).empty());
  }
  request.cache_dir = folder_;
  refused_locks = EAGAIN;
  EXPECT_EQ(InflatedCopy(request).status().code(), absl::StatusCode::kCancelled);
  refused_locks = 0;
}

TEST_F(InflateCacheTest, StopsAtTheSizeThatTheHeaderNames) {
  InflateRequest request = Request("bomb.gz", 5'000'000);
  WriteFile(request.path, Gzip(std::string(5'000'000, '\0')));
  for (const std::string& cache_dir : {folder_, std::string()}) {
    request.cache_dir = cache_dir;
    request.bytes = 1000;
    absl::Status status = InflatedCopy(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("trailing bytes: inflated it has more than the 1000 bytes"));
    request.bytes = int64_t{1} << 40;
    status = InflatedCopy(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("which no gzip file of"));
    request.bytes = 5'000'001;
    EXPECT_THAT(std::string(InflatedCopy(request).status().message()), HasSubstr("truncated"));
    EXPECT_TRUE(FilesIn(folder_).empty());
  }
}

TEST_F(InflateCacheTest, ACorruptStreamLeavesNothing) {
  const InflateRequest request = Request("a.gz", 100'000);
  std::string bytes = ReadFile(request.path);
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // a byte of the checksum
  WriteFile(request.path, bytes);
  EXPECT_EQ(InflatedCopy(request).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(FilesIn(folder_).empty());
}

TEST_F(InflateCacheTest, AFullDiskIsOneErrorAndLeavesNothing) {
  // A limit on files' sizes stands for a full disk.
  const InflateRequest request = Request("a.gz", 1'000'000);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = InflatedCopy(request).status();
    _exit(absl::StartsWith(std::string(status.message()), "a.gz: ") && absl::IsResourceExhausted(status) ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(FilesIn(folder_).empty());
}

TEST_F(InflateCacheTest, MakesRoomOnASmallDiskAndRefusesWhatDoesNotFit) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  if (geteuid() != 0 || mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here: " << strerror(errno);
  }
  const InflateRequest large = Request("large.gz", 2'000'000);
  InflateRequest unlimited = large;
  unlimited.limit = int64_t{1} << 40;
  const absl::Status full = InflatedCopy(unlimited).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(full.message()),
      testing::MatchesRegex("large.gz: inflated it has 2000000 bytes, and the disk of the cache of inflated files "
                            "has [0-9]+ free: make room there"));
  EXPECT_TRUE(FilesIn(folder_).empty());
  // Without a limit the disk's size limits the folder.
  EXPECT_THAT(std::string(InflatedCopy(large).status().message()),
              HasSubstr("more than the cache of inflated files may have"));
  for (int i = 0; i < 3; ++i) {
    InflateRequest half = Request(absl::StrCat("half", i, ".gz"), 600'000, i);
    half.limit = int64_t{1} << 40;
    const auto copy = InflatedCopy(half);
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(Content(*copy), Content(600'000, i));
    EXPECT_EQ(FilesIn(folder_).size(), 1u) << "the one before made room";
  }
  umount2(folder_.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace adjoin

// In place of the C library's.
extern "C" int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command == F_OFD_SETLK && adjoin::refused_locks != 0) {
    errno = adjoin::refused_locks;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
}
