#include "worker/samples/label_cells.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/test_seed.h"
#include "primitives/geometry/box.h"
#include "worker/data/counted_reads.h"
#include "worker/samples/array_test_files.h"
#include "worker/samples/field_source.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;
using Cells = std::map<int64_t, std::vector<int64_t>>;

const std::atomic<bool> kNever{false};

class LabelCellsTest : public ::testing::Test {
 protected:
  LabelCellsTest() {
    Field& field = *dataset_.add_field();
    field.set_name("label");
    field.set_dtype("int64");
    Foreground& foreground = *dataset_.mutable_blocks()->mutable_foreground();
    foreground.set_field("label");
    foreground.set_share(0.5);
  }
  void Open(const Shape& shape, const std::vector<std::string>& files, uint64_t seed = 3) {
    Field& field = *dataset_.mutable_field(0);
    field.mutable_shape()->Assign(shape.begin(), shape.end());
    dataset_.mutable_blocks()->mutable_size()->Resize(static_cast<int>(shape.size()), 1);
    field.clear_npy();
    for (const std::string& file : files) SetFile(field, "npy", file);
    source_ = *OpenFieldSource(dataset_, field, shape, 0, testing::TempDir());
    auto cells = LabelCells::Create(dataset_, seed, source_.get());
    ASSERT_TRUE(cells.ok()) << cells.status();
    cells_ = *std::move(cells);
  }
  Cells Of(int64_t sample) {
    Cells found;
    const auto labels = cells_->Of(sample, kNever);
    EXPECT_TRUE(labels.ok()) << labels.status();
    for (const LabelCells::OfLabel& label : **labels) found[label.label] = label.cell;
    return found;
  }
  std::string Error() { return std::string(cells_->Of(0, kNever).status().message()); }

  Dataset dataset_;
  std::unique_ptr<FieldSource> source_;
  std::unique_ptr<LabelCells> cells_;
};

TEST_F(LabelCellsTest, AreAllCellsOfTheLabelsThatAreMeant) {
  std::mt19937_64 random(TestSeed());
  std::vector<double> labels(3 * 4 * 5 * 6);
  for (double& label : labels) label = static_cast<double>(random() % 5);
  std::fill(labels.begin() + 120, labels.begin() + 240, 0.0);
  WriteArray(testing::TempDir() + "/labels.npy", "npy", CellType::kUInt8, {3, 4, 5, 6}, labels);
  Foreground& foreground = *dataset_.mutable_blocks()->mutable_foreground();
  const auto expected = [&](int64_t sample, const std::vector<int64_t>& named) {
    Cells cells;
    const auto& remap = dataset_.field(0).remap();
    for (int64_t cell = 0; cell < 120; ++cell) {
      auto label = static_cast<int64_t>(labels[sample * 120 + cell]);
      if (!remap.empty()) label = remap[static_cast<int>(label)];
      if (named.empty() ? label != 0 : std::count(named.begin(), named.end(), label) > 0) cells[label].push_back(cell);
    }
    return cells;
  };
  for (const std::vector<int64_t>& named : {std::vector<int64_t>{}, {2}, {4, 0, 77}}) {
    for (bool remaps : {false, true}) {
      foreground.mutable_label()->Assign(named.begin(), named.end());
      dataset_.mutable_field(0)->clear_remap();
      for (int64_t becomes : {0, 4, -100, 2, 2}) {
        if (remaps) dataset_.mutable_field(0)->add_remap(becomes);
      }
      Open({4, 5, 6}, {"labels.npy"});
      for (int64_t sample : {0, 1, 2, 0}) EXPECT_EQ(Of(sample), expected(sample, named)) << sample;
    }
  }
}

// Whatever the order of the cells in the file: it is read in pieces, in that order.
TEST_F(LabelCellsTest, ManyCellsAreChosenByTheSeedAlone) {
  const Shape shape = {120, 130, 140};
  const auto label = [](int64_t cell) { return cell % 1000 == 0 ? 2 : cell % 3 == 0 ? 1 : 0; };
  WriteFortranNpy(testing::TempDir() + "/fortran.npy", shape, label);
  std::vector<double> cells(VolumeOf(shape));
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<double>(label(static_cast<int64_t>(i)));
  WriteArray(testing::TempDir() + "/rows.npy", "npy", CellType::kUInt8, shape, cells);
  Open(shape, {"fortran.npy"});
  const Cells found = Of(0);
  Open(shape, {"rows.npy"});
  EXPECT_EQ(Of(0), found);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(2).size(), 2184u) << "all";
  const std::vector<int64_t>& chosen = found.at(1);
  ASSERT_EQ(chosen.size(), LabelCells::kMostCells);
  EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
  EXPECT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
  std::vector<int> tenths(10);
  for (int64_t cell : chosen) {
    ASSERT_EQ(label(cell), 1);
    ++tenths[cell * 10 / VolumeOf(shape)];
  }
  for (int count : tenths) EXPECT_NEAR(count, 1000, 150);  // 5 standard deviations
  Open(shape, {"rows.npy"}, /*seed=*/4);
  EXPECT_NE(Of(0), found);
  // Another sample with the same labels has other cells.
  Open(shape, {"rows.npy", "rows.npy"});
  EXPECT_NE(Of(1), found);
  const std::atomic<bool> stop{true};
  Open(shape, {"rows.npy"});
  EXPECT_EQ(cells_->Of(0, stop).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LabelCellsTest, ASampleIsReadOnce) {
  WriteArray(testing::TempDir() + "/once.npy", "npy", CellType::kUInt8, {2, 4}, {0, 1, 1, 0, 0, 0, 0, 0});
  Open({4}, {"once.npy"});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Of(0), (Cells{{1, {1, 2}}}));
    EXPECT_EQ(Of(1), Cells());
  }
  EXPECT_EQ(source_->bytes_read(), 8);
}

TEST_F(LabelCellsTest, WhatIsNoLabelNamesFileAndPosition) {
  WriteArray(testing::TempDir() + "/half.npy", "npy", CellType::kFloat32, {2, 3}, {0, 1, 1, 0, 0.5, 0});
  Open({2, 3}, {"half.npy"});
  EXPECT_THAT(Error(), HasSubstr("half.npy: position [1, 1]: the value is 0.5; dtype \"int64\" takes whole numbers"));
  dataset_.mutable_field(0)->add_remap(0);
  Open({2, 3}, {"half.npy"});
  EXPECT_THAT(Error(), HasSubstr("half.npy: position [0, 1]: the label is 1; remap has entries for 0 to 0"));
  dataset_.mutable_field(0)->clear_remap();
  std::vector<double> many(1200);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
  WriteArray(testing::TempDir() + "/many.npy", "npy", CellType::kFloat32, {30, 40}, many);
  Open({30, 40}, {"many.npy"});
  EXPECT_THAT(Error(), HasSubstr("many.npy: has more than 1000 labels; name those"));
  dataset_.mutable_blocks()->mutable_foreground()->add_label(7);
  Open({30, 40}, {"many.npy"});
  EXPECT_EQ(Of(0), (Cells{{7, {7}}}));
}

}  // namespace
}  // namespace adjoin
