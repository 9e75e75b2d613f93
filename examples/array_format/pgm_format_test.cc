#include "examples/array_format/pgm_format.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "primitives/geometry/box.h"
#include "worker/data/array_file.h"
#include "worker/data/array_formats.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

ArrayFormats WithPgm() {
  ArrayFormats formats = BuiltinArrayFormats();
  EXPECT_EQ(formats.Add(PgmFormat()), absl::OkStatus());
  return formats;
}

// The cells of `box` of a file, which is opened without naming its format.
std::vector<double> CellsOf(const std::string& bytes, const Box& box) {
  const std::string path = TestPath("image.pgm");
  WriteFile(path, bytes);
  const ArrayFormats formats = WithPgm();
  const absl::Status checked = CheckArrayFile(path, {}, nullptr, formats).status();
  EXPECT_TRUE(checked.ok()) << checked;
  const absl::StatusOr<std::unique_ptr<ArrayFile>> file = ArrayFile::Open(path, {}, formats);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  EXPECT_EQ((*file)->header().format, "pgm");
  std::vector<double> cells(static_cast<size_t>(box.Volume()));
  EXPECT_TRUE((*file)->Read(box, cells.data()).ok());
  return cells;
}

absl::Status ErrorOf(const std::string& bytes) {
  const std::string path = TestPath("wrong.pgm");
  WriteFile(path, bytes);
  ArrayFileOptions options;
  options.format = "pgm";
  const ArrayFormats formats = WithPgm();
  const absl::Status error = CheckArrayFile(path, options, nullptr, formats).status();
  EXPECT_FALSE(ArrayFile::Open(path, options, formats).ok());
  return error;
}

TEST(PgmFormatTest, ReadsAnyBoxOfAnImage) {
  const std::string image = "P5\n# by hand\n3 2 # columns, rows\n255\n\1\2\3\4\5\6";
  EXPECT_EQ(CellsOf(image, Box({{0, 2}, {0, 3}})), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(CellsOf(image, Box({{0, 2}, {1, 3}})), (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(CellsOf(Gzip(image), Box({{1, 2}, {0, 2}})), (std::vector<double>{4, 5}));
}

TEST(PgmFormatTest, ReadsTwoBytesAPixelBigEndian) {
  const std::string image = "P5 2 1 1000\n" + std::string("\1\2\0\7", 4);
  EXPECT_EQ(CellsOf(image, Box({{0, 1}, {0, 2}})), (std::vector<double>{258, 7}));
}

TEST(PgmFormatTest, RefusesWhatIsNoSoundImage) {
  EXPECT_THAT(std::string(ErrorOf("P2\n1 1\n9\n5\n").message()), HasSubstr("not a PGM image"));
  EXPECT_THAT(std::string(ErrorOf("P5\n3 2").message()), HasSubstr("ends within its PGM header"));
  EXPECT_THAT(std::string(ErrorOf("P5\n3 two\n255\n").message()), HasSubstr("'two'; right would be a number"));
  EXPECT_THAT(std::string(ErrorOf("P5 3 2 70000\n").message()), HasSubstr("largest value 70000"));
  EXPECT_THAT(std::string(ErrorOf("P5 3 2 255\n12345").message()), HasSubstr("truncated"));
  EXPECT_THAT(std::string(ErrorOf("P5 3 2 255\n1234567").message()), HasSubstr("trailing bytes"));
  EXPECT_THAT(std::string(ErrorOf("P5 9999999999 9999999999 255\n1").message()), HasSubstr("more bytes than any file"));
}

TEST(PgmFormatTest, RefusesAFileThatEndsAnywhere) {
  const std::string image = "P5\n3 2\n255\n123456";
  for (size_t length = 0; length < image.size(); ++length) {
    for (const bool gzip : {false, true}) {
      const std::string part = image.substr(0, length);
      EXPECT_FALSE(ErrorOf(gzip ? Gzip(part) : part).ok()) << length;
    }
  }
}

TEST(PgmFormatTest, IsUnknownWithoutBeingAdded) {
  const std::string path = TestPath("unknown.pgm");
  WriteFile(path, "P5 1 1 255\nx");
  EXPECT_EQ(ArrayFile::Open(path, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adjoin
