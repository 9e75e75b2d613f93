#include "worker/checkpoint/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <ATen/ops/full.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/rank_sums_of_threads.h"
#include "worker/checkpoint/recorded_files.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRanks = 3;

// Files whose syncs wait between Block and Release, and which can fail.
class SlowFiles : public RecordedFiles {
 public:
  ~SlowFiles() override {
    if (released_ != nullptr && !released_->HasBeenNotified()) released_->Notify();
  }
  void Block() { released_ = std::make_shared<absl::Notification>(); }
  void Release() { released_->Notify(); }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    if (!full_.empty() && path.find(full_) != std::string::npos) {
      return absl::ResourceExhaustedError(absl::StrCat(path, ": No space left on device"));
    }
    if (!throws_.empty() && path.find(throws_) != std::string::npos) throw std::bad_alloc();
    absl::StatusOr<std::unique_ptr<File>> file = RecordedFiles::Create(path);
    if (!file.ok() || released_ == nullptr || path.find(slow_) == std::string::npos) return file;
    return std::unique_ptr<File>(new SlowFile(*std::move(file), released_));
  }
  void SetFull(const std::string& part) { full_ = part; }  // files with `part` in their path cannot be made; "": none
  void SetSlow(const std::string& part) { slow_ = part; }  // syncs of files with `part` in their path wait; "": all
  void SetThrows(const std::string& part) { throws_ = part; }  // making files with `part` in it throws; "": none

 private:
  class SlowFile : public File {
   public:
    SlowFile(std::unique_ptr<File> file, std::shared_ptr<absl::Notification> released)
        : file_(std::move(file)), released_(std::move(released)) {}
    absl::Status Write(int64_t offset, const void* data, int64_t bytes) override {
      return file_->Write(offset, data, bytes);
    }
    absl::Status Sync() override {
      released_->WaitForNotification();
      return file_->Sync();
    }

   private:
    const std::unique_ptr<File> file_;
    const std::shared_ptr<absl::Notification> released_;
  };

  std::shared_ptr<absl::Notification> released_;
  std::string full_, slow_, throws_;
};

// Three ranks that take steps one after the other in one thread. One vector is cut over them, all have the other.
class CheckpointWriterTest : public testing::Test {
 protected:
  void Start(const Checkpoint& spec, const Retention& retention = {}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      CheckpointWriter::Options options;
      options.files = files_;
      options.spec = spec;
      options.spec.set_dir("ckpt");
      options.retention = retention;
      options.rank = rank;
      options.ranks = kRanks;
      options.job.name = {0, 1, 7};
      options.log = [this, rank](const std::string& line) {
        absl::MutexLock lock(&log_mutex_);
        absl::StrAppend(&log_, "rank ", rank, ": ", line, "\n");
      };
      options.check_latest = check_latest_;
      options.patience = patience_;
      options.now = [this, rank] { return now_ + absl::Hours(rank); };
      writers_.push_back(std::make_unique<CheckpointWriter>(std::move(options)));
    }
  }

  std::vector<CheckpointTensor> TensorsOf(int rank) const {
    const Layout cut = *Layout::Partition({5}, DType::kFloat32, {3}, {0, 1, 2});
    const Layout all = *Layout::Replicated({2}, DType::kFloat64, {0, 1, 2});
    const auto step = static_cast<double>(step_);
    return {{"cut", cut, at::full(cut.LocalShape(rank), 10 * rank + step, at::kFloat)},
            {"all", all, at::full({2}, step, at::kDouble)}};
  }

  CheckpointWriter::Moment Now() const {
    CheckpointWriter::Moment moment;
    moment.step = step_;
    moment.validation = validation_;
    moment.best = best_;
    return moment;
  }

  void Step() {
    ++step_;
    std::array<double, 2> sum = {};
    for (const auto& writer : writers_) {
      const std::array<double, 2> words = writer->Words();
      sum[0] += words[0];
      sum[1] += words[1];
    }
    for (int rank = 0; rank < kRanks; ++rank) writers_[rank]->AfterStep(sum, Now(), [&] { return TensorsOf(rank); });
  }

  // Takes steps until `settled`.
  void Settle(const std::function<bool()>& settled) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (!settled() && absl::Now() < end) Step();
    EXPECT_TRUE(settled()) << log_;
  }
  // Finishes on all ranks at once; returns their statuses.
  std::vector<absl::Status> Finish(bool write) {
    SumsOfThreads all(kRanks);
    return all.Run([&](int rank, const RankSums& sums) {
      return writers_[rank]->Finish(
          write, Now(), [&] { return TensorsOf(rank); }, sums);
    });
  }
  std::optional<int64_t> Durable() const { return writers_[1]->last_durable(); }

  std::vector<int64_t> Finished() {
    std::vector<int64_t> steps;
    const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(*files_, "ckpt");
    if (!names.ok()) return {-1};
    for (const CheckpointName& name : *names) {
      if (ReadManifest(*files_, "ckpt", name).ok()) steps.push_back(name.step);
    }
    return steps;
  }

  std::shared_ptr<SlowFiles> files_ = std::make_shared<SlowFiles>();
  absl::Duration now_;
  int64_t step_ = 0;
  std::map<std::string, double> validation_;
  bool best_ = false;
  std::function<absl::Status()> check_latest_;
  absl::Duration patience_ = absl::Seconds(30);
  absl::Mutex log_mutex_;
  std::string log_;
  std::vector<std::unique_ptr<CheckpointWriter>> writers_;
};

