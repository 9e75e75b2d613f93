// Training on random blocks of volumes, mirrored and shifted, on one rank and on several: one curve.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/testing/rank_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/data/idx_test_files.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/sample_extents.h"
#include "worker/session/session.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

constexpr int64_t kVolumes = 3;
constexpr int64_t kCells = 8 * 6 * 10;

constexpr char kJob[] = R"job(
kind: TRAIN seed: 5 precision { compute: "float64" }
layer { name: "conv1" input: "image" x: "blocks" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "conv2" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "conv2" target: "label" ignore_index: -100 }
dataset { name: "set" shuffle: true blocks { size: [4, 5, 6] per_epoch: 5 } augment: ["flip(0)", "flip(2)", "shift(1)"]
  field { name: "image" nifti { path: "v0.nii.gz" path: "v1.nii.gz" path: "v2.nii.gz" } shape: [1, 8, 6, 10] mean: 0.25 std: 2 }
  field { name: "label" hdf5 { path: "labels.h5" object: "data" } shape: [8, 6, 10] dtype: "int64" remap: [0, 1, 2, 1, -100] } }
train { dataset: "set" batch: 2 epochs: 3 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }
output_dir: "out"
)job";

class SessionDataTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::create_directories(root_);
    std::mt19937 random(1);
    for (int64_t i = 0; i < kVolumes * kCells; ++i) {
      image_.push_back(static_cast<double>(random() % 1000) / 250 - 2);
      label_.push_back(static_cast<double>(random() % 5));
    }
    WriteFiles();
  }

  void WriteFiles() {
    for (int64_t i = 0; i < kVolumes; ++i) {
      const std::string path = absl::StrCat(root_, "v", i, ".nii");
      WriteArray(path, "nifti", CellType::kFloat64, {8, 6, 10},
                 {image_.begin() + i * kCells, image_.begin() + (i + 1) * kCells});
      WriteFile(path + ".gz", Gzip(ReadFile(path)));
    }
    WriteArray(root_ + "labels.h5", "hdf5", CellType::kUInt8, {kVolumes, 8, 6, 10}, label_);
  }

  // The losses of all steps.
  absl::StatusOr<std::vector<double>> Train(const std::string& layout, uint32_t ranks, bool halos_from_files = false) {
    ADJOIN_ASSIGN_OR_RETURN(
        ParsedSpec parsed,
        ParseSpec(absl::StrCat("layout { name: \"blocks\" ", layout, " } ranks: ", ranks, job_), "job"));
    ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, {{"set", size_}}, BuiltinLayerRules()));
    if (halos_from_files) ReadHalosFromFiles(&plan);
    log_.clear();
    bytes_sent_.assign(ranks, 0);
    const std::string out = absl::StrCat(root_, "on", ranks);
    std::filesystem::create_directories(out);
    constexpr TransportKind kTransport = TransportKind::kInMemoryDelayed;
    ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, kTransport, 4, [&](Transport& t) -> absl::Status {
      ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory, MemoryOfRank(kTransport, t.rank(), 4));
      SessionOptions options;
      options.memory = memory.get();
      options.plan = plan;
      options.data_root = root_;
      options.output_root = out;
      options.cache_dir = root_ + "cache";
      options.transport = &t;
      options.timeout = absl::Seconds(60);
      options.log = [this](const std::string& line) {
        std::lock_guard<std::mutex> lock(mutex_);
        log_.push_back(line);
      };
      ADJOIN_ASSIGN_OR_RETURN(const SessionResult result, RunSession(options));
      bytes_sent_[t.rank()] = result.bytes_sent.at("train");
      return absl::OkStatus();
    }));
    std::vector<double> losses;
    std::ifstream in(out + "/out/metrics.jsonl");
    for (std::string text; std::getline(in, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      if (line["type"] == "step") losses.push_back(line["loss"]);
    }
    return losses;
  }

  std::string root_;
  std::string job_ = kJob;
  SizeInFiles size_ = kVolumes;
  std::vector<double> image_, label_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::vector<int64_t> bytes_sent_;  // each rank's, in training
};

TEST_F(SessionDataTest, AnyNumberOfRanksHasTheSameLosses) {
  const auto serial = Train("partition: [1, 1, 1, 1, 1]", 1);
  ASSERT_TRUE(serial.ok()) << serial.status();
  ASSERT_EQ(serial->size(), 9u);
  const auto compare = [&](const std::string& layout, uint32_t ranks) {
    const auto losses = Train(layout, ranks);
    ASSERT_TRUE(losses.ok()) << losses.status();
    ASSERT_EQ(losses->size(), serial->size());
    for (size_t i = 0; i < serial->size(); ++i)
      EXPECT_NEAR((*losses)[i], (*serial)[i], 1e-11) << ranks << ", step " << i;
  };
  compare("partition: [1, 1, 2, 2, 1]", 4);
  // Read from the files, halos are the same bits, and the first exchange falls away.
  const std::string layout = "partition: [1, 1, 2, 2, 1]";
  const auto exchanged = Train(layout, 4);
  const std::vector<int64_t> sent = bytes_sent_;
  EXPECT_EQ(*exchanged, *Train(layout, 4, /*halos_from_files=*/true));
  for (int rank = 0; rank < 4; ++rank) EXPECT_LT(bytes_sent_[rank], sent[rank]) << rank;
  compare("partition: [2, 1, 1, 1, 3] cut { dim: 4 size: [4, 0, 2] }", 6);
}

