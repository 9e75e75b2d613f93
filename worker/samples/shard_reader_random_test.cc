// Random data sets, read by 1 to 6 ranks, against arrays in memory that are cropped, mirrored and normalised step by
// step.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "base/testing/test_seed.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"
#include "primitives/random/philox.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/shard_reader.h"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

Shape Join(const Shape& a, const Shape& b) {
  Shape joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}

class Case {
 public:
  explicit Case(unsigned seed) : random_(seed), root_(testing::TempDir() + "/") {}

  void Run() {
    MakeFields();
    MakeDataset();
    MakePlan();
    for (int rank = 0; rank < ranks_ + 1; ++rank) {  // the last one holds nothing
      CheckRank(rank);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Toss() { return Below(2) == 0; }

  void MakeFields() {
    spatial_ = static_cast<int>(1 + Below(3));
    for (int dim = 0; dim < spatial_; ++dim) extents_.push_back(3 + Below(6));
    samples_ = 1 + Below(5);
    set_ = plan_.mutable_spec()->add_dataset();
    set_->set_name("set");
    plan_.mutable_spec()->set_seed(random_());
    AddField("image", Join({1 + Below(3)}, extents_), /*label=*/false);
    Shape label = extents_;
    for (int64_t& extent : label) extent = coarse_ ? (extent + 1) / 2 : extent;
    AddField("label", Toss() ? label : Join({1}, label), /*label=*/true);
    AddField("age", {}, /*label=*/false);
  }

  // Values that every cell type holds exactly.
  void AddField(const std::string& name, const Shape& shape, bool label) {
    Field& field = *set_->add_field();
    field.set_name(name);
    for (int64_t extent : shape) field.add_shape(extent);
    raw_.push_back(at::empty(Join({samples_}, shape), at::kDouble));
    double* cells = raw_.back().data_ptr<double>();
    for (int64_t i = 0; i < raw_.back().numel(); ++i) cells[i] = static_cast<double>(Below(label ? 4 : 200));
    const std::string formats[] = {"idx", "npy", "hdf5", "nifti"};
    std::string format = formats[Below(4)];
    if (format == "nifti" && shape.empty()) format = "npy";  // has at least one dim
    const CellType type = format == "idx" && Toss() ? CellType::kFloat32 : CellType::kUInt8;
    cell_bytes_.push_back(SizeOf(type));
    for (int64_t sample = 0; sample < samples_;) {
      const bool one = format == "nifti" || (!shape.empty() && Toss());
      const int64_t count = one ? 1 : 1 + Below(samples_ - sample);
      Shape in_file = one ? shape : Join({count}, shape);
      if (!one && shape.size() > 1 && Toss()) in_file = {count, VolumeOf(shape)};
      if (one && shape.size() > 1 && shape[0] == 1 && Toss()) in_file.erase(in_file.begin());
      const std::string path = "shard_" + name + "_" + std::to_string(sample);
      const at::Tensor part = raw_.back().narrow(0, sample, count);
      WriteArray(root_ + path, format, type, in_file,
                 std::vector<double>(part.data_ptr<double>(), part.data_ptr<double>() + part.numel()));
      SetFile(field, format, path);
      sample += count;
    }
    if (label) {
      field.set_dtype("int64");
      for (int64_t entry : {2, -100, 0, 1}) {
        if (name == "label" && remaps_) field.add_remap(entry);
      }
      return;
    }
    if (Toss()) field.set_scale(0.5);
    const int64_t channels = shape.empty() ? 1 : Toss() ? shape[0] : 1;
    for (int64_t i = 0; i < channels; ++i) field.add_mean(static_cast<double>(i + 1));
    for (int64_t i = 0; i < channels && Toss(); ++i) {
      while (field.std_size() < channels) field.add_std(field.std_size() == 0 ? 2 : 0.25);
    }
  }

  void MakeDataset() {
    set_->set_shuffle(Toss());
    if (Toss()) set_->set_limit(1 + Below(samples_));
    used_ = set_->has_limit() ? std::min(set_->limit(), samples_) : samples_;
    count_ = used_;
    block_ = extents_;
    if (!coarse_ && Toss()) {
      for (int64_t& extent : block_) {
        extent = 1 + Below(extent);
        set_->mutable_blocks()->add_size(extent);
      }
      count_ = 2 + Below(5);
      set_->mutable_blocks()->set_per_epoch(count_);
    }
    for (int dim = 0; dim < spatial_; ++dim) {
      if (Below(3) == 0) set_->add_augment("flip(" + std::to_string(dim) + ")");
    }
    shift_ = coarse_ ? 0 : Below(3);
    if (shift_ > 0) set_->add_augment("shift(" + std::to_string(shift_) + ")");
    DatasetSize& size = *plan_.add_dataset();
    size.set_name("set");
    size.set_samples(count_);
    size.set_in_files(samples_);
  }

  Layout RandomLayout(const Shape& shape, DType dtype) {
    Shape partition(shape.size(), 1);
    ranks_ = 1;
    for (int tries = 0; tries < 4; ++tries) {
      const int64_t dim = Below(static_cast<int64_t>(shape.size()));
      const int64_t parts = 2 + Below(2);
      if (partition[dim] > 1 || ranks_ * parts > 6) continue;
      partition[dim] = parts;
      ranks_ *= parts;
    }
    Layout::Cuts cuts;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (partition[dim] == 1 || Toss()) continue;
      std::vector<int64_t> bounds = {0, shape[dim]};
      for (int64_t i = 1; i < partition[dim]; ++i) bounds.push_back(Below(shape[dim] + 1));  // parts may be empty
      std::sort(bounds.begin(), bounds.end());
      for (int64_t i = 0; i < partition[dim]; ++i) cuts[static_cast<int>(dim)].push_back(bounds[i + 1] - bounds[i]);
    }
    std::vector<int> ranks;
    for (int rank = 0; rank < ranks_; ++rank) ranks.push_back(rank);
    return *Layout::Partition(shape, dtype, partition, ranks, cuts);
  }

  void MakePlan() {
    batch_ = 1 + Below(count_);
    for (const bool training : {true, false}) {
      ProgramPlan& program = *plan_.add_program();
      program.set_name(training ? "train" : "evaluate");
      program.set_training(training);
      program.set_dataset("set");
      program.set_batch(batch_);
    }
    for (int i = 0; i < set_->field_size(); ++i) {
      const Field& field = set_->field(i);
      Shape sample(field.shape().begin(), field.shape().end());
      const bool cut = set_->has_blocks() && static_cast<int>(sample.size()) >= spatial_;
      if (cut) std::copy(block_.begin(), block_.end(), sample.end() - spatial_);
      const DType dtype = field.dtype() == "int64" ? DType::kInt64 : Toss() ? DType::kFloat32 : DType::kFloat64;
      const Layout layout = RandomLayout(Join({batch_}, sample), dtype);
      for (ProgramPlan& program : *plan_.mutable_program()) {
        ValuePlan& value = *program.add_value();
        value.set_name(field.name());
        value.set_field(field.name());
        *value.mutable_layout() = ToProto(layout);
        if (field.name() == "image") AddRead(layout, value);
      }
    }
  }

  // A convolution's or a pooling's windows over the spatial dims.
  void AddRead(const Layout& layout, ValuePlan& value) {
    if (value.name() == "image" && plan_.program(0).value(0).has_read()) {
      *value.mutable_read() = plan_.program(0).value(0).read();
      return;
    }
    if (Toss() || !windows_.empty()) return;
    Shape outputs = layout.shape();
    windows_.assign(layout.dims(), {});
    OperatorPlan read;
    for (int dim = 2; dim < layout.dims(); ++dim) {
      Window::Options& options = windows_[dim];
      options.kernel = 1 + Below(3);
      options.stride = 1 + Below(2);
      options.dilation = 1 + Below(2);
      options.pad_lo = options.pad_hi = 3;
      const Reading reading(*Window::Create(options));
      outputs[dim] = *reading.OutputSize(layout.shape()[dim]);
      *read.add_reading() = ToProto(dim, reading);
    }
    read_ = *layout.WithShape(outputs);
    *read.mutable_from() = ToProto(layout);
    *read.mutable_to() = ToProto(*read_);
    read.set_fill(-7.5);
    *value.mutable_read() = read;
  }

  // The sample at a position of the epoch, computed step by step with whole arrays.
  at::Tensor Expected(int index, bool training, int64_t epoch, int64_t position) {
    const Field& field = set_->field(index);
    const uint64_t seed = plan_.spec().seed();
    const bool moves = field.shape_size() >= spatial_;
    int64_t sample = position;
    if (training && set_->shuffle() && !set_->has_blocks()) {
      sample = Permutation(seed, kPurposeShuffle, epoch, count_)[position];
    }
    Shape origin(spatial_, 0);
    if (set_->has_blocks()) {
      const RandomStream stream(seed, kPurposeBlocks, training ? epoch : 0);
      const uint64_t at = sample * 64;
      sample = static_cast<int64_t>(stream.BelowAt(at, used_));
      for (int dim = 0; dim < spatial_; ++dim)
        origin[dim] = stream.BelowAt(at + 1 + dim, extents_[dim] - block_[dim] + 1);
    }
    at::Tensor cells = raw_[index][sample].clone();
    const RandomStream stream(seed, kPurposeAugment, epoch);
    for (int dim = 0; moves && dim < spatial_; ++dim) {
      const int at = static_cast<int>(cells.dim()) - spatial_ + dim;
      int64_t moved = origin[dim];
      if (shift_ > 0 && training) {
        Shape edge = cells.sizes().vec();
        edge[at] = shift_;
        cells = at::cat({at::zeros(edge, at::kDouble), cells, at::zeros(edge, at::kDouble)}, at);
        moved += static_cast<int64_t>(stream.BelowAt(position * 64 + 32 + dim, 2 * shift_ + 1));
      }
      if (!coarse_) cells = cells.narrow(at, moved, block_[dim]);
      const std::string flip = "flip(" + std::to_string(spatial_ - 1 - dim) + ")";
      const auto& listed = set_->augment();
      if (training && std::count(listed.begin(), listed.end(), flip) > 0 &&
          stream.UniformAt(position * 64 + spatial_ - 1 - dim) < 0.5) {
        cells = cells.flip({at});
      }
    }
    return Normalised(field, cells.contiguous());
  }

  at::Tensor Normalised(const Field& field, at::Tensor cells) {
    double* at = cells.data_ptr<double>();
    const int64_t channel = field.shape_size() > 0 ? cells.numel() / cells.size(0) : 1;
    for (int64_t i = 0; i < cells.numel(); ++i) {
      const auto of = [&](const google::protobuf::RepeatedField<double>& list, double absent) {
        return list.empty() ? absent : list[static_cast<int>(list.size() == 1 ? 0 : i / channel)];
      };
      if (field.remap_size() > 0) at[i] = static_cast<double>(field.remap(static_cast<int>(at[i])));
      at[i] = (at[i] * (field.scale() == 0 ? 1 : field.scale()) - of(field.mean(), 0)) / of(field.std(), 1);
    }
    return cells;
  }

  // Rows of `global` along `dim` from lo to hi, those outside being `fill`.
  static at::Tensor Cut(const at::Tensor& global, int dim, int64_t lo, int64_t hi, double fill) {
    Shape shape = global.sizes().vec();
    shape[dim] = std::max<int64_t>(0, hi - lo);
    at::Tensor out = at::full(shape, fill, at::kDouble);
    for (int64_t i = std::max<int64_t>(lo, 0); i < std::min(hi, global.size(dim)); ++i) {
      out.select(dim, i - lo).copy_(global.select(dim, i));
    }
    return out;
  }

  at::Tensor PartOf(at::Tensor global, const ValuePlan& value, int rank) {
    const Layout layout = *LayoutFromProto(value.layout());
    if (!layout.mesh().Has(rank)) return at::empty(Shape(layout.dims(), 0), at::kDouble);
    const Box own = layout.BoxOf(rank);
    for (int dim = 0; dim < layout.dims(); ++dim) {
      int64_t lo = own[dim].lo;
      int64_t hi = own[dim].hi;
      if (value.has_read() && dim >= 2) {
        const Window::Options& window = windows_[dim];
        const Interval outputs = read_->BoxOf(rank)[dim];
        lo = outputs.lo * window.stride - window.pad_lo;
        hi = outputs.empty()
                 ? lo
                 : (outputs.hi - 1) * window.stride - window.pad_lo + (window.kernel - 1) * window.dilation + 1;
      }
      global = Cut(global, dim, lo, hi, -7.5);
    }
    return global;
  }

  void CheckRank(int rank) {
    auto reader = ShardReader::Create(plan_, "set", root_, rank);
    ASSERT_TRUE(reader.ok()) << reader.status() << plan_.DebugString();
    ASSERT_EQ((*reader)->samples(), count_);
    int64_t most_bytes = 0;
    // In the order of training, and then in one that cannot be read ahead.
    for (int step = 0; step < 6; ++step) {
      const ProgramPlan& program = plan_.program(step < 4 ? 0 : static_cast<int>(Below(2)));
      const int64_t per_epoch = count_ / batch_;
      const int64_t epoch = step < 4 ? step / per_epoch : Below(3);
      const int64_t first = step < 4 ? step % per_epoch * batch_ : Below(count_ - batch_ + 1);
      auto values = (*reader)->Read(program, epoch, first);
      ASSERT_TRUE(values.ok()) << values.status() << plan_.DebugString();
      for (int i = 0; i < program.value_size(); ++i) {
        std::vector<at::Tensor> batch;
        for (int64_t n = 0; n < batch_; ++n) batch.push_back(Expected(i, program.training(), epoch, first + n));
        const at::Tensor& found = values->at(program.value(i).name());
        const at::Tensor expected = PartOf(at::stack(batch), program.value(i), rank).to(found.scalar_type());
        ASSERT_EQ(found.sizes(), expected.sizes()) << program.value(i).name() << plan_.DebugString();
        ASSERT_TRUE(at::equal(found, expected)) << program.value(i).name() << " rank " << rank << " step " << step
                                                << " epoch " << epoch << " first " << first << "\n"
                                                << found << expected << plan_.DebugString();
        most_bytes += found.numel() * cell_bytes_[i];
      }
    }
    EXPECT_LE((*reader)->bytes_read(), most_bytes);
  }

  std::mt19937 random_;
  const std::string root_;
  Plan plan_;
  Dataset* set_ = nullptr;
  std::vector<at::Tensor> raw_;  // by field: [samples, ...]
  std::vector<int64_t> cell_bytes_;
  int spatial_ = 0;
  Shape extents_;  // the samples', in the spatial dims
  Shape block_;    // the block's, or `extents_`
  int64_t samples_ = 0;
  int64_t used_ = 0;
  int64_t count_ = 0;
  int64_t batch_ = 0;
  int64_t shift_ = 0;
  int ranks_ = 1;
  const bool remaps_ = Toss();
  const bool coarse_ = Below(3) == 0;  // labels of half the extents, which no block or shift allows
  std::vector<Window::Options> windows_;
  std::optional<Layout> read_;
};

TEST(ShardReaderRandomTest, EveryRankGetsWhatArraysInMemoryGive) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed + i);
    Case(seed + i).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace adjoin