TEST_F(CheckpointWriterTest, ASlowDiskDelaysNoStepAndTheNextCheckpointWaits) {
  Checkpoint spec;
  spec.set_every_steps(2);
  files_->Block();
  Start(spec);
  while (step_ < 9) Step();  // the disk does not answer
  EXPECT_THAT(Finished(), IsEmpty());
  EXPECT_LE(ListCheckpoints(*files_, "ckpt")->size(), 1u) << "one in flight";
  files_->Release();
  Settle([&] { return Durable().value_or(0) == 2; });
  // The checkpoint has the values of the step at which it was begun.
  const absl::StatusOr<Manifest> manifest = ReadManifest(*files_, "ckpt", {2, 1, 7});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  std::vector<float> cells(5);
  ASSERT_TRUE(ReadBox(*files_, "ckpt", *manifest, "cut", Box::Whole({5}), cells.data(), nullptr).ok());
  EXPECT_THAT(cells, ElementsAre(2, 2, 12, 12, 22));
  const int64_t at = step_;
  Settle([&] { return Durable().value_or(0) > 2; });
  EXPECT_GE(*Durable(), at) << "the one that waited was taken at once, with what was there then";
  EXPECT_LE(*Durable(), at + 1);
}

TEST_F(CheckpointWriterTest, MinutesAreCountedByRankZerosClock) {
  Checkpoint spec;
  spec.set_every_minutes(10);
  Start(spec);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_TRUE(ListCheckpoints(*files_, "ckpt")->empty());
  now_ += absl::Minutes(11);
  const int64_t due = step_ + 1;
  Settle([&] { return Durable().has_value(); });
  EXPECT_EQ(Durable(), due);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(ListCheckpoints(*files_, "ckpt")->size(), 1u);
}

TEST_F(CheckpointWriterTest, AFullDiskOfOneRankIsAWarningAndTheNextCheckpointIsWritten) {
  Checkpoint spec;
  spec.set_keep_best("loss");  // so that the test decides when a checkpoint is due
  Start(spec, {1});
  const auto begin = [&] {
    best_ = true;
    Step();
    best_ = false;
    return step_;
  };
  const int64_t first = begin();
  Settle([&] { return Durable() == first; });
  files_->SetFull("rank-0002");
  const int64_t second = begin();
  const std::string warning = absl::StrCat("rank 2: WARNING: the checkpoint of step ", second,
                                           " could not be written: ckpt/", CheckpointName{second, 1, 7}.ToString());
  Settle([&] { return log_.find(warning) != std::string::npos && ListCheckpoints(*files_, "ckpt")->size() == 1; });
  EXPECT_THAT(Finished(), ElementsAre(first)) << "the older one stays, and of the newer one nothing";
  EXPECT_EQ(log_.find("WARNING"), log_.rfind("WARNING"));
  files_->SetFull("");
  const int64_t third = begin();
  Settle([&] { return Durable().value_or(0) >= third; });
  EXPECT_THAT(Finished(), ElementsAre(*Durable()));
}