// Volumes of three extents, normalised by sample, with blocks around a label that is rare.
constexpr char kVaryingJob[] = R"job(
kind: TRAIN seed: 5 precision { compute: "float64" }
layer { name: "conv1" input: "image" x: "blocks" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "conv2" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "conv2" target: "label" }
dataset { name: "set" augment: ["flip(1)", "shift(1)"]
  blocks { size: [4, 5, 6] per_epoch: 6 by: "cell" foreground { field: "label" share: 0.5 label: 2 } }
  field { name: "image" nifti { path: "w0.nii.gz" path: "w1.nii.gz" path: "w2.nii.gz" } shape: [1, -1, -1, 10]
          normalize: "zscore" clip_percentile: [0.5, 99.5] }
  field { name: "label" npy { path: "w0.npy" path: "w1.npy" path: "w2.npy" } shape: [-1, -1, 10] dtype: "int64" } }
train { dataset: "set" batch: 2 epochs: 3 validate_on: "set" optimizer { sgd { lr: 0.1 momentum: 0.9 } } }
output_dir: "out"
)job";

TEST_F(SessionDataTest, VolumesOfOtherExtentsHaveTheSameLossesOnAnyNumberOfRanks) {
  const std::vector<std::vector<int64_t>> shapes = {{8, 6, 10}, {4, 5, 10}, {7, 12, 10}};
  std::mt19937 random(2);
  SampleExtents extents(
      ParseSpec(absl::StrCat("layout { name: \"blocks\" } ranks: 1 ", kVaryingJob), "job")->spec.dataset(0));
  for (int i = 0; i < 3; ++i) {
    std::vector<double> image, label;
    for (int64_t cell = 0; cell < VolumeOf(shapes[i]); ++cell) {
      image.push_back(static_cast<double>(random() % 4000) - 1000);
      label.push_back(static_cast<double>(random() % 50 == 0 ? 2 : random() % 2));
    }
    const std::string path = absl::StrCat(root_, "w", i, ".nii");
    WriteArray(path, "nifti", CellType::kInt16, shapes[i], image);
    WriteFile(path + ".gz", Gzip(ReadFile(path)));
    WriteArray(absl::StrCat(root_, "w", i, ".npy"), "npy", CellType::kUInt8, shapes[i], label);
    ASSERT_TRUE(extents.Add("image", path, shapes[i]).ok());
  }
  job_ = kVaryingJob;
  size_ = {3, extents.Hash()};
  const auto serial = Train("partition: [1, 1, 1, 1, 1]", 1);
  ASSERT_TRUE(serial.ok()) << serial.status();
  ASSERT_EQ(serial->size(), 9u);
  for (const std::string partition : {"[1, 1, 2, 2, 1]", "[2, 1, 1, 1, 2]"}) {
    const auto losses = Train("partition: " + partition, 4);
    ASSERT_TRUE(losses.ok()) << losses.status();
    ASSERT_EQ(losses->size(), serial->size());
    for (size_t i = 0; i < serial->size(); ++i)
      EXPECT_NEAR((*losses)[i], (*serial)[i], 1e-11) << partition << ", step " << i;
  }
  // A plan for other files is refused before anything is read from them.
  size_.extents ^= 2;
  EXPECT_THAT(std::string(Train("partition: [1, 1, 2, 2, 1]", 4).status().message()), HasSubstr("have other extents"));
}

TEST_F(SessionDataTest, AValueThatIsNotFiniteIsLoggedAndEndsTraining) {
  // Where most blocks are.
  for (int64_t i = 0; i < kVolumes; ++i)
    image_[i * kCells + (4 * 6 + 3) * 10 + 5] = std::numeric_limits<double>::infinity();
  WriteFiles();
  const absl::Status status = Train("partition: [1, 1, 2, 2, 1]", 4, /*halos_from_files=*/true).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the first value that is not finite is in"));
  EXPECT_THAT(log_, testing::Contains(HasSubstr(", position [0, 4, 3, 5]: inf")));
}

TEST_F(SessionDataTest, ALabelThatIsNoClassEndsTheJob) {
  label_.assign(label_.size(), 7);
  WriteFiles();
  EXPECT_THAT(std::string(Train("partition: [1, 1, 1, 1, 1]", 1).status().message()),
              HasSubstr("the label is 7; remap has entries for 0 to 4"));
}

}  // namespace
}  // namespace adjoin
