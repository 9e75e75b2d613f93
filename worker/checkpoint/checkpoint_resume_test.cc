// Tests which checkpoints are skipped, which fail the attempt, and which are removed afterwards.
#include "worker/checkpoint/checkpoint_resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/zeros.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "base/content_hash.h"
#include "base/status_macros.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/rank_file.h"
#include "worker/checkpoint/rank_sums_of_threads.h"
#include "worker/checkpoint/recorded_files.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDir[] = "ckpt";
constexpr int kRanks = 3;
const std::atomic<bool> kNeverStop{false};
const JobIdentity kJob{"job-1", 9};

thread_local int this_rank = -1;

// Files that one rank cannot read, although they exist.
class FailingFiles : public RecordedFiles {
 public:
  // `part`: of the path; "": all ranks can read all files. `rank` -1: a thread that is no rank.
  void FailOn(int rank, const std::string& part) { rank_ = rank, part_ = part; }

  absl::StatusOr<std::unique_ptr<Source>> Open(const std::string& path) override {
    if (!part_.empty() && this_rank == rank_ && absl::StrContains(path, part_)) {
      return absl::UnavailableError(absl::StrCat(path, ": Input/output error"));
    }
    return RecordedFiles::Open(path);
  }

 private:
  int rank_ = 0;
  std::string part_;
};

class CheckpointResumeTest : public testing::Test {
 protected:
  static Layout Home() { return *Layout::Partition({6}, DType::kFloat32, {3}, {0, 1, 2}); }
  static CheckpointName NameOf(int64_t step, uint64_t epoch = 1) { return {step, epoch, TagOf(kJob)}; }
  static std::string FolderOf(int64_t step) { return PathOf(kDir, NameOf(step).ToString()); }

  // A vector over three ranks with the step in all its elements.
  void Write(int64_t step, const std::map<std::string, double>& validation = {}) {
    const std::string folder = FolderOf(step);
    ASSERT_TRUE(files_.MakeFolder(folder).ok());
    Manifest manifest;
    manifest.job = kJob;
    manifest.name = NameOf(step);
    manifest.validation = validation;
    manifest.tensors["fc.weight"] = {DType::kFloat32, {6}, {}};
    const std::vector<float> cells(2, static_cast<float>(step));
    for (int rank = 0; rank < kRanks; ++rank) {
      const HeldBox held{
          .tensor = "fc.weight", .dtype = DType::kFloat32, .box = Home().BoxOf(rank), .data = cells.data()};
      ASSERT_TRUE(WriteRankFile(files_, folder, manifest.name, rank, {held}, kNeverStop).ok());
    }
    const absl::Status status = FinishCheckpoint(files_, kDir, {0, 1, 2}, manifest);
    ASSERT_TRUE(status.ok()) << status;
  }

  void Change(const std::string& path, const std::function<void(std::string&)>& change) {
    std::string content = files_.Contents().at(path);
    change(content);
    files_.SetContent(path, content);
  }
  void Damage(const std::string& path) {
    Change(path, [](std::string& content) { content.back() ^= 4; });
  }
  void MakeNewer(int64_t step) {
    Change(PathOf(FolderOf(step), kManifestFile), [](std::string& text) {
      const std::string opening = "{\"checkpoint\": ", middle = ",\n\"xxh3_128\": \"";
      const std::string body = absl::StrReplaceAll(text.substr(opening.size(), text.find(middle) - opening.size()),
                                                   {{"\"version\": 1", "\"version\": 2"}});
      text = opening + body + middle + ContentHash::Of(body) + "\"}\n";
    });
  }

  struct Ended {
    std::vector<absl::Status> statuses;
    std::vector<std::optional<int64_t>> steps = std::vector<std::optional<int64_t>>(kRanks);
    std::vector<CheckpointName> damaged;
    std::string log;
  };
  Ended Resume() {
    Ended ended;
    absl::Mutex mutex;
    SumsOfThreads all(kRanks);
    ended.statuses = all.Run([&](int rank, const RankSums& sums) -> absl::Status {
      this_rank = rank;
      ResumeOptions options;
      options.files = &files_;
      options.dir = kDir;
      options.job = kJob;
      options.rank = rank;
      options.ranks = kRanks;
      options.log = [&](const std::string& line) {
        absl::MutexLock lock(&mutex);
        absl::StrAppend(&ended.log, line, "\n");
      };
      if (rank == 0) options.damaged = &ended.damaged;
      const at::Tensor mine = at::zeros({2}, at::kFloat);
      ADJOIN_ASSIGN_OR_RETURN(const std::optional<Resumed> resumed,
                              ResumeFromCheckpoint(options, {{"fc.weight", Home(), mine}}, sums));
      if (!resumed.has_value()) return absl::OkStatus();
      ended.steps[rank] = resumed->manifest.name.step;
      EXPECT_EQ(mine.sum().item<float>(), 2 * resumed->manifest.name.step);
      return absl::OkStatus();
    });
    return ended;
  }

  // Removes what the second attempt does not need after a step.
  std::vector<std::string> RemoveAfter(int64_t step, const Ended& ended, const Retention& retention) {
    return RemoveOld(files_, kDir, NameOf(step, 2), ended.damaged, retention);
  }

  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files_, kDir);
    if (!names.ok()) return {-1};
    for (const CheckpointName& name : *names) steps.push_back(name.step);
    return steps;
  }

  FailingFiles files_;
};

