#include "coordinator/log_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace adjoin {
namespace {

std::string Folder(const std::string& name) {
  std::string folder = std::string(getenv("TEST_TMPDIR")) + "/" + name;
  std::filesystem::create_directories(folder);
  return folder;
}

LogLine Line(uint32_t rank, int64_t unix_ms, const std::string& text) {
  LogLine line;
  line.set_rank(rank);
  line.set_unix_ms(unix_ms);
  line.set_text(text);
  return line;
}

TEST(LogStoreTest, ReadsWhatWasAppendedAndGoesOnWhereItStopped) {
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

TEST(LogStoreTest, AJobsFolderIsThereFromItsAddingToItsRemoval) {
  std::string folder = Folder("removal");
  LogStore store(folder, 1 << 20);
  ASSERT_TRUE(store.Add("job-1").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/job-1")) << "or a job without lines gives its number away";
  ASSERT_TRUE(store.Append("job-1", {Line(0, 5, "line")}).ok());
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

}  // namespace
}  // namespace adjoin
