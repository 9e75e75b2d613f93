// Blocks of volumes with extents of their own, normalised by sample and drawn around labels: one rank against whole
// arrays that are cropped and normalised step by step, and several ranks against that one, bit by bit.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/random/philox.h"
#include "worker/data/idx_test_files.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/sample_extents.h"
#include "worker/samples/shard_reader.h"

namespace adjoin {
namespace {

using testing::HasSubstr;
using Shape = std::vector<int64_t>;

Shape Join(const Shape& a, const Shape& b) {
  Shape joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

class Case {
 public:
  explicit Case(unsigned seed) : random_(seed), root_(testing::TempDir() + "/") {
    MakeVolumes();
    MakeDataset();
  }

  // A plan that cuts the batch and the block's dims. A further rank has the ages, and nothing else.
  Plan PlanOf(const Shape& partition) const {
    Plan plan;
    plan.mutable_spec()->set_seed(seed_);
    *plan.mutable_spec()->add_dataset() = set_;
    DatasetSize& size = *plan.add_dataset();
    size.set_name("set");
    size.set_samples(kBlocks);
    size.set_in_files(volumes());
    SampleExtents extents(set_);
    for (const Shape& shape : extents_) EXPECT_TRUE(extents.Add("image", "file", shape).ok());
    size.set_extents(extents.Hash());
    const auto ranks = static_cast<int>(VolumeOf(partition));
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    for (const bool training : {true, false}) {
      ProgramPlan& program = *plan.add_program();
      program.set_name(training ? "train" : "validate");
      program.set_training(training);
      program.set_dataset("set");
      program.set_batch(kBatch);
      const auto add = [&](const std::string& name, const Layout& layout) {
        ValuePlan& value = *program.add_value();
        value.set_name(name);
        value.set_field(name);
        *value.mutable_layout() = ToProto(layout);
      };
      Shape with_channels = partition;
      with_channels.insert(with_channels.begin() + 1, 1);
      add("image", *Layout::Partition(Join({kBatch, channels_}, block_), DType::kFloat64, with_channels, all));
      add("label", *Layout::Partition(Join({kBatch}, block_), DType::kInt64, partition, all));
      add("age", *Layout::Partition({kBatch}, DType::kFloat64, {1}, {ranks}));
    }
    return plan;
  }

  Shape RandomPartition() {
    Shape partition(1 + block_.size(), 1);
    for (int tries = 0; tries < 3; ++tries) {
      const int64_t dim = Below(static_cast<int64_t>(partition.size()));
      if (partition[dim] == 1 && VolumeOf(partition) <= 3) partition[dim] = 2;
    }
    return partition;
  }
  Shape WholePartition() const { return Shape(1 + block_.size(), 1); }

  absl::StatusOr<std::map<std::string, at::Tensor>> Read(const Plan& plan, int rank, int program, int64_t epoch) const {
    auto reader = ShardReader::Create(plan, "set", root_, rank);
    if (!reader.ok()) return reader.status();
    return (*reader)->Read(plan.program(program), epoch, kBatch);
  }

  // The sample at `position` of the epoch, step by step: image, label, age.
  std::vector<at::Tensor> Expected(bool training, int64_t epoch, int64_t position) const {
    const int spatial = static_cast<int>(block_.size());
    const RandomStream stream(seed_, kPurposeBlocks, training ? epoch : 0);
    const uint64_t at = position * 64;
    int64_t sample = static_cast<int64_t>(stream.BelowAt(at, used_));
    if (set_.blocks().by() == "cell") {
      int64_t cells = 0;
      for (int64_t i = 0; i < used_; ++i) cells += VolumeOf(extents_[i]);
      cells = static_cast<int64_t>(stream.BelowAt(at, cells));
      for (sample = 0; cells >= VolumeOf(extents_[sample]); ++sample) cells -= VolumeOf(extents_[sample]);
    }
    const Shape& whole = extents_[sample];
    Shape first;
    for (int dim = 0; dim < spatial; ++dim) {
      first.push_back(static_cast<int64_t>(stream.BelowAt(at + 1 + dim, whole[dim] - block_[dim] + 1)));
    }
    if (set_.blocks().has_foreground() && stream.UniformAt(at + 32) < set_.blocks().foreground().share()) {
      Centre(sample, stream.BitsAt(at + 33), stream.BitsAt(at + 34), first);
    }
    const RandomStream moves(seed_, kPurposeAugment, epoch);
    std::vector<at::Tensor> cells = {images_[sample].clone(), labels_[sample].clone()};
    for (int dim = 0; training && shift_ > 0 && dim < spatial; ++dim) {
      first[dim] += static_cast<int64_t>(moves.BelowAt(at + 32 + dim, 2 * shift_ + 1)) - shift_;
    }
    const bool flip = training && set_.augment_size() > 0 && set_.augment(0) == "flip(0)" && moves.UniformAt(at) < 0.5;
    for (size_t field = 0; field < 2; ++field) {
      at::Tensor& tensor = cells[field];
      const int before = static_cast<int>(tensor.dim()) - spatial;
      for (int dim = 0; dim < spatial; ++dim) {
        Shape shape = tensor.sizes().vec();
        shape[before + dim] = block_[dim];
        at::Tensor part = at::zeros(shape, at::kDouble);
        for (int64_t i = 0; i < block_[dim]; ++i) {
          const int64_t from = first[dim] + i;
          if (from >= 0 && from < whole[dim]) part.select(before + dim, i).copy_(tensor.select(before + dim, from));
        }
        tensor = part;
      }
      if (flip) tensor = tensor.flip({tensor.dim() - 1});
    }
    Normalise(sample, cells[0]);
    return {cells[0], cells[1].to(at::kLong), at::full({}, 10.0 * static_cast<double>(sample), at::kDouble)};
  }

  const Dataset& set() const { return set_; }
  Dataset& set() { return set_; }
  const std::string& root() const { return root_; }
  int64_t volumes() const { return static_cast<int64_t>(extents_.size()); }

  static constexpr int64_t kBlocks = 9;
  static constexpr int64_t kBatch = 4;

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Toss() { return Below(2) == 0; }

  void MakeVolumes() {
    const int64_t spatial = 2 + Below(2);
    for (int64_t dim = 0; dim < spatial; ++dim) block_.push_back(1 + Below(5));
    channels_ = 1 + Below(2);
    const int64_t same = Below(spatial + 1);  // the extent of this dim does not differ; or there is none
    const int64_t extent = block_[same % spatial] + Below(6);
    const int64_t count = 1 + Below(4);
    for (int64_t i = 0; i < count; ++i) {
      Shape shape;
      for (int64_t dim = 0; dim < spatial; ++dim) shape.push_back(dim == same ? extent : block_[dim] + Below(7));
      extents_.push_back(shape);
      images_.push_back(at::empty(Join({channels_}, shape), at::kDouble));
      labels_.push_back(at::empty(shape, at::kDouble));
      double* image = images_.back().data_ptr<double>();
      for (int64_t cell = 0; cell < images_.back().numel(); ++cell)
        image[cell] = static_cast<double>(Below(2000)) - 700;
      double* label = labels_.back().data_ptr<double>();
      const bool none = Below(4) == 0;
      for (int64_t cell = 0; cell < labels_.back().numel(); ++cell) {
        label[cell] = none ? 0.0 : static_cast<double>(std::max<int64_t>(0, Below(12) - 8));
      }
    }
    varies_ = Shape(spatial, -1);
    if (same < spatial) varies_[same] = extent;
  }

  void MakeDataset() {
    seed_ = random_();
    set_.set_name("set");
    Field& image = AddField("image", Join({channels_}, varies_));
    Field& label = AddField("label", varies_);
    label.set_dtype("int64");
    Field& age = AddField("age", {});
    std::vector<double> ages;
    const bool nifti = channels_ == 1 && Toss();
    for (int64_t i = 0; i < volumes(); ++i) {
      const std::string name = absl::StrCat("varying", i, nifti ? ".nii.gz" : ".npy");
      const double* const cells = images_[i].data_ptr<double>();
      const Shape shape = channels_ == 1 && Toss() ? extents_[i] : Join({channels_}, extents_[i]);
      WriteArray(root_ + name, nifti ? "nifti" : "npy", CellType::kInt16, shape, {cells, cells + images_[i].numel()});
      if (nifti) WriteFile(root_ + name, Gzip(ReadFile(root_ + name)));
      SetFile(image, nifti ? "nifti" : "npy", name);
      const std::string labels = absl::StrCat("varying_labels", i, ".npy");
      const double* const of = labels_[i].data_ptr<double>();
      WriteArray(root_ + labels, "npy", CellType::kUInt8, extents_[i], {of, of + labels_[i].numel()});
      SetFile(label, "npy", labels);
      ages.push_back(10.0 * static_cast<double>(i));
    }
    WriteArray(root_ + "varying_ages.npy", "npy", CellType::kFloat64, {volumes()}, ages);
    SetFile(age, "npy", "varying_ages.npy");
    if (Below(3) > 0) image.set_normalize("zscore");
    if (Toss()) image.mutable_clip_percentile()->Add(static_cast<double>(Below(20)));
    if (image.clip_percentile_size() > 0) image.mutable_clip_percentile()->Add(80 + static_cast<double>(Below(21)));
    Blocks& blocks = *set_.mutable_blocks();
    blocks.mutable_size()->Assign(block_.begin(), block_.end());
    blocks.set_per_epoch(kBlocks);
    if (Toss()) blocks.set_by("cell");
    if (Below(3) > 0) {
      blocks.mutable_foreground()->set_field("label");
      blocks.mutable_foreground()->set_share(Toss() ? 1 : 0.5);
      if (Toss()) blocks.mutable_foreground()->add_label(1 + Below(4));
    }
    used_ = volumes();
    if (Below(3) == 0) {
      used_ = 1 + Below(volumes());
      set_.set_limit(used_);
    }
    if (Toss()) set_.add_augment("flip(0)");
    shift_ = Below(3);
    if (shift_ > 0) set_.add_augment(absl::StrCat("shift(", shift_, ")"));
  }

  Field& AddField(const std::string& name, const Shape& shape) {
    Field& field = *set_.add_field();
    field.set_name(name);
    field.mutable_shape()->Assign(shape.begin(), shape.end());
    return field;
  }

  // Moves the block so that a cell of a label is in its middle; `a` and `b` are the random bits of label and cell.
  void Centre(int64_t sample, uint64_t a, uint64_t b, Shape& first) const {
    const auto below = [](uint64_t bits, uint64_t n) {
      return static_cast<size_t>(static_cast<unsigned __int128>(bits) * n >> 64);
    };
    const double* const label = labels_[sample].data_ptr<double>();
    std::vector<std::vector<int64_t>> of_label;
    for (int64_t wanted = 1; wanted < 5; ++wanted) {
      const auto& named = set_.blocks().foreground().label();
      if (!named.empty() && named[0] != wanted) continue;
      std::vector<int64_t> cells;
      for (int64_t cell = 0; cell < labels_[sample].numel(); ++cell) {
        if (label[cell] == static_cast<double>(wanted)) cells.push_back(cell);
      }
      if (!cells.empty()) of_label.push_back(cells);
    }
    if (of_label.empty()) return;
    const std::vector<int64_t>& cells = of_label[below(a, of_label.size())];
    const Box whole = Box::Whole(extents_[sample]);
    const std::vector<int64_t> index = whole.CellAt(cells[below(b, cells.size())]);
    for (size_t dim = 0; dim < first.size(); ++dim) {
      first[dim] = std::clamp<int64_t>(index[dim] - block_[dim] / 2, 0, extents_[sample][dim] - block_[dim]);
    }
  }

  // With the numbers of the whole sample's channels.
  void Normalise(int64_t sample, at::Tensor& block) const {
    const Field& field = set_.field(0);
    for (int64_t channel = 0; channel < channels_; ++channel) {
      const at::Tensor whole = images_[sample][channel].contiguous();
      std::vector<double> values(whole.data_ptr<double>(), whole.data_ptr<double>() + whole.numel());
      double low = -1e300, high = 1e300, mean = 0, std = 1;
      if (field.clip_percentile_size() > 0) {
        std::vector<double> sorted = values;
        std::sort(sorted.begin(), sorted.end());
        const auto percentile = [&](double p) {
          const double at = static_cast<double>(sorted.size() - 1) * (p / 100);
          const auto below = static_cast<size_t>(at);
          const double next = sorted[std::min(below + 1, sorted.size() - 1)];
          return sorted[below] + (next - sorted[below]) * (at - static_cast<double>(below));
        };
        low = percentile(field.clip_percentile(0));
        high = percentile(field.clip_percentile(1));
        for (double& value : values) value = std::clamp(value, low, high);
      }
      if (field.normalize() == "zscore") {
        double sum = 0, squares = 0;
        for (double value : values) sum += value;
        mean = sum / static_cast<double>(values.size());
        for (double value : values) squares += (value - mean) * (value - mean);
        std = std::sqrt(squares / static_cast<double>(values.size()));
        if (*std::max_element(values.begin(), values.end()) == *std::min_element(values.begin(), values.end())) std = 1;
      }
      block[channel].copy_((block[channel].clamp(low, high) - mean) / std);
    }
  }

  std::mt19937_64 random_;
  const std::string root_;
  uint64_t seed_ = 0;
  Dataset set_;
  Shape block_;
  Shape varies_;  // Field.shape in the block's dims
  int64_t channels_ = 1;
  std::vector<Shape> extents_;  // by volume
  std::vector<at::Tensor> images_, labels_;
  int64_t used_ = 0;
  int64_t shift_ = 0;
};

TEST(VaryingVolumesTest, AnyRanksGetWhatWholeArraysGive) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed + i);
    Case all(static_cast<unsigned>(seed + i));
    SCOPED_TRACE(all.set().DebugString());
    const Plan serial = all.PlanOf(all.WholePartition());
    for (const auto& [program, epoch] : {std::pair<int, int64_t>{0, 0}, {0, 2}, {1, 0}}) {
      const auto whole = all.Read(serial, 0, program, epoch);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const auto ages = all.Read(serial, 1, program, epoch);
      ASSERT_TRUE(ages.ok()) << ages.status();
      for (int64_t n = 0; n < Case::kBatch; ++n) {
        const std::vector<at::Tensor> expected = all.Expected(program == 0, epoch, Case::kBatch + n);
        ASSERT_TRUE(at::allclose(whole->at("image")[n], expected[0], 1e-11, 1e-11));
        ASSERT_TRUE(at::equal(whole->at("label")[n], expected[1]));
        ASSERT_TRUE(at::equal(ages->at("age")[n], expected[2])) << "of a rank that reads no volume";
      }
      const Plan cut = all.PlanOf(all.RandomPartition());
      for (int value : {0, 1}) {
        const ValuePlan& of = cut.program(program).value(value);
        const Layout layout = *LayoutFromProto(of.layout());
        for (int rank = 0; rank < layout.mesh().size(); ++rank) {
          const auto part = all.Read(cut, rank, program, epoch);
          ASSERT_TRUE(part.ok()) << part.status();
          at::Tensor expected = whole->at(of.name());
          const Box box = layout.BoxOf(rank);
          for (int dim = 0; dim < box.dims(); ++dim) expected = expected.narrow(dim, box[dim].lo, box[dim].size());
          ASSERT_TRUE(at::equal(part->at(of.name()), expected)) << of.name() << " of rank " << rank;
        }
      }
    }
    if (HasFailure()) return;
  }
}

