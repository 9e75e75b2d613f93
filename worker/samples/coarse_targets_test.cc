// Blocks of fields with different grids: each cell's value is its position in its volume, so that what was read tells
// where it comes from. Compared with cells picked one by one from whole arrays.
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "layers/rules/layout_proto.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/sample_extents.h"
#include "worker/samples/shard_reader.h"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

constexpr int64_t kBlocks = 12, kPerVolume = 1000000;

// "image", and "target", which is coarser by a power of 2 in each dim.
class Case {
 public:
  explicit Case(unsigned seed) : random_(seed), root_(testing::TempDir() + "/") {
    const int64_t spatial = 2 + Below(2);
    varies_ = Below(2) == 0;
    for (int64_t dim = 0; dim < spatial; ++dim) {
      stride_.push_back(int64_t{1} << Below(3));
      block_.push_back(stride_[dim] * (1 + Below(3)));
    }
    Shape extents = RandomExtents();
    for (int64_t volume = 0; volume < 3; ++volume) {
      extents_.push_back(extents);
      if (varies_) extents = RandomExtents();
    }
    set_.set_name("set");
    AddField("image", Shape(spatial, 1));
    AddField("target", stride_);
    set_.mutable_blocks()->mutable_size()->Assign(block_.begin(), block_.end());
    set_.mutable_blocks()->set_per_epoch(kBlocks);
    for (int64_t dim = 0; dim < spatial; ++dim) {
      if (Below(2) == 0) set_.add_augment(absl::StrCat("flip(", dim, ")"));
    }
    seed_ = random_();
  }

  Plan PlanOf(const Shape& partition) const {
    Plan plan;
    plan.mutable_spec()->set_seed(seed_);
    *plan.mutable_spec()->add_dataset() = set_;
    DatasetSize& size = *plan.add_dataset();
    size.set_name("set");
    size.set_samples(kBlocks);
    size.set_in_files(3);
    SampleExtents extents(set_);
    for (const Shape& shape : extents_) EXPECT_TRUE(extents.Add("image", "file", shape).ok());
    if (varies_) size.set_extents(extents.Hash());
    std::vector<int> ranks(VolumeOf(partition));
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
    ProgramPlan& program = *plan.add_program();
    program.set_name("train");
    program.set_training(true);
    program.set_dataset("set");
    program.set_batch(kBlocks);
    for (const Field& field : set_.field()) {
      ValuePlan& value = *program.add_value();
      value.set_name(field.name());
      value.set_field(field.name());
      Shape shape = SampleShape(set_, field);
      shape.insert(shape.begin(), kBlocks);
      *value.mutable_layout() = ToProto(*Layout::Partition(shape, DType::kFloat64, partition, ranks));
    }
    return plan;
  }

  Shape RandomPartition() {
    Shape partition(1 + block_.size(), 1);
    for (int tries = 0; tries < 2; ++tries) partition[Below(static_cast<int64_t>(partition.size()))] = 2;
    return partition;
  }
  Shape WholePartition() const { return Shape(1 + block_.size(), 1); }

  absl::StatusOr<std::map<std::string, at::Tensor>> Read(const Plan& plan, int rank, int64_t epoch) const {
    auto reader = ShardReader::Create(plan, "set", root_, rank);
    if (!reader.ok()) return reader.status();
    return (*reader)->Read(plan.program(0), epoch, 0);
  }

  // Finds the block's start and what is mirrored from the image's values, and compares every cell of both.
  void Check(const at::Tensor& image, const at::Tensor& target, std::set<Shape>* starts) const {
    const at::Tensor first = image.flatten();
    const auto volume = static_cast<int64_t>(first.min().item<double>()) / kPerVolume;
    const Box whole = Box::Whole(extents_[volume]);
    const Shape start = whole.CellAt(static_cast<int64_t>(first.min().item<double>()) % kPerVolume);
    const Shape corner = whole.CellAt(static_cast<int64_t>(first[0].item<double>()) % kPerVolume);
    starts->insert(start);
    Shape coarse;
    for (size_t dim = 0; dim < stride_.size(); ++dim) {
      ASSERT_EQ(start[dim] % stride_[dim], 0) << "dim " << dim;
      coarse.push_back(extents_[volume][dim] / stride_[dim] + (extents_[volume][dim] % stride_[dim] == 0 ? 0 : 1));
    }
    const auto compare = [&](const at::Tensor& read, const Shape& extents, const Shape& stride) {
      const Box block = Box::Whole(read.sizes().vec());
      const at::Tensor values = read.contiguous();
      for (int64_t cell = 0; cell < values.numel(); ++cell) {
        const Shape in_block = block.CellAt(cell);
        int64_t position = 0;
        for (size_t dim = 0; dim < stride.size(); ++dim) {
          const bool mirrored = corner[dim] != start[dim];
          const int64_t at = mirrored ? read.size(static_cast<int64_t>(dim)) - 1 - in_block[dim] : in_block[dim];
          position = position * extents[dim] + start[dim] / stride[dim] + at;
        }
        ASSERT_EQ(values.data_ptr<double>()[cell], static_cast<double>(volume * kPerVolume + position)) << cell;
      }
    };
    compare(image, extents_[volume], Shape(stride_.size(), 1));
    compare(target, coarse, stride_);
  }

