#include <hdf5/serial/hdf5.h>

#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"
#include "worker/data/hdf5_library.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/field_source.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;

std::vector<double> Count(int64_t cells, double from = 0) {
  std::vector<double> values(cells);
  std::iota(values.begin(), values.end(), from);
  return values;
}

absl::StatusOr<std::unique_ptr<FieldSource>> Open(const Field& field, const Shape& shape) {
  return OpenFieldSource(Dataset(), field, shape, 0, testing::TempDir());
}

std::vector<double> ReadAll(FieldSource& source, int64_t sample, int64_t count, const Box& box) {
  std::vector<double> cells(count * box.Volume());
  const absl::Status status = source.Read(sample, count, box, cells.data());
  EXPECT_TRUE(status.ok()) << status;
  return cells;
}

TEST(FileSamplesTest, SamplesOfSeveralFilesFollowEachOther) {
  Field field;
  WriteArray(testing::TempDir() + "/first", "npy", CellType::kInt32, {2, 6}, Count(12));
  WriteArray(testing::TempDir() + "/one", "npy", CellType::kFloat32, {2, 3}, Count(6, 12));
  WriteArray(testing::TempDir() + "/none", "npy", CellType::kInt32, {0, 6}, {});
  WriteArray(testing::TempDir() + "/last", "npy", CellType::kFloat64, {3, 2, 3}, Count(18, 18));
  for (const char* name : {"first", "one", "none", "last"}) SetFile(field, "npy", name);
  auto source = Open(field, {2, 3});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->samples(), 6);
  const Box column({{0, 2}, {1, 2}});
  EXPECT_THAT(ReadAll(**source, 1, 3, column), ElementsAre(7, 10, 13, 16, 19, 22));
  EXPECT_THAT(ReadAll(**source, 5, 1, column), ElementsAre(31, 34));
  EXPECT_EQ((*source)->bytes_read(), 2 * 4 + 2 * 4 + 2 * 8 + 2 * 8);
  double cell;
  EXPECT_THAT(std::string((*source)->Read(5, 2, column, &cell).message()), HasSubstr("there are 6"));
  EXPECT_TRUE((*source)->Read(6, 0, column, &cell).ok());
}

TEST(FileSamplesTest, StopsInsteadOfInflating) {
  Field field;
  WriteArray(testing::TempDir() + "/stopped.npy", "npy", CellType::kInt32, {2, 6}, Count(12));
  ASSERT_EQ(std::system(("gzip -f " + testing::TempDir() + "/stopped.npy").c_str()), 0);
  SetFile(field, "npy", "stopped.npy.gz");
  auto source = Open(field, {6});
  ASSERT_TRUE(source.ok()) << source.status();
  (*source)->Stop();
  std::vector<double> cells(6);
  EXPECT_EQ((*source)->Read(0, 1, Box({{0, 6}}), cells.data()).code(), absl::StatusCode::kCancelled);
}

TEST(FileSamplesTest, ReadsMoreFilesThanStayOpen) {
  Field field;
  for (int i = 0; i < 40; ++i) {
    const std::string name = absl::StrCat("volume", i);
    WriteArray(testing::TempDir() + "/" + name, "nifti", CellType::kInt16, {2, 3, 2}, Count(12, i * 100));
    SetFile(field, "nifti", name);
  }
  auto source = Open(field, {1, 2, 3, 2});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->samples(), 40);
  const Box box({{0, 1}, {1, 2}, {0, 3}, {1, 2}});
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 40; ++i) {
      EXPECT_THAT(ReadAll(**source, i, 1, box), ElementsAre(i * 100 + 7, i * 100 + 9, i * 100 + 11));
    }
  }
  EXPECT_EQ((*source)->bytes_read(), 2 * 40 * 3 * 2);
}

