#include "worker/checkpoint/checkpoint_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "worker/checkpoint/rank_file.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr uint64_t kTag = 7;
const std::atomic<bool> kNeverStop{false};

// Every cell has a value of its own: its position, and its checkpoint's step.
std::vector<float> Cells(const Box& box, const std::vector<int64_t>& shape, int64_t step) {
  std::vector<float> cells;
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  for (int64_t i = 0; i < box.Volume(); ++i) {
    std::vector<int64_t> at = box.CellAt(i);
    int64_t position = 0;
    for (size_t d = 0; d < at.size(); ++d) position += at[d] * strides[d];
    cells.push_back(static_cast<float>(position) + static_cast<float>(step) / 1024);
  }
  return cells;
}

class CheckpointModelTest : public ::testing::Test {
 protected:
  CheckpointModelTest() {
    root_ = absl::StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
    files_ = std::make_unique<DiskFiles>(root_);
  }
  static CheckpointName NameOf(int64_t step, uint64_t tag = kTag) { return {step, 1, tag}; }
  std::string Path(int64_t step, const std::string& name) {
    return absl::StrCat(root_, "/ckpt/", NameOf(step).ToString(), "/", name);
  }

  // `pieces`: one tensor's boxes, a rank each.
  void Write(int64_t step, const std::vector<int64_t>& shape, const std::vector<Box>& pieces,
             const std::map<std::string, double>& validation = {}, uint64_t tag = kTag) {
    const std::string folder = PathOf("ckpt", NameOf(step, tag).ToString());
    ASSERT_EQ(files_->MakeFolder(folder), absl::OkStatus());
    Manifest manifest;
    manifest.name = NameOf(step, tag);
    manifest.validation = validation;
    std::vector<int> ranks;
    for (const char* name : {"w", "exp_avg/w"}) manifest.tensors[name] = {DType::kFloat32, shape, {}};
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      if (pieces[rank].empty()) continue;
      const std::vector<float> cells = Cells(pieces[rank], shape, step);
      std::vector<HeldBox> held;
      for (const char* name : {"exp_avg/w", "w"}) {
        held.push_back({.tensor = name, .dtype = DType::kFloat32, .box = pieces[rank], .data = cells.data()});
      }
      ASSERT_EQ(WriteRankFile(*files_, folder, manifest.name, static_cast<int>(rank), held, kNeverStop),
                absl::OkStatus());
      ranks.push_back(static_cast<int>(rank));
    }
    ASSERT_EQ(FinishCheckpoint(*files_, "ckpt", ranks, manifest), absl::OkStatus());
  }

  absl::StatusOr<std::unique_ptr<CheckpointModel>> Open(const CheckpointModel::Choice& choice,
                                                        const std::vector<int64_t>& shape = {2},
                                                        const std::string& metric = "loss", bool larger = false) {
    CheckpointModel::Source source = {.files = files_.get(), .dir = "ckpt", .tag = kTag};
    source.validation = {.keep_best = metric, .larger_is_better = larger};
    source.model = {{"w", shape}};
    return CheckpointModel::Open(std::move(source), choice);
  }
  std::string WhyNot(const CheckpointModel::Choice& choice) {
    const auto model = Open(choice);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound) << model.status();
    return std::string(model.status().message());
  }
  static absl::StatusOr<std::string> ReadAll(CheckpointModel& model) {
    std::string all;
    while (model.more()) {
      absl::StatusOr<std::string> part = model.Next();
      if (!part.ok()) return part.status();
      EXPECT_LE(part->size(), 1u << 20);
      all += *part;
    }
    EXPECT_EQ(all.size(), static_cast<size_t>(model.bytes()));
    return all;
  }

  std::string root_;
  std::unique_ptr<DiskFiles> files_;
};

TEST_F(CheckpointModelTest, TheNewestIsFoundAlsoWhereAnOlderOneCannotBeRead) {
  for (const int64_t step : {10, 20, 30}) Write(step, {2}, {Box::Whole({2})});
  fs::remove(Path(30, "manifest.json"));
  fs::remove(Path(10, "manifest.json"));
  fs::create_directory(Path(10, "manifest.json"));
  CheckpointModel::Choice choice;
  choice.newest = true;
  const auto model = Open(choice);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->step(), 20) << "that of step 30 was never finished";
}

TEST_F(CheckpointModelTest, IsTheWholeTensorHoweverItWasCut) {
  const uint64_t seed = TestSeed(12);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 12; ++round) {
    // The last rounds have more cells than one slab.
    const int64_t large = round < 9 ? 1 : 40;
    const std::vector<int64_t> shape = {static_cast<int64_t>(1 + random() % 6),
                                        static_cast<int64_t>(2 + random() % 60) * large,
                                        static_cast<int64_t>(1 + random() % 50)};
    const int64_t row = static_cast<int64_t>(random() % (shape[0] + 1)),
                  column = static_cast<int64_t>(random() % (shape[1] + 1));
    std::vector<Box> pieces;
    for (const Interval rows : {Interval{0, row}, Interval{row, shape[0]}}) {
      for (const Interval columns : {Interval{0, column}, Interval{column, shape[1]}}) {
        pieces.push_back(Box({rows, columns, Interval{0, shape[2]}}));
      }
    }
    const int64_t step = round + 1;
    Write(step, shape, pieces);
    // As a state_dict has it.
    const std::vector<int64_t> stored = {shape[0] * shape[1], shape[2]};
    auto model = Open({.step = step}, stored);
    ASSERT_TRUE(model.ok()) << model.status() << " seed " << seed;
    const absl::StatusOr<std::string> bytes = ReadAll(**model);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const std::string path = absl::StrCat(root_, "/model.safetensors");
    std::ofstream(path, std::ios::binary) << *bytes;
    const auto read = SafetensorsReader::Open(path);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ((*read)->entries().size(), 1) << "no states of the optimizer";
    const SafetensorsEntry& entry = (*read)->entries()[0];
    EXPECT_EQ(entry.name, "w");
    EXPECT_EQ(entry.shape, stored);
    std::vector<float> cells(static_cast<size_t>(VolumeOf(shape)));
    ASSERT_EQ((*read)->ReadBox(entry, Box::Whole(stored), cells.data()), absl::OkStatus());
    EXPECT_EQ(cells, Cells(Box::Whole(shape), shape, step)) << "seed " << seed << " round " << round;
  }
}

