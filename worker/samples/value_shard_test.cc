#include "worker/samples/value_shard.h"

#include <hdf5/serial/hdf5.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "worker/data/counted_reads.h"
#include "worker/data/hdf5_library.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/field_source.h"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

constexpr int64_t kMostAtOnce = int64_t{1} << 20;

int64_t ValueOf(int64_t cell) { return cell * 7 % 251; }

// What is read of a source at once.
class Watched : public FieldSource {
 public:
  explicit Watched(std::unique_ptr<FieldSource> source) : source_(std::move(source)) {}
  int64_t samples() const override { return source_->samples(); }
  const Shape& ShapeOf(int64_t sample) const override { return source_->ShapeOf(sample); }
  std::string NameOf(int64_t sample) const override { return source_->NameOf(sample); }
  absl::Status Read(int64_t sample, int64_t count, const Box& box, double* out) override {
    most_ = std::max(most_, count * box.Volume());
    ++reads_;
    return source_->Read(sample, count, box, out);
  }
  int64_t bytes_read() const override { return source_->bytes_read(); }
  std::optional<BoxCut> CutOf(int64_t sample, const Box& box) const override { return source_->CutOf(sample, box); }
  int64_t most() const { return most_; }
  int64_t reads() const { return reads_; }

 private:
  const std::unique_ptr<FieldSource> source_;
  int64_t most_ = 0;
  int64_t reads_ = 0;
};

struct Slab {
  at::Tensor cells;  // as they should be, without the batch
  int64_t most = 0;
  int64_t bytes = 0;
  int64_t reads_of_system = 0;
};

// Reads a whole sample of `shape`, at `position` in the file.
Slab ReadSlab(const std::string& format, const std::string& name, const Shape& shape, const SamplePosition& position) {
  Dataset dataset;
  Field& field = *dataset.add_field();
  field.set_name("volume");
  for (int64_t extent : shape) field.add_shape(extent);
  SetFile(field, format, name);
  ValuePlan value;
  Shape batch = shape;
  batch.insert(batch.begin(), 1);
  *value.mutable_layout() = ToProto(*Layout::Partition(batch, DType::kFloat32, Shape(batch.size(), 1), {0}));
  auto shard = ValueShard::Create(dataset, field, value, 0);
  auto source = OpenFieldSource(dataset, field, shape, 0, testing::TempDir());
  EXPECT_TRUE(shard.ok() && source.ok()) << shard.status() << source.status();
  Watched watched(*std::move(source));
  SampleScaling scaling(dataset, field, &watched);
  shard->SetSource(&watched, &scaling);
  const std::atomic<bool> stop{false};
  const int64_t before = ReadsSoFar();
  auto read = shard->Read({position}, stop, nullptr);
  EXPECT_TRUE(read.ok()) << read.status();
  return {.cells = (*read)[0],
          .most = watched.most(),
          .bytes = watched.bytes_read(),
          .reads_of_system = ReadsSoFar() - before};
}

at::Tensor Expected(const Shape& shape) {
  return (at::arange(VolumeOf(shape), at::kLong) * 7).remainder(251).to(at::kFloat).reshape(shape);
}

// An empty `chunk`: contiguous.
void WriteHdf5(const std::string& name, const Shape& shape, const Shape& chunk) {
  const Hdf5Lock lock;
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const std::vector<hsize_t> chunks(chunk.begin(), chunk.end());
  const Hdf5Id file(H5Fcreate((testing::TempDir() + "/" + name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                    H5Fclose);
  const Hdf5Id space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose);
  const Hdf5Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (!chunk.empty()) H5Pset_chunk(how.get(), static_cast<int>(chunks.size()), chunks.data());
  const Hdf5Id data(H5Dcreate2(file.get(), "data", H5T_NATIVE_UINT8, space.get(), H5P_DEFAULT, how.get(), H5P_DEFAULT),
                    H5Dclose);
  std::vector<unsigned char> cells(VolumeOf(shape));
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<unsigned char>(ValueOf(static_cast<int64_t>(i)));
  ASSERT_GE(H5Dwrite(data.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()), 0);
}

// A slab of any size is not held a second time as doubles.
TEST(ValueShardTest, SlabsOfHdf5AreReadInPieces) {
  const Shape shape = {1, 128, 160, 128};
  const int64_t cells = VolumeOf(shape);
  const SamplePosition as_it_is;
  const SamplePosition mirrored{0, {{0, true}, {0, false}, {0, true}}};
  for (const Shape& chunk : {Shape{}, {1, 64, 64, 64}, {1, 1, 160, 128}, {1, 128, 10, 128}, {1, 128, 160, 1}}) {
    SCOPED_TRACE(testing::PrintToString(chunk));
    WriteHdf5("slab.h5", shape, chunk);
    for (const bool mirror : {false, true}) {
      const Slab slab = ReadSlab("hdf5", "slab.h5", shape, mirror ? mirrored : as_it_is);
      EXPECT_LE(slab.most, kMostAtOnce);
      // Each chunk once; those of 64 reach beyond the 160 cells.
      const bool beyond = !chunk.empty() && chunk[2] == 64;
      EXPECT_EQ(slab.bytes, beyond ? cells / 160 * 192 : cells);
      const at::Tensor expected = Expected(shape);
      EXPECT_TRUE(at::equal(slab.cells, mirror ? expected.flip({1, 3}) : expected));
    }
  }
  // A chunk is inflated as a whole, so it is read as a whole.
  WriteHdf5("slab.h5", shape, shape);
  const Slab slab = ReadSlab("hdf5", "slab.h5", shape, as_it_is);
  EXPECT_EQ(slab.bytes, cells);
  EXPECT_TRUE(at::equal(slab.cells, Expected(shape)));
}

TEST(ValueShardTest, SlabsInFortranOrderAreReadByTheFilesOwnRuns) {
  const Shape shape = {128, 160, 128};
  WriteFortranNpy(testing::TempDir() + "/fortran.npy", shape, ValueOf);
  const Slab slab = ReadSlab("npy", "fortran.npy", shape, SamplePosition());
  EXPECT_LE(slab.most, kMostAtOnce);
  EXPECT_LE(slab.reads_of_system, 8);
  EXPECT_TRUE(at::equal(slab.cells, Expected(shape)));
  const Slab moved = ReadSlab("npy", "fortran.npy", shape, SamplePosition{0, {{0, false}, {0, true}}});
  EXPECT_LE(moved.reads_of_system, 8);
}

}  // namespace
}  // namespace adjoin
