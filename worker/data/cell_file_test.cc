#include "worker/data/cell_file.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worker/data/array_file.h"
#include "worker/data/array_summary.h"
#include "worker/data/counted_reads.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

int64_t ValueOf(int64_t cell) { return cell * 7 % 251; }

TEST(CellFileTest, FortranOrderIsReadByItsOwnRuns) {
  const std::vector<int64_t> shape = {64, 64, 64};
  const std::string path = TestPath("fortran.npy");
  WriteFortranNpy(path, shape, ValueOf);
  auto file = ArrayFile::Open(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->header().fortran);
  const struct {
    Box box;
    int64_t runs;
  } cases[] = {{Box({{0, 64}, {0, 64}, {0, 64}}), 1},
               {Box({{0, 64}, {0, 64}, {5, 40}}), 1},
               {Box({{0, 64}, {8, 40}, {3, 20}}), 17},
               {Box({{10, 60}, {8, 40}, {3, 20}}), 32 * 17}};
  for (const auto& [box, runs] : cases) {
    SCOPED_TRACE(box.ToString());
    std::vector<double> cells(box.Volume());
    const int64_t before = ReadsSoFar();
    ASSERT_TRUE((*file)->Read(box, cells.data()).ok());
    EXPECT_EQ(ReadsSoFar() - before, runs);
    const double* cell = cells.data();
    for (int64_t x = box[0].lo; x < box[0].hi; ++x)
      for (int64_t y = box[1].lo; y < box[1].hi; ++y)
        for (int64_t z = box[2].lo; z < box[2].hi; ++z) ASSERT_EQ(*cell++, ValueOf((x * 64 + y) * 64 + z));
  }
}

// It reads pieces that are stored together in the file; positions are still those of NumPy's index.
TEST(CellFileTest, FortranOrderIsSummarisedInFewReads) {
  const std::vector<int64_t> shape = {128, 64, 96};
  const std::string path = TestPath("fortran_large.npy");
  WriteFortranNpy(path, shape, ValueOf);
  auto file = ArrayFile::Open(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const int64_t before = ReadsSoFar();
  auto summary = Summarise(**file);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_LE(ReadsSoFar() - before, 8) << "3 pieces of 2^18 cells, read twice";
  double sum = 0;
  for (int64_t cell = 0; cell < 128 * 64 * 96; ++cell) sum += static_cast<double>(ValueOf(cell));
  EXPECT_EQ(summary->cells, 128 * 64 * 96);
  EXPECT_DOUBLE_EQ(summary->mean, sum / (128 * 64 * 96));
}

}  // namespace
}  // namespace adjoin
