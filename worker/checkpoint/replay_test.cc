// Tests what is left of checkpoints where the machine dies while they are written, or a bit changes in them afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "primitives/geometry/layout.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/rank_file.h"
#include "worker/checkpoint/recorded_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

constexpr char kDir[] = "lenet5/ckpt";
constexpr char kMetricsSource[] = "metrics.jsonl";
constexpr uint64_t kTag = 0xadd;
const std::atomic<bool> kNeverStop{false};

// Three ranks: a matrix in four blocks of which one rank has none, a vector on all of them, a scalar.
constexpr int kRanks = 3;
struct NamedLayout {
  std::string name;
  Layout home;
};
std::vector<NamedLayout> Tensors() {
  return {
      {"fc.weight", *Layout::Partition({5, 4}, DType::kFloat64, {3, 1}, {0, 1, 2}, {{0, {3, 0, 2}}})},
      {"fc.bias", *Layout::Replicated({5}, DType::kFloat32, {0, 1, 2})},
      {"exp_avg/fc.weight", *Layout::Partition({5, 4}, DType::kFloat64, {1, 3}, {2, 1, 0})},
      {"norm.num_batches_tracked", *Layout::Replicated({}, DType::kInt64, {1, 2})},
  };
}

// Returns a tensor's bytes after a step; no other step has the same.
std::string Value(const NamedLayout& tensor, int index, int64_t step) {
  std::mt19937_64 random(static_cast<uint64_t>(step) * 100 + static_cast<uint64_t>(index));
  std::string bytes(static_cast<size_t>(VolumeOf(tensor.home.shape()) * SizeOf(tensor.home.dtype())), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string CellsOf(const std::string& whole, const std::vector<int64_t>& shape, const Box& box, int64_t element) {
  std::string cells;
  std::vector<int64_t> at = box.Origin();
  for (int64_t i = 0; i < box.Volume(); ++i) {
    int64_t flat = 0;
    for (int d = 0; d < box.dims(); ++d) flat = flat * shape[d] + at[d];
    cells += whole.substr(static_cast<size_t>(flat * element), static_cast<size_t>(element));
    for (int d = box.dims() - 1; d >= 0 && ++at[d] == box[d].hi; --d) at[d] = box[d].lo;
  }
  return cells;
}

CheckpointName NameOf(int64_t step) { return {step, /*epoch=*/5, kTag}; }

std::string Metrics(int64_t step) {
  std::string text;
  for (int64_t i = 1; i <= step; ++i) absl::StrAppend(&text, "{\"step\": ", i, "}\n");
  return text;
}

// Writes a checkpoint as the CheckpointWriters of all ranks do, the ranks in `order`.
void WriteCheckpoint(FileSystem& files, int64_t step, std::vector<int> order) {
  const std::string folder = PathOf(kDir, NameOf(step).ToString());
  const std::vector<NamedLayout> tensors = Tensors();
  Manifest manifest;
  manifest.job = {"job-3", 9};
  manifest.name = NameOf(step);
  manifest.ranks = kRanks;
  manifest.numbers = {{"best", 0.1 * static_cast<double>(step)}};
  for (const NamedLayout& tensor : tensors)
    manifest.tensors[tensor.name] = {tensor.home.dtype(), tensor.home.shape(), {}};
  for (int rank : order) {
    ASSERT_TRUE(files.MakeFolder(folder).ok());
    std::vector<HeldBox> held;
    std::vector<std::string> cells(tensors.size());
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      const Layout& home = tensors[i].home;
      if (!WritesBox(home, rank, i)) continue;
      cells[i] = CellsOf(Value(tensors[i], i, step), home.shape(), home.BoxOf(rank), SizeOf(home.dtype()));
      held.push_back(
          {.tensor = tensors[i].name, .dtype = home.dtype(), .box = home.BoxOf(rank), .data = cells[i].data()});
    }
    const absl::Status status = WriteRankFile(files, folder, manifest.name, rank, held, kNeverStop);
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto metrics =
      CopyFile(files, kMetricsSource, static_cast<int64_t>(Metrics(step).size()), folder, kMetricsCopy, kNeverStop);
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  manifest.files.push_back(*metrics);
  const absl::Status status = FinishCheckpoint(files, kDir, {0, 1, 2}, manifest);
  ASSERT_TRUE(status.ok()) << status;
}

void WriteMetrics(FileSystem& files) {
  const std::string text = Metrics(100);
  auto file = files.Create(kMetricsSource);
  ASSERT_TRUE(file.ok() && (*file)->Write(0, text.data(), static_cast<int64_t>(text.size())).ok());
}

absl::Status Valid(FileSystem& files, const Manifest& manifest) {
  for (int file = 0; file < static_cast<int>(manifest.files.size()); ++file) {
    const absl::Status status = VerifyFile(files, kDir, manifest, file);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns the step that a job would resume from; -1: none. Checks that all that it would read is of that step.
int64_t ResumedStep(FileSystem& files, const std::string& context) {
  const auto names = ListCheckpoints(files, kDir);
  if (!names.ok()) return -1;
  for (const CheckpointName& name : *names) {
    const auto manifest = ReadManifest(files, kDir, name);
    if (!manifest.ok() || !Valid(files, *manifest).ok()) continue;
    const std::vector<NamedLayout> tensors = Tensors();
    EXPECT_EQ(manifest->tensors.size(), tensors.size()) << context;
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      const Layout& home = tensors[i].home;
      std::string whole(static_cast<size_t>(VolumeOf(home.shape()) * SizeOf(home.dtype())), '\0');
      const absl::Status status =
          ReadBox(files, kDir, *manifest, tensors[i].name, Box::Whole(home.shape()), whole.data(), nullptr);
      EXPECT_TRUE(status.ok()) << status << context;
      EXPECT_EQ(whole, Value(tensors[i], i, name.step)) << tensors[i].name << context;
    }
    EXPECT_EQ(*ReadWhole(files, PathOf(PathOf(kDir, name.ToString()), kMetricsCopy), 1 << 20), Metrics(name.step));
    EXPECT_EQ(manifest->numbers.at("best"), 0.1 * static_cast<double>(name.step));
    return name.step;
  }
  return -1;
}

TEST(Replay, ACrashAtAnyMomentLeavesAValidCheckpoint) {
  const uint64_t first_seed = TestSeed(1);
  for (uint64_t seed = first_seed; seed < first_seed + 6; ++seed) {
    std::mt19937_64 random(seed);
    RecordedFiles files;
    WriteMetrics(files);
    std::vector<int> order = {0, 1, 2};
    WriteCheckpoint(files, 7, order);
    const size_t first = files.operations();
    std::shuffle(order.begin(), order.end(), random);
    WriteCheckpoint(files, 14, order);
    const size_t second = files.operations();
    EXPECT_TRUE(RemoveOld(files, kDir, NameOf(14), {}, {.keep_last = 1}).empty());
    const size_t removed = files.operations();
    WriteCheckpoint(files, 21, order);
    const size_t third = files.operations();
    EXPECT_TRUE(RemoveOld(files, kDir, NameOf(21), {}, {.keep_last = 2}).empty());
    int64_t found = 0;
    // The last operations remove the ranks' notes, when the checkpoint is durable already.
    const size_t notes = kRanks;
    for (size_t n = 0; n <= files.operations(); ++n) {
      for (int crash = 0; crash < 25; ++crash) {
        const auto left = files.AfterCrash(n, random);
        const std::string context =
            absl::StrCat(" after ", n, " operations, ADJOIN_TEST_SEED=", seed, ", crash ", crash);
        const int64_t step = ResumedStep(*left, context);
        const int64_t durable = n >= third - notes ? 21 : n >= second - notes ? 14 : n >= first - notes ? 7 : -1;
        EXPECT_GE(step, durable) << context;
        if (step == 14 && n < second - notes) ++found;
        if (HasFailure()) return;
      }
    }
    EXPECT_LT(first, second);
    EXPECT_LT(second, removed);
    EXPECT_GT(found, 0) << "some crashes leave what was not synced yet";
  }
}

// A killed process leaves a prefix of its operations.
TEST(Replay, ALaterAttemptRemovesUnfinishedCheckpoints) {
  RecordedFiles files;
  WriteMetrics(files);
  WriteCheckpoint(files, 7, {0, 1, 2});
  const size_t before = files.operations();
  WriteCheckpoint(files, 14, {2, 0, 1});
  std::mt19937_64 random(1);
  for (size_t n = before; n < files.operations(); ++n) {
    const auto left = files.AfterCrash(n, random);
    const int64_t begun_at = ResumedStep(*left, "");
    const CheckpointName next{begun_at + 7, 6, kTag};
    EXPECT_TRUE(RemoveOld(*left, kDir, next, {}, {.keep_last = 1}).empty());
    const auto names = ListCheckpoints(*left, kDir);
    ASSERT_TRUE(names.ok());
    for (const CheckpointName& name : *names) EXPECT_TRUE(ReadManifest(*left, kDir, name).ok()) << name.ToString();
    EXPECT_EQ(ResumedStep(*left, ""), begun_at);
  }
}

TEST(Replay, AFlippedBitIsFoundAndNamed) {
  RecordedFiles files;
  WriteMetrics(files);
  WriteCheckpoint(files, 7, {0, 1, 2});
  WriteCheckpoint(files, 14, {0, 1, 2});
  std::mt19937_64 random(1);
  const auto manifest = ReadManifest(files, kDir, NameOf(14));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const std::string folder = PathOf(kDir, NameOf(14).ToString());
  int tensors_named = 0;
  for (const auto& [path, content] : files.Contents()) {
    if (path.rfind(folder, 0) != 0) continue;
    for (size_t at = 0; at < content.size(); ++at) {
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
      files.SetContent(path, flipped);
      EXPECT_EQ(ResumedStep(files, ""), 7) << path << " byte " << at;
      const auto seen = ReadManifest(files, kDir, NameOf(14));
      const absl::Status status = seen.ok() ? Valid(files, *seen) : seen.status();
      EXPECT_THAT(std::string(status.message()), HasSubstr(path)) << "byte " << at;
      for (const auto& [name, tensor] : manifest->tensors) {
        for (const Manifest::Piece& piece : tensor.pieces) {
          const int64_t end = piece.offset + piece.box.Volume() * SizeOf(tensor.dtype);
          const bool within = static_cast<int64_t>(at) >= piece.offset && static_cast<int64_t>(at) < end;
          if (path != PathOf(folder, manifest->files[piece.file].name) || !within) continue;
          EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("damaged is ", name)));
          ++tensors_named;
        }
      }
      if (HasFailure()) return;
    }
    for (const std::string& other : {content.substr(0, content.size() - 1), content + "x", std::string()}) {
      files.SetContent(path, other);
      EXPECT_EQ(ResumedStep(files, ""), 7) << path << " with " << other.size() << " bytes";
    }
    files.SetContent(path, content);
  }
  EXPECT_EQ(tensors_named, 5 * 4 * 8 * 2 + 5 * 4 + 8);
  EXPECT_EQ(ResumedStep(files, ""), 14);
}

TEST(Replay, AFullDiskLeavesTheOlderCheckpoint) {
  RecordedFiles files;
  WriteMetrics(files);
  WriteCheckpoint(files, 7, {0, 1, 2});
  for (int64_t space : {0, 10, 100, 300, 600}) {
    files.SetSpace(space);
    const std::string folder = PathOf(kDir, NameOf(14).ToString());
    ASSERT_TRUE(files.MakeFolder(folder).ok());
    const std::vector<double> data(20);
    const HeldBox held{.tensor = "fc.weight", .dtype = DType::kFloat64, .box = Box::Whole({5, 4}), .data = data.data()};
    const absl::Status status = WriteRankFile(files, folder, NameOf(14), 0, {held}, kNeverStop);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(ResumedStep(files, ""), 7);
    EXPECT_TRUE(RemoveCheckpoint(files, kDir, NameOf(14)).ok());
    EXPECT_EQ(ListCheckpoints(files, kDir)->size(), 1u);
  }
  files.SetSpace(-1);
  WriteCheckpoint(files, 14, {0, 1, 2});
  EXPECT_EQ(ResumedStep(files, ""), 14);
}

}  // namespace
}  // namespace adjoin