  // How many starts there are, over all volumes.
  std::set<Shape> PossibleStarts() const {
    std::set<Shape> all;
    for (const Shape& extents : extents_) {
      std::vector<Interval> dims;
      for (size_t dim = 0; dim < extents.size(); ++dim)
        dims.push_back({0, (extents[dim] - block_[dim]) / stride_[dim] + 1});
      const Box box(dims);
      for (int64_t i = 0; i < box.Volume(); ++i) {
        Shape start = box.CellAt(i);
        for (size_t dim = 0; dim < start.size(); ++dim) start[dim] *= stride_[dim];
        all.insert(start);
      }
    }
    return all;
  }
  const Dataset& set() const { return set_; }
  bool varies() const { return varies_; }  // the extents, from volume to volume

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Shape RandomExtents() {
    Shape extents;
    for (int64_t block : block_) extents.push_back(block + Below(6));
    return extents;
  }
  void AddField(const std::string& name, const Shape& stride) {
    Field& field = *set_.add_field();
    field.set_name(name);
    for (int64_t volume = 0; volume < 3; ++volume) {
      Shape shape;
      for (size_t dim = 0; dim < stride.size(); ++dim) {
        shape.push_back((extents_[volume][dim] + stride[dim] - 1) / stride[dim]);
      }
      std::vector<double> cells(VolumeOf(shape));
      for (size_t i = 0; i < cells.size(); ++i)
        cells[i] = static_cast<double>(volume * kPerVolume) + static_cast<double>(i);
      const std::string path = absl::StrCat("coarse_", name, volume, ".npy");
      WriteArray(root_ + path, "npy", CellType::kFloat64, shape, cells);
      SetFile(field, "npy", path);
      if (volume > 0) continue;
      for (size_t dim = 0; dim < shape.size(); ++dim) field.add_shape(varies_ ? -stride[dim] : shape[dim]);
    }
  }

  std::mt19937_64 random_;
  const std::string root_;
  Dataset set_;
  uint64_t seed_ = 0;
  bool varies_ = false;
  Shape stride_, block_;
  std::vector<Shape> extents_;
};

TEST(CoarseTargetsTest, BlocksOfAllFieldsAreTheSamePlace) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed + i);
    Case all(static_cast<unsigned>(seed + i));
    SCOPED_TRACE(all.set().DebugString());
    const Plan serial = all.PlanOf(all.WholePartition());
    const Plan cut = all.PlanOf(all.RandomPartition());
    std::set<Shape> starts;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      const auto whole = all.Read(serial, 0, epoch);
      ASSERT_TRUE(whole.ok()) << whole.status();
      for (int64_t n = 0; n < kBlocks; ++n) {
        all.Check(whole->at("image")[n], whole->at("target")[n], &starts);
        if (HasFailure()) return;
      }
      for (const ValuePlan& value : cut.program(0).value()) {
        const Layout layout = *LayoutFromProto(value.layout());
        for (int rank = 0; rank < layout.mesh().size(); ++rank) {
          const auto part = all.Read(cut, rank, epoch);
          ASSERT_TRUE(part.ok()) << part.status();
          at::Tensor expected = whole->at(value.name());
          const Box box = layout.BoxOf(rank);
          for (int dim = 0; dim < box.dims(); ++dim) expected = expected.narrow(dim, box[dim].lo, box[dim].size());
          ASSERT_TRUE(at::equal(part->at(value.name()), expected)) << value.name() << " of rank " << rank;
        }
      }
    }
    const std::set<Shape> possible = all.PossibleStarts();
    for (const Shape& start : starts) EXPECT_EQ(possible.count(start), 1u);
    if (possible.size() <= 2 && !all.varies()) {
      EXPECT_EQ(starts, possible) << "36 draws reach both";
    }
  }
}

// A field of targets whose extents do not follow from the image's.
TEST(CoarseTargetsTest, OtherExtentsThanTheImagesAreRefused) {
  Dataset set;
  for (const int64_t stride : {1, 2}) {
    Field& field = *set.add_field();
    field.set_name(stride == 1 ? "image" : "target");
    for (int dim = 0; dim < 2; ++dim) field.add_shape(-stride);
    set.mutable_blocks()->add_size(2);
  }
  SampleExtents extents(set);
  ASSERT_TRUE(extents.Add("image", "a", {7, 8}).ok());
  ASSERT_TRUE(extents.Add("image", "b", {6, 4}).ok());
  EXPECT_TRUE(extents.Add("target", "c", {4, 4}).ok());
  EXPECT_EQ(std::string(extents.Add("target", "d", {2, 2}).message()),
            "d: its extents are 2x2, those of b of field \"image\", the same sample, 6x4; they have to be 3x2 on a grid"
            " that is coarser by 2x2");
}

}  // namespace
}  // namespace adjoin
