#include "worker/runtime/idx_samples.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = TestPath(name);
  WriteFile(path, bytes);
  return path;
}

// Every box of every type, from plain and gzip files, one or two, against indexing by hand.
TEST(IdxSamplesTest, ReadsTheBoxOfEachSample) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const IdxType types[] = {IdxType::kUInt8,  IdxType::kInt8,    IdxType::kInt16,
                             IdxType::kInt32, IdxType::kFloat32, IdxType::kFloat64};
    const IdxType type = types[random() % 6];
    std::vector<int64_t> shape;
    for (unsigned dims = random() % 4; dims > 0; --dims) shape.push_back(1 + random() % 4);
    std::vector<std::string> paths;
    std::vector<double> cells;
    const int64_t elements = VolumeOf(shape);
    for (int file = 0; file < 2; ++file) {
      std::vector<int64_t> file_shape = {static_cast<int64_t>(random() % 4)};
      file_shape.insert(file_shape.end(), shape.begin(), shape.end());
      std::vector<double> part(file_shape[0] * elements);
      for (double& cell : part) {
        cell = type == IdxType::kUInt8   ? random() % 256
               : type == IdxType::kInt8  ? int(random() % 256) - 128
               : type == IdxType::kInt16 ? int(random() % 65536) - 32768
               : type == IdxType::kInt32 ? static_cast<double>(static_cast<int32_t>(random()))
                                         : static_cast<float>(random()) / 7.0f - 1000;
      }
      const std::string bytes = IdxBytes(type, file_shape, part);
      paths.push_back(Write(std::to_string(file), random() % 2 == 0 ? bytes : Gzip(bytes)));
      cells.insert(cells.end(), part.begin(), part.end());
    }
    Box box = Box::Whole(shape);
    for (int dim = 0; dim < box.dims(); ++dim) {
      box[dim].lo = random() % (shape[dim] + 1);
      box[dim].hi = box[dim].lo + random() % (shape[dim] - box[dim].lo + 1);
    }
    auto samples = IdxSamples::Open(paths, shape, box);
    ASSERT_TRUE(samples.ok()) << samples.status() << " seed " << seed << " round " << round;
    ASSERT_EQ((*samples)->samples() * elements, static_cast<int64_t>(cells.size()));
    ASSERT_EQ((*samples)->elements(), box.Volume());
    for (int64_t sample = 0; sample < (*samples)->samples(); ++sample) {
      std::vector<double> expected;
      for (int64_t i = 0; i < elements; ++i) {
        int64_t rest = i;
        bool inside = true;
        for (int dim = box.dims() - 1; dim >= 0; rest /= shape[dim--]) inside &= box[dim].Contains(rest % shape[dim]);
        if (inside) expected.push_back(cells[sample * elements + i]);
      }
      std::vector<double> found((*samples)->elements());
      const absl::Status status = (*samples)->Read(sample, found.data());
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(found, expected) << "seed " << seed << " round " << round << " box " << box.ToString();
    }
  }
}

TEST(IdxSamplesTest, RefusesWhatDoesNotFit) {
  const std::string images = IdxBytes(IdxType::kUInt8, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::string path = Write("images", images);
  const Box whole = Box::Whole({1, 2, 2});
  EXPECT_THAT(std::string(IdxSamples::Open({path}, {1, 2, 3}, Box::Whole({1, 2, 3})).status().message()),
              HasSubstr("so 4 elements a sample; the job's shape 1x2x3 has 6"));
  EXPECT_FALSE(IdxSamples::Open({}, {1, 2, 2}, whole).ok());
  auto samples = IdxSamples::Open({path}, {1, 2, 2}, whole);
  double cells[4];
  EXPECT_EQ((*samples)->Read(2, cells).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*samples)->Read(-1, cells).code(), absl::StatusCode::kOutOfRange);
  for (const std::string& bad : {images.substr(0, 20), images + "x"}) {
    for (const std::string& bytes : {bad, Gzip(bad)}) {
      EXPECT_EQ(IdxSamples::Open({Write("bad", bytes)}, {1, 2, 2}, whole).status().code(),
                absl::StatusCode::kDataLoss);
    }
  }
  std::string corrupt = Gzip(images);
  corrupt[corrupt.size() - 6] ^= 1;  // the checksum
  EXPECT_THAT(std::string(IdxSamples::Open({Write("bad", corrupt)}, {1, 2, 2}, whole).status().message()),
              HasSubstr("corrupt gzip stream"));
}

// A header that claims a sample of 2^40 cells, in a stream of a few.
TEST(IdxSamplesTest, ALyingHeaderCostsNoMemory) {
  const std::string bytes = IdxHeaderBytes(0x08, {1, int64_t{1} << 20, int64_t{1} << 20}) + "abc";
  const std::vector<int64_t> shape = {int64_t{1} << 40};
  EXPECT_EQ(IdxSamples::Open({Write("lying", Gzip(bytes))}, shape, Box::Whole(shape)).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace adjoin