TEST_F(CheckpointWriterTest, TheBestCheckpointIsKept) {
  Checkpoint spec;
  spec.set_keep_best("loss");
  Start(spec, {1, "loss", false});
  for (const double loss : {3.0, 1.0, 2.0, 1.5}) {
    validation_ = {{"loss", loss}};
    best_ = loss == 3.0 || loss == 1.0;
    Step();
    validation_.clear();
    best_ = false;
    const int64_t step = step_;
    if (loss == 3.0 || loss == 1.0) Settle([&] { return Durable() == step; });
  }
  const int64_t best = *Durable();
  writers_.clear();
  spec.set_every_steps(1);
  Start(spec, {1, "loss", false});
  Step();
  const int64_t next = step_;
  Settle([&] { return Durable().value_or(0) >= next; });
  EXPECT_THAT(Finished(), testing::Contains(best));
  EXPECT_LE(Finished().size(), 3u);
}

TEST_F(CheckpointWriterTest, ABestCheckpointWaitsWithTheValuesOfItsStep) {
  Checkpoint spec;
  spec.set_keep_best("loss");
  files_->Block();
  Start(spec, {1, "loss", false});
  for (const double loss : {3.0, 2.0, 1.0, 1.5}) {
    validation_ = {{"loss", loss}};
    best_ = loss != 1.5;
    Step();
  }
  best_ = false;
  validation_.clear();
  files_->Release();
  Settle([&] { return Durable().value_or(0) == 3; });
  EXPECT_THAT(Finished(), ElementsAre(3));
  const absl::StatusOr<Manifest> manifest = ReadManifest(*files_, "ckpt", {3, 1, 7});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->validation.at("loss"), 1.0);
  std::vector<float> cells(5);
  ASSERT_TRUE(ReadBox(*files_, "ckpt", *manifest, "cut", Box::Whole({5}), cells.data(), nullptr).ok());
  EXPECT_THAT(cells, ElementsAre(3, 3, 13, 13, 23));
}

TEST_F(CheckpointWriterTest, ExceptionsAreWarningsAndTheRanksStayInStep) {
  Checkpoint spec;
  spec.set_every_steps(1);
  Start(spec);
  for (const std::string& part : std::vector<std::string>{"rank-0001", kManifestFile}) {
    files_->SetThrows(part);
    log_.clear();
    const int64_t first = step_ + 1;
    Settle([&] { return log_.find("WARNING") != std::string::npos; });
    EXPECT_THAT(log_, HasSubstr("could not be written: out of memory")) << part;
    files_->SetThrows("");
    Settle([&] { return Durable().value_or(0) >= first; });
  }
  EXPECT_THAT(Finish(/*write=*/true), testing::Each(absl::OkStatus()));
  EXPECT_EQ(Durable(), step_);
}

TEST_F(CheckpointWriterTest, FinishWaitsUntilTheCheckpointIsDurable) {
  Start({});
  Step();
  EXPECT_THAT(Finish(/*write=*/true), testing::Each(absl::OkStatus()));
  for (const auto& writer : writers_) EXPECT_EQ(writer->last_durable(), 1);
  EXPECT_THAT(Finished(), ElementsAre(1));
}

// A dead file server, for rank 1 or for rank 0, which writes the manifest.
TEST_F(CheckpointWriterTest, ADiskThatNeverAnswersIsGivenUpByAllRanks) {
  for (const std::string& part : std::vector<std::string>{"rank-0001", kManifestFile}) {
    const auto files = files_ = std::make_shared<SlowFiles>();
    files_->SetSlow(part);
    files_->Block();
    patience_ = absl::Seconds(1);
    const auto asked = std::make_shared<std::atomic<int>>(0);
    check_latest_ = [asked] { return ++*asked, absl::OkStatus(); };
    log_.clear();
    Start({});
    Step();
    EXPECT_THAT(Finish(/*write=*/true), testing::Each(absl::OkStatus()));
    const std::string rank = part == kManifestFile ? "rank 0" : "rank 1";
    EXPECT_THAT(log_, HasSubstr(absl::StrCat(rank, ": WARNING: the checkpoint of step ", step_,
                                             " is given up: the disk does not answer for 1s")));
    for (const auto& writer : writers_) EXPECT_FALSE(writer->last_durable().has_value());
    EXPECT_THAT(Finished(), IsEmpty());
    const absl::Time begin = absl::Now();
    writers_.clear();
    EXPECT_LT(absl::Now() - begin, absl::Seconds(2)) << "the writer does not wait for the disk";
    files->Release();
    // The work that was left alone comes to its end and frees the files.
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (files.use_count() > 2 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(files.use_count(), 2);
  }
}

}  // namespace
}  // namespace adjoin
