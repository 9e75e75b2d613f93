#include "worker/model/file_sums.h"

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "base/content_hash.h"
#include "base/hopeless_failure.h"
#include "base/testing/test_seed.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kChunk = int64_t{4} << 20;

const Deadline kLong = Deadline::After(absl::Minutes(5));

class FileSumsTest : public ::testing::Test {
 protected:
  FileSumsTest() : path_(std::string(getenv("TEST_TMPDIR")) + "/file_sums") {
    std::string bytes(2 * kChunk + 1000, '\0');
    std::mt19937 random(TestSeed());
    for (char& byte : bytes) byte = static_cast<char>(random());
    Write(bytes);
  }
  void Write(const std::string& bytes) {
    bytes_ = bytes;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  FileSums Sums() {
    auto sums = SumFile(path_, kLong);
    EXPECT_TRUE(sums.ok()) << sums.status();
    return sums.ok() ? *sums : FileSums();
  }
  absl::Status Check(const FileSums& sums, int64_t begin, int64_t end) {
    auto check = FileCheck::Open(path_, sums);
    if (!check.ok()) return check.status();
    return (*check)->Check(begin, end);
  }

  const std::string path_;
  std::string bytes_;
};

TEST_F(FileSumsTest, SumsEachChunkByItself) {
  const FileSums sums = Sums();
  EXPECT_EQ(sums.bytes(), static_cast<int64_t>(bytes_.size()));
  EXPECT_EQ(sums.chunk_bytes(), kChunk);
  ASSERT_EQ(sums.sum_size(), 3);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(sums.sum(c), ContentHash::Of(bytes_.substr(c * kChunk, kChunk)));
  EXPECT_TRUE(Check(sums, 0, sums.bytes()).ok());
}

TEST_F(FileSumsTest, OneByteOfAChunkThatIsUsedMakesItAnotherFile) {
  const FileSums sums = Sums();
  std::string other = bytes_;
  other[kChunk + 5] ^= 1;
  Write(other);
  EXPECT_TRUE(Check(sums, 0, kChunk).ok()) << "the rank uses nothing of what has changed";
  EXPECT_TRUE(Check(sums, 2 * kChunk, sums.bytes()).ok());
  EXPECT_TRUE(Check(sums, 7, 7).ok());
  for (const auto& [begin, end] : {std::pair(kChunk - 1, kChunk + 1), std::pair(kChunk + 100, kChunk + 101)}) {
    const absl::Status status = Check(sums, begin, end);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(IsHopelessFailure(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("its bytes from 4194304 on are others"));
  }
}

TEST_F(FileSumsTest, AnotherLengthIsAnotherFile) {
  const FileSums sums = Sums();
  Write(bytes_ + "x");
  const absl::Status longer = Check(sums, 0, 1);
  EXPECT_TRUE(IsHopelessFailure(longer)) << longer;
  EXPECT_THAT(std::string(longer.message()), HasSubstr("(8389609 bytes, then 8389608)"));
  Write(bytes_.substr(0, 10));
  EXPECT_TRUE(IsHopelessFailure(Check(sums, 0, 1)));
}

TEST_F(FileSumsTest, AFileThatIsReplacedWhileItIsHeldIsStillTheOldOne) {
  const FileSums sums = Sums();
  auto check = FileCheck::Open(path_, sums);
  ASSERT_TRUE(check.ok()) << check.status();
  std::ofstream(path_ + ".new", std::ios::binary) << std::string(bytes_.size(), 'n');
  std::filesystem::rename(path_ + ".new", path_);
  EXPECT_TRUE((*check)->Check(0, sums.bytes()).ok());
  EXPECT_TRUE(IsHopelessFailure(Check(sums, 0, sums.bytes())));
}

TEST_F(FileSumsTest, WhatThereWasNoTimeForIsNotCompared) {
  const auto none = SumFile(path_, Deadline::After(absl::ZeroDuration()));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->sum_size(), 0);
  EXPECT_EQ(none->bytes(), static_cast<int64_t>(bytes_.size()));
  FileSums first = Sums();
  first.mutable_sum()->DeleteSubrange(1, 2);
  std::string other = bytes_;
  other.back() ^= 1;
  Write(other);
  EXPECT_TRUE(Check(first, 0, first.bytes()).ok());
  other[0] ^= 1;
  Write(other);
  EXPECT_FALSE(Check(first, 0, first.bytes()).ok());
}

TEST_F(FileSumsTest, LargeFilesHaveLargerChunks) {
  std::filesystem::resize_file(path_, kChunk * kMostFileSums + 1);  // sparse
  const auto sums = SumFile(path_, Deadline::After(absl::ZeroDuration()));
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->chunk_bytes(), kChunk + 1);
}

TEST_F(FileSumsTest, MissingFilesAndFoldersAreErrors) {
  EXPECT_TRUE(absl::IsNotFound(SumFile(path_ + "-not", kLong).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SumFile(getenv("TEST_TMPDIR"), kLong).status()));
  EXPECT_TRUE(absl::IsNotFound(FileCheck::Open(path_ + "-not", Sums()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Check(FileSums(), 0, 1)));
}

}  // namespace
}  // namespace adjoin
