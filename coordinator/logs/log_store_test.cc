#include "coordinator/logs/log_store.h"

#include <gtest/gtest.h>
#include <stdint.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace adjoin {
namespace {

std::string Folder(const std::string& name) {
  std::string folder = std::string(getenv("TEST_TMPDIR")) + "/" + name;
  std::filesystem::create_directories(folder);
  return folder;
}

LogLine Line(uint32_t rank, int64_t unix_ms, const std::string& text, uint64_t epoch = 0) {
  LogLine line;
  line.set_epoch(epoch);
  line.set_rank(rank);
  line.set_unix_ms(unix_ms);
  line.set_text(text);
  return line;
}

TEST(LogStoreTest, ReadsAppendedLinesAndGoesOnWhereItStopped) {
  LogStore store(Folder("order"), 1 << 20);
  EXPECT_TRUE(store.Read("job-1", 0)->lines.empty());
  ASSERT_TRUE(store.Append("job-1", {Line(0, 5, "first line"), Line(3, 6, "")}).ok());
  auto chunk = store.Read("job-1", 0);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->lines.size(), 2);
  EXPECT_EQ(chunk->lines[0].text(), "first line");
  EXPECT_EQ(chunk->lines[1].rank(), 3);
  EXPECT_EQ(chunk->lines[1].unix_ms(), 6);
  int64_t position = chunk->next;
  EXPECT_EQ(store.Read("job-1", position)->next, position);
  ASSERT_TRUE(store.Append("job-1", {Line(1, 7, "later")}).ok());
  ASSERT_EQ(store.Read("job-1", position)->lines.size(), 1);
}

TEST(LogStoreTest, AJobsFolderIsThereFromTheFirstLineToItsRemoval) {
  std::string folder = Folder("removal");
  LogStore store(folder, 1 << 20);
  ASSERT_TRUE(store.Append("job-1", {Line(0, 5, "line")}).ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/job-1"));
  ASSERT_TRUE(store.Remove("job-1").ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/job-1"));
  EXPECT_TRUE(store.Read("job-1", 0)->lines.empty());
  EXPECT_TRUE(store.Remove("job-2").ok());
}

TEST(LogStoreTest, KeepsTheNewestLinesWithinItsSize) {
  std::string folder = Folder("bounded");
  LogStore store(folder, 20000);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(store.Append("job-1", {Line(0, i, std::string(50, 'x'))}).ok());
  }
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/job-1")) bytes += entry.file_size();
  EXPECT_LE(bytes, 20200);
  std::vector<int64_t> times;
  for (int64_t position = 0;;) {
    auto chunk = store.Read("job-1", position);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    if (chunk->next == position) break;
    for (const LogLine& line : chunk->lines) times.push_back(line.unix_ms());
    position = chunk->next;
  }
  ASSERT_GT(times.size(), 150);
  EXPECT_EQ(times.back(), 1999);
  for (size_t i = 1; i < times.size(); ++i) EXPECT_EQ(times[i], times[i - 1] + 1);
}

std::vector<LogLine> All(LogStore& store, const std::string& job) {
  std::vector<LogLine> lines;
  for (int64_t position = 0;;) {
    auto chunk = store.Read(job, position);
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    if (!chunk.ok() || chunk->next == position) return lines;
    lines.insert(lines.end(), chunk->lines.begin(), chunk->lines.end());
    position = chunk->next;
  }
}

TEST(LogStoreTest, FromTheEndBackwardsItReadsTheSameLinesInPieces) {
  LogStore store(Folder("backwards"), 3 << 20);
  EXPECT_TRUE(store.ReadBefore("job-1", INT64_MAX)->lines.empty());
  for (int i = 0; i < 300; ++i) {
    std::vector<LogLine> lines;
    for (int j = 0; j < 100; ++j) lines.push_back(Line(j % 3, i * 100 + j, std::string((i * 37 + j * 11) % 200, 'x')));
    ASSERT_TRUE(store.Append("job-1", lines).ok());
  }
  const std::vector<LogLine> all = All(store, "job-1");
  ASSERT_GT(all.size(), 15000);
  std::vector<LogLine> read;
  int pieces = 0;
  const int64_t end = store.ReadBefore("job-1", INT64_MAX)->next;
  EXPECT_EQ(store.Read("job-1", end)->next, end) << "following goes on there";
  for (int64_t before = end;; ++pieces) {
    auto chunk = store.ReadBefore("job-1", before);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->next, before);
    if (chunk->begin == before) break;
    ASSERT_FALSE(chunk->lines.empty());
    read.insert(read.begin(), chunk->lines.begin(), chunk->lines.end());
    before = chunk->begin;
  }
  EXPECT_GT(pieces, 6);
  ASSERT_EQ(read.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(read[i].unix_ms(), all[i].unix_ms());
    ASSERT_EQ(read[i].text(), all[i].text());
  }
}

