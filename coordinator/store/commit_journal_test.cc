#include "coordinator/store/commit_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

class CommitJournalTest : public ::testing::Test {
 protected:
  CommitJournalTest() { std::filesystem::remove(path_); }
  static CommitMark Mark(uint64_t sequence) {
    return {.store_id = ~uint64_t{7},
            .sequence = sequence,
            .hash = std::string(32, static_cast<char>('a' + sequence % 6)),
            .unix_ms = 1000 + static_cast<int64_t>(sequence),
            .last_job = 3,
            .last_epoch = 2 * sequence,
            .last_event = 5};
  }
  std::unique_ptr<CommitJournal> Open() {
    auto journal = CommitJournal::Open(path_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  const std::string path_ = ::testing::TempDir() + "/adjoin.journal";
};

TEST_F(CommitJournalTest, NamesTheNewestCommitAlsoAfterItIsOpenedAgain) {
  EXPECT_EQ(*CommitJournal::Read(path_), std::nullopt);
  for (uint64_t sequence = 1; sequence < 20;) {
    auto journal = Open();
    for (int i = 0; i < 3; ++i, ++sequence) {
      ASSERT_EQ(journal->Write(Mark(sequence)), absl::OkStatus());
      EXPECT_EQ(**CommitJournal::Read(path_), Mark(sequence));
    }
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 8192);
  EXPECT_EQ(std::filesystem::status(path_).permissions() & std::filesystem::perms(0777), std::filesystem::perms(0600));
}

// Whatever becomes of one slot, the file names one of the last two commits, or says that it is damaged.
TEST_F(CommitJournalTest, ATornOrDamagedWriteLeavesTheCommitBefore) {
  std::mt19937_64 random(TestSeed(1));
  {
    auto journal = Open();
    ASSERT_EQ(journal->Write(Mark(6)), absl::OkStatus());
    ASSERT_EQ(journal->Write(Mark(7)), absl::OkStatus());
  }
  const std::string whole = Bytes();
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    const size_t slot = (random() % 2) * 4096;
    if (round % 2 == 0) {
      damaged[slot + random() % 150] ^= static_cast<char>(1 << random() % 8);
    } else {
      const size_t torn = random() % 150;
      damaged.replace(slot + torn, 4096 - torn, std::string(4096 - torn, '\0'));
    }
    Put(damaged);
    const auto read = CommitJournal::Read(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_TRUE(**read == Mark(6) || **read == Mark(7)) << (*read)->sequence;
  }
  Put(std::string(8192, 'x'));
  EXPECT_EQ(CommitJournal::Read(path_).status().code(), absl::StatusCode::kDataLoss);
  Put("");
  EXPECT_EQ(*CommitJournal::Read(path_), std::nullopt);
}

TEST_F(CommitJournalTest, TellsWhyItCannotBeMade) {
  EXPECT_EQ(CommitJournal::Open("/proc/adjoin.journal").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CommitJournal::Open(::testing::TempDir()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace adjoin