TEST(VaryingVolumesTest, OtherExtentsThanPlannedAreRefusedByEveryRankThatReads) {
  Case all(7);
  Plan plan = all.PlanOf(all.WholePartition());
  const auto error = [&](int rank) { return std::string(all.Read(plan, rank, 0, 0).status().message()); };
  EXPECT_EQ(error(0), "");
  EXPECT_EQ(error(1), "");
  EXPECT_EQ(error(2), "") << "reads nothing";
  plan.mutable_dataset(0)->set_extents(plan.dataset(0).extents() + 1);
  for (int rank : {0, 1}) EXPECT_THAT(error(rank), HasSubstr("data set \"set\": its files have other extents")) << rank;
  EXPECT_EQ(error(2), "");
  plan.mutable_dataset(0)->clear_extents();
  EXPECT_THAT(error(0), HasSubstr("the plan does not know the extents"));
}

// A rank that reads two fields compares their extents.
TEST(VaryingVolumesTest, NamesTheFileThatHasOtherExtentsThanItsImage) {
  Case all(8);
  const Plan plan = all.PlanOf(all.WholePartition());
  ASSERT_EQ(all.Read(plan, 0, 0, 0).status(), absl::OkStatus());
  const std::string label = all.set().field(1).npy().path(0);
  const Shape large(all.set().blocks().size_size(), 50);
  WriteArray(all.root() + label, "npy", CellType::kUInt8, large, std::vector<double>(VolumeOf(large)));
  const std::string error(all.Read(plan, 0, 0, 0).status().message());
  EXPECT_THAT(error, HasSubstr("field \"label\": " + label));
  EXPECT_THAT(error, HasSubstr("50"));
}

}  // namespace
}  // namespace adjoin