TEST_F(CheckpointModelTest, StepsAreChosenFromTheJobsOwn) {
  EXPECT_EQ(WhyNot({}), "the job has published no model; there is no finished checkpoint yet");
  const std::vector<Box> whole = {Box::Whole({2})};
  Write(10, {2}, whole, {{"loss", 2.0}});
  Write(20, {2}, whole, {{"loss", 1.0}, {"accuracy", 0.5}});
  Write(30, {2}, whole, {{"loss", 1.5}, {"accuracy", 0.25}});
  Write(40, {2}, whole);
  Write(50, {2}, whole, {{"loss", 0.0}}, /*tag=*/8);
  fs::create_directories(absl::StrCat(root_, "/ckpt/", NameOf(60).ToString()));  // not finished
  EXPECT_EQ(WhyNot({}),
            "the job has published no model; there are checkpoints of the steps 40, 30, 20 (the best by loss), 10:"
            " --step N or --best takes one");
  EXPECT_THAT(WhyNot({.step = 50}), AllOf(HasSubstr("no checkpoint is of step 50"), HasSubstr("the steps 40, 30")));
  EXPECT_THAT(WhyNot({.step = 60}), HasSubstr("no checkpoint is of step 60"));
  for (const int64_t step : {10, 40}) EXPECT_EQ((*Open({.step = step}))->step(), step);
  EXPECT_EQ((*Open({.best = true}))->step(), 20);
  EXPECT_EQ((*Open({.best = true}, {2}, "accuracy", /*larger=*/true))->step(), 20);
  EXPECT_EQ((*Open({.best = true}, {2}, "accuracy", /*larger=*/false))->step(), 30);
  EXPECT_THAT(std::string(Open({.best = true}, {2}, "dice").status().message()),
              AllOf(HasSubstr("no checkpoint was taken at a validation with dice"), HasSubstr("the steps 40, 30")));
}

TEST_F(CheckpointModelTest, AnotherModelIsRefused) {
  Write(10, {2}, {Box::Whole({2})});
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {3}, {}, {4}, {-2}, {-1, -2}, {0}, {1, 3}, {int64_t{1} << 62, int64_t{1} << 62}}) {
    EXPECT_EQ(Open({.step = 10}, shape).status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_TRUE(Open({.step = 10}, {1, 2, 1}).ok());
}

TEST_F(CheckpointModelTest, ACheckpointThatIsRemovedWhileItIsReadIsNoModel) {
  for (bool at_once : {true, false}) {
    Write(10, {2, 400000}, {Box({{0, 1}, {0, 400000}}), Box({{1, 2}, {0, 400000}})});
    auto model = Open({.step = 10}, {800000});
    ASSERT_TRUE(model.ok()) << model.status();
    for (int part = 0; part < (at_once ? 1 : 5); ++part) ASSERT_TRUE((*model)->Next().ok());
    ASSERT_EQ(RemoveCheckpoint(*files_, "ckpt", NameOf(10)), absl::OkStatus());
    const absl::Status gone = ReadAll(**model).status();
    EXPECT_EQ(gone.code(), absl::StatusCode::kAborted) << gone;
    EXPECT_THAT(std::string(gone.message()), HasSubstr("the checkpoint of step 10 was removed while it was read"));
  }
}

TEST_F(CheckpointModelTest, ADamagedTensorIsNotHandedOut) {
  Write(10, {2}, {Box::Whole({2})});
  std::fstream file(Path(10, RankFile(0)), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  auto model = Open({.step = 10});
  ASSERT_TRUE(model.ok()) << model.status();
  const absl::Status damaged = ReadAll(**model).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss) << damaged;
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("the checksum of w does not fit"));
}

TEST(SlabTest, SlabsTileATensorInOrder) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {1}, {7}, {3, 4}, {2, 3, 5}, {4, 1, 3}}) {
    for (int64_t most : {1, 2, 3, 5, 8, 100}) {
      int64_t cell = 0;
      while (cell < VolumeOf(shape)) {
        const Box slab = SlabFrom(shape, cell, most);
        ASSERT_LE(slab.Volume(), most);
        for (int64_t i = 0; i < slab.Volume(); ++i) {
          ASSERT_EQ(slab.CellAt(i), Box::Whole(shape).CellAt(cell + i));
        }
        cell += slab.Volume();
      }
      EXPECT_EQ(cell, VolumeOf(shape));
    }
  }
}

}  // namespace
}  // namespace adjoin