TEST(LogStoreTest, AnotherCoordinatorFindsTheLinesAgainAndPositionsStayTheSame) {
  std::string folder = Folder("restart");
  int64_t position = 0;
  {
    LogStore store(folder, 20000);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(store.Append("job-1", {Line(0, i, std::string(50, 'x'), 7)}).ok());
    position = store.Read("job-1", 1 << 30)->next;
  }
  LogStore store(folder, 20000);
  std::vector<LogLine> lines = All(store, "job-1");
  ASSERT_GT(lines.size(), 150);
  EXPECT_EQ(lines.back().unix_ms(), 999);
  EXPECT_EQ(lines.back().epoch(), 7);
  EXPECT_EQ(store.Read("job-1", position)->next, position);
  ASSERT_TRUE(store.Append("job-1", {Line(1, 1000, "of the next attempt", 9)}).ok());
  auto chunk = store.Read("job-1", position);
  ASSERT_EQ(chunk->lines.size(), 1);
  EXPECT_EQ(chunk->lines[0].text(), "of the next attempt");
  EXPECT_EQ(chunk->lines[0].epoch(), 9);
  // And what is found again counts for the bound.
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(store.Append("job-1", {Line(0, i, std::string(50, 'y'), 9)}).ok());
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/job-1")) bytes += entry.file_size();
  EXPECT_LE(bytes, 20200);
}

TEST(LogStoreTest, ATornLastLineIsCutOff) {
  std::string folder = Folder("torn");
  ASSERT_TRUE(LogStore(folder, 1 << 20).Append("job-1", {Line(0, 5, "whole", 3)}).ok());
  std::ofstream(folder + "/job-1/log-0", std::ios::app) << "6 0@3 half of a li";
  LogStore store(folder, 1 << 20);
  ASSERT_EQ(All(store, "job-1").size(), 1);
  ASSERT_TRUE(store.Append("job-1", {Line(0, 7, "next", 4)}).ok());
  std::vector<LogLine> lines = All(store, "job-1");
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[1].text(), "next");
  // Nothing but a torn line.
  std::filesystem::create_directories(folder + "/job-2");
  std::ofstream(folder + "/job-2/log-0") << "6 0@3 half";
  EXPECT_TRUE(All(store, "job-2").empty());
  ASSERT_TRUE(store.Append("job-2", {Line(0, 7, "first", 4)}).ok());
  ASSERT_EQ(All(store, "job-2").size(), 1);
}

TEST(LogStoreTest, ReadsLinesWithoutAnEpochAndSkipsTextThatIsNoLine) {
  std::string folder = Folder("old");
  std::filesystem::create_directories(folder + "/job-1");
  std::ofstream(folder + "/job-1/log-0") << "5 2 a text @ all\nnonsense\n6 1@x no\n7 1@8 new\n";
  LogStore store(folder, 1 << 20);
  std::vector<LogLine> lines = All(store, "job-1");
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0].text(), "a text @ all");
  EXPECT_EQ(lines[0].rank(), 2);
  EXPECT_EQ(lines[0].epoch(), 0);
  EXPECT_EQ(lines[1].epoch(), 8);
}

TEST(LogStoreTest, ALineEndWithinATextBecomesASpace) {
  LogStore store(Folder("lines"), 10 << 20);
  std::vector<LogLine> written;
  for (int i = 0; i < 20; ++i) written.push_back(Line(0, i, "forged\n9 9@9 line " + std::string(100000, 'z')));
  ASSERT_TRUE(store.Append("job-1", written).ok());
  std::vector<LogLine> lines = All(store, "job-1");
  ASSERT_EQ(lines.size(), 20);
  for (const LogLine& line : lines) {
    EXPECT_EQ(line.rank(), 0);
    EXPECT_EQ(line.text().substr(0, 20), "forged 9 9@9 line zz");
    EXPECT_EQ(line.text().size(), LogStore::kMaxLineBytes + 6);
  }
}

TEST(LogStoreTest, AFileThatCannotBeWrittenIsAnErrorAndLosesNoEarlierLine) {
  std::string folder = Folder("unwritable");
  LogStore store(folder, 1 << 20);
  std::filesystem::create_directories(folder + "/job-1/log-0");  // a folder of the file's name
  EXPECT_EQ(store.Append("job-1", {Line(0, 5, "line")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store.Read("job-1", 0)->lines.empty());
  std::filesystem::remove(folder + "/job-1/log-0");
  EXPECT_TRUE(store.Append("job-1", {Line(0, 6, "line")}).ok());
  ASSERT_EQ(All(store, "job-1").size(), 1);
}

TEST(LogStoreTest, ALongLineIsCutBetweenCharacters) {
  LogStore store(Folder("characters"), 1 << 20);
  std::string text = "x";
  while (text.size() <= LogStore::kMaxLineBytes) text += "\xe2\x82\xac";  // of three bytes each
  ASSERT_TRUE(store.Append("job-1", {Line(0, 5, text)}).ok());
  std::vector<LogLine> lines = All(store, "job-1");
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0].text(), text.substr(0, LogStore::kMaxLineBytes - 1) + " [cut]");
  EXPECT_TRUE(LogLine().ParseFromString(lines[0].SerializeAsString())) << "or no message could carry it";
}

}  // namespace
}  // namespace adjoin