TEST_F(CheckpointResumeTest, ACheckpointThatCannotBeReadNowFailsTheAttemptOnAllRanks) {
  Write(7);
  Write(14);
  struct Case {
    int rank;
    std::string part;
  };
  const std::vector<Case> cases = {{0, PathOf(NameOf(14).ToString(), kManifestFile)},  // before rank 0 offers it
                                   {2, PathOf(NameOf(14).ToString(), kManifestFile)},  // when rank 2 takes the offer
                                   {1, PathOf(NameOf(14).ToString(), RankFile(1))},    // when rank 1 verifies its file
                                   {0, PathOf(NameOf(14).ToString(), RankFile(0))}};
  for (const Case& c : cases) {
    files_.FailOn(c.rank, c.part);
    const Ended ended = Resume();
    for (const absl::Status& status : ended.statuses) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status << "\n" << ended.log;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(FolderOf(14)), HasSubstr("cannot be read just now")));
    }
    EXPECT_THAT(std::string(ended.statuses[c.rank].message()), HasSubstr("Input/output error")) << c.part;
    EXPECT_THAT(ended.damaged, IsEmpty());
    EXPECT_EQ(ended.log, "");
  }
  files_.FailOn(0, "");
  EXPECT_THAT(Resume().steps, Each(14)) << "when it can be read again";
}

TEST_F(CheckpointResumeTest, DamagedCheckpointsAreSkippedAndThenRemoved) {
  for (const int64_t step : {7, 14, 21, 28, 35}) Write(step);
  Damage(PathOf(FolderOf(35), kManifestFile));
  ASSERT_TRUE(files_.Remove(PathOf(FolderOf(28), kManifestFile)).ok());
  ASSERT_TRUE(files_.Remove(PathOf(FolderOf(21), RankFile(2))).ok());
  Damage(PathOf(FolderOf(14), RankFile(1)));
  const Ended ended = Resume();
  EXPECT_THAT(ended.statuses, Each(absl::OkStatus()));
  EXPECT_THAT(ended.steps, Each(7));
  EXPECT_THAT(ended.damaged, ElementsAre(NameOf(35), NameOf(28), NameOf(21), NameOf(14)));
  EXPECT_THAT(RemoveAfter(12, ended, {}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(7));
}

TEST_F(CheckpointResumeTest, AJobWithOnlyDamagedCheckpointsBeginsAnewAndReportsThem) {
  Write(7);
  Damage(PathOf(FolderOf(7), RankFile(0)));
  const Ended ended = Resume();
  EXPECT_THAT(ended.statuses, Each(absl::OkStatus()));
  EXPECT_THAT(ended.steps, Each(std::nullopt));
  EXPECT_THAT(ended.damaged, ElementsAre(NameOf(7)));
}

TEST_F(CheckpointResumeTest, ACheckpointOfANewerFormatIsSkippedAndNeverRemoved) {
  for (const int64_t step : {7, 14, 21}) Write(step);
  MakeNewer(14);
  MakeNewer(21);
  const Ended ended = Resume();
  EXPECT_THAT(ended.steps, Each(7));
  EXPECT_THAT(ended.log, HasSubstr("it has format 2, of a newer release"));
  EXPECT_THAT(ended.damaged, IsEmpty());
  Write(8);
  EXPECT_THAT(RemoveAfter(8, ended, {1}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(21, 14, 8)) << "and it does not count";
}

// An attempt may finish a checkpoint after the next attempt has begun.
TEST_F(CheckpointResumeTest, AValidLaterStepOfAnEarlierAttemptStays) {
  Write(7);
  const Ended ended = Resume();
  EXPECT_THAT(ended.steps, Each(7));
  Write(14);
  EXPECT_THAT(RemoveAfter(12, ended, {}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(14, 7));
  EXPECT_THAT(RemoveAfter(12, ended, {1}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(14));
  EXPECT_THAT(Resume().steps, Each(14)) << "as good as any other";
}

TEST_F(CheckpointResumeTest, ACheckpointThatCannotBeReadIsNotRemoved) {
  for (const int64_t step : {7, 14, 21, 28}) Write(step);
  files_.FailOn(-1, PathOf(NameOf(14).ToString(), kManifestFile));
  EXPECT_THAT(RemoveAfter(28, {}, {0}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(28, 21, 14, 7));
  EXPECT_THAT(RemoveAfter(28, {}, {1}), ElementsAre(HasSubstr("Input/output error")));
  EXPECT_THAT(Steps(), ElementsAre(28, 14));
  files_.FailOn(0, "");
  EXPECT_THAT(RemoveAfter(28, {}, {1}), IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(28));
}

// Another store gives the same number again, and so does the same store where an older copy of it was put back: only
// the tag tells these jobs apart.
TEST(TagOfTest, IsTheJobsOwnOrThatOfItsStoreAndNumber) {
  EXPECT_EQ(TagOf({"job-7", 77, 12345}), 12345);
  // As the store tags jobs of releases that gave none (coordinator/store/store_test.cc).
  EXPECT_EQ(TagOf({"job-7", 77}), 5088426236128474512u);
  EXPECT_NE(TagOf({"job-7", 78}), TagOf({"job-7", 77}));
  EXPECT_EQ(TagOf({"", 77}), 0);
}

}  // namespace
}  // namespace adjoin