TEST(FileSamplesTest, ReadsOnlyTheChunksThatTheBoxMeets) {
  const std::string path = testing::TempDir() + "/chunked.h5";
  {
    const Hdf5Lock lock;
    const hsize_t extents[] = {4, 8, 8};
    const hsize_t chunk[] = {1, 4, 4};
    const Hdf5Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    const Hdf5Id space(H5Screate_simple(3, extents, nullptr), H5Sclose);
    const Hdf5Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_chunk(how.get(), 3, chunk);
    const Hdf5Id data(
        H5Dcreate2(file.get(), "data", H5T_NATIVE_FLOAT, space.get(), H5P_DEFAULT, how.get(), H5P_DEFAULT), H5Dclose);
    ASSERT_GE(H5Dwrite(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, Count(256).data()), 0);
  }
  Field field;
  SetFile(field, "hdf5", "chunked.h5");
  auto source = Open(field, {8, 8});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->samples(), 4);
  const std::optional<BoxCut> cut = (*source)->CutOf(2, Box({{0, 4}, {1, 8}}));
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->dim, 1);
  EXPECT_EQ(cut->at, 4);
  EXPECT_EQ((*source)->CutOf(2, Box({{1, 8}, {0, 8}}))->at, 4);
  EXPECT_FALSE((*source)->CutOf(2, Box({{0, 4}, {4, 8}})).has_value()) << "within one chunk";
  // The upper rows of one sample, and one more: two chunks and then all four.
  EXPECT_EQ(ReadAll(**source, 2, 1, Box({{0, 4}, {0, 8}})), Count(32, 128));
  EXPECT_EQ((*source)->bytes_read(), 2 * 16 * 4);
  ReadAll(**source, 2, 1, Box({{0, 5}, {0, 8}}));
  EXPECT_EQ((*source)->bytes_read(), 6 * 16 * 4);
  field.mutable_hdf5()->set_object("other");
  EXPECT_THAT(std::string(Open(field, {8, 8}).status().message()), HasSubstr("data"));
}

TEST(FileSamplesTest, NamesTheFileThatDoesNotFit) {
  WriteArray(testing::TempDir() + "/six", "npy", CellType::kInt32, {2, 6}, Count(12));
  Field field;
  field.set_name("image");
  EXPECT_THAT(std::string(Open(field, {6}).status().message()), HasSubstr("names no file"));
  SetFile(field, "npy", "six");
  EXPECT_THAT(std::string(Open(field, {7}).status().message()),
              HasSubstr("six: the file (2x6 int32) has 2 samples of [6]; shape is [7]"));
  EXPECT_THAT(std::string(OpenFieldSource(Dataset(), field, {6}, 0, "/nowhere").status().message()), HasSubstr("six"));
  auto source = Open(field, {6});
  ASSERT_TRUE(source.ok());
  WriteArray(testing::TempDir() + "/six", "npy", CellType::kInt32, {3, 6}, Count(18));
  double cell;
  EXPECT_THAT(std::string((*source)->Read(0, 1, Box({{0, 1}}), &cell).message()),
              HasSubstr("six: has become 3x6 int32; it was 2x6"));
}

// Whatever a file's length, what was cut off is noticed.
TEST(FileSamplesTest, RefusesTruncatedFilesAndTypesThatAreNoNumbers) {
  for (const char* format : {"idx", "npy", "hdf5", "nifti"}) {
    const std::string name = absl::StrCat("truncated_", format);
    const std::string path = testing::TempDir() + "/" + name;
    WriteArray(path, format, CellType::kFloat32, {4, 5, 6}, Count(120));
    const std::string bytes = ReadFile(path);
    Field field;
    SetFile(field, format, name);
    ASSERT_TRUE(Open(field, {4, 5, 6}).ok()) << format;
    WriteFile(path, bytes.substr(0, bytes.size() - 4));
    auto source = Open(field, {4, 5, 6});
    std::vector<double> cells(120);
    const absl::Status status =
        source.ok() ? (*source)->Read(0, 1, Box::Whole({4, 5, 6}), cells.data()) : source.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << format << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
  std::string complex =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }";
  complex.resize(127, ' ');
  complex += "\n" + std::string(48, '\0');
  WriteFile(testing::TempDir() + "/complex", complex);
  Field field;
  SetFile(field, "npy", "complex");
  EXPECT_THAT(std::string(Open(field, {}).status().message()), HasSubstr("c16"));
}

}  // namespace
}  // namespace adjoin
