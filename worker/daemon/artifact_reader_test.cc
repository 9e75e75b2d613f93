// Files of attempts that run or have failed, and those that they publish. Models of checkpoints are tested in
// worker/checkpoint/checkpoint_model_test.cc.
#include "worker/daemon/artifact_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "worker/session/attempt_output.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class ArtifactReaderTest : public ::testing::Test {
 protected:
  ArtifactReaderTest() {
    root_ = absl::StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  std::unique_ptr<AttemptOutput> Begin(uint64_t epoch, const std::string& job = "job-3") {
    auto output = AttemptOutput::Begin(
        {.root = root_, .output_dir = "out", .epoch = epoch, .job_id = job, .store_id = 9}, Soon());
    EXPECT_TRUE(output.ok()) << output.status();
    return *std::move(output);
  }
  static Deadline Soon() { return Deadline::After(absl::Seconds(20)); }
  static void Append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app | std::ios::binary) << text;
  }
  SendArtifact Request(uint64_t epoch, uint64_t from = 0) {
    SendArtifact request;
    request.set_job_id("job-3");
    request.set_output_dir("out");
    request.set_name("metrics.jsonl");
    request.set_unfinished(true);
    request.set_epoch(epoch);
    request.set_from(from);
    return request;
  }
  // The bytes, or the error.
  std::string Read(const SendArtifact& request) {
    const auto reader = OpenArtifact(root_, request);
    if (!reader.ok()) return std::string(reader.status().message());
    std::string all;
    while ((*reader)->more()) {
      const absl::StatusOr<std::string> part = (*reader)->Next();
      if (!part.ok()) return std::string(part.status().message());
      all += *part;
    }
    EXPECT_EQ(all.size(), static_cast<size_t>((*reader)->bytes()));
    return all;
  }

  std::string root_;
};

TEST_F(ArtifactReaderTest, ReadsWhatAnAttemptHasWrittenAndPublished) {
  const auto attempt = Begin(7);
  EXPECT_EQ(Read(Request(7)), "attempt 7 of job-3 has written no metrics.jsonl yet, or its folder was removed");
  const std::string path = attempt->folder() + "/metrics.jsonl";
  Append(path, "one\n");
  EXPECT_EQ(Read(Request(7)), "one\n");
  Append(path, "two\n");
  EXPECT_EQ(Read(Request(7, 4)), "two\n");
  EXPECT_EQ(Read(Request(7, 8)), "");
  EXPECT_EQ(Read(Request(7, 1000)), "") << "beyond its end";
  ASSERT_EQ(attempt->Publish({"metrics.jsonl"}, Soon()), absl::OkStatus());
  EXPECT_EQ(Read(Request(7, 4)), "two\n");
}

TEST_F(ArtifactReaderTest, TakesNoOtherAttemptsFileForIt) {
  const auto first = Begin(7);
  Append(first->folder() + "/metrics.jsonl", "one\n");
  const auto second = Begin(8);
  EXPECT_THAT(Read(Request(7)), HasSubstr("its folder was removed"));
  Append(second->folder() + "/metrics.jsonl", "two\n");
  ASSERT_EQ(second->Publish({"metrics.jsonl"}, Soon()), absl::OkStatus());
  EXPECT_THAT(Read(Request(7)), HasSubstr("attempt 7 of job-3 has written no metrics.jsonl"));
  EXPECT_EQ(Read(Request(8)), "two\n");
  SendArtifact other = Request(8);
  other.set_job_id("job-4");
  EXPECT_THAT(Read(other), HasSubstr("attempt 8 of job-4 has written no metrics.jsonl"));
}

TEST_F(ArtifactReaderTest, ReadsPublishedFilesOnlyBelowTheRoot) {
  SendArtifact request = Request(7);
  request.set_unfinished(false);
  fs::create_directories(root_ + "/out");
  Append(root_ + "/out/metrics.jsonl", "one\n");
  EXPECT_EQ(Read(request), "one\n");
  fs::remove(root_ + "/out/metrics.jsonl");
  fs::create_symlink("/etc/passwd", root_ + "/out/metrics.jsonl");
  EXPECT_THAT(Read(request), HasSubstr("symbolic link"));
  for (const char* name : {"", ".", "..", "../out/metrics.jsonl"}) {
    request.set_name(name);
    EXPECT_THAT(Read(request), HasSubstr("is not the name of a file"));
  }
}

}  // namespace
}  // namespace adjoin
