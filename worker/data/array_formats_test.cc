#include "worker/data/array_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/spec/field_files.h"
#include "planner/spec/file_formats.h"
#include "worker/data/array_file.h"
#include "worker/data/array_writer.h"
#include "worker/data/header_then_cells.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

// Two bytes "RW", then uint8 cells, 2x2.
absl::StatusOr<StoredArray> ReadRawHeader(ByteSource& source) {
  StoredArray array;
  array.header.format = "raw";
  array.header.shape = {2, 2};
  array.offset = 2;
  return array;
}

ArrayFormat RawFormat(Likeness likeness = Likeness::kYes) {
  const auto sniff = [likeness](const FileStart& start) {
    return start.bytes.substr(0, 2) == "RW" ? likeness : Likeness::kNo;
  };
  const auto header_bytes = [](CellType, const std::vector<int64_t>&, const ArrayWriterOptions&) { return "RW"; };
  return HeaderThenCells({.name = "raw", .title = "RAW", .sniff = sniff}, ReadRawHeader, header_bytes);
}

TEST(ArrayFormatsTest, EveryBuiltinFormatCanBeRead) {
  ASSERT_FALSE(BuiltinArrayFormats().all().empty());
  for (const ArrayFormat& format : BuiltinArrayFormats().all()) {
    EXPECT_NE(format.extension, "") << format.name;
    EXPECT_TRUE(format.sniff != nullptr && format.header != nullptr && format.open != nullptr &&
                format.check != nullptr)
        << format.name;
    EXPECT_EQ(BuiltinArrayFormats().Find(format.name), &format);
  }
}

TEST(ArrayFormatsTest, ThePlannerKnowsTheSameFormats) {
  std::vector<std::string> planned;
  for (const FileFormat& format : FileFormats()) planned.push_back(format.name);
  EXPECT_EQ(planned, FileSourceNames()) << "planner/spec/file_formats.cc and Field.source in proto/job.proto";
  EXPECT_EQ(planned.size(), BuiltinArrayFormats().all().size());
  for (const FileFormat& planner : FileFormats()) {
    const ArrayFormat* const format = BuiltinArrayFormats().Find(planner.name);
    ASSERT_NE(format, nullptr) << planner.name;
    EXPECT_EQ(planner.objects, format->list != nullptr) << planner.name;
    EXPECT_EQ(planner.written, format->create != nullptr) << planner.name;
    EXPECT_EQ(planner.volumes, !format->volume_dims.empty()) << planner.name;
    if (!planner.written) continue;
    // Where there is no limit, a size that is no problem for any disk.
    const int64_t most = planner.most_extent > 0 ? planner.most_extent : 100'000;
    const std::string path = TestPath("most." + planner.name);
    EXPECT_TRUE(ArrayWriter::Create(path, planner.name, CellType::kUInt8, {most}).ok()) << planner.name;
    EXPECT_EQ(ArrayWriter::Create(path, planner.name, CellType::kUInt8, {most + 1}).ok(), planner.most_extent == 0)
        << planner.name;
  }
}

TEST(ArrayFormatsTest, AnAddedFormatIsReadAndWrittenThroughTheOrdinaryInterface) {
  ArrayFormats formats = BuiltinArrayFormats();
  ASSERT_TRUE(formats.Add(RawFormat()).ok());
  const std::string path = TestPath("added.raw");
  auto writer = ArrayWriter::Create(path, "raw", CellType::kUInt8, {2, 2}, {}, formats);
  ASSERT_TRUE(writer.ok()) << writer.status();
  auto other = ArrayWriter::Open(path, "raw", CellType::kUInt8, {2, 2}, {}, formats);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->Write(Box::Whole({2, 2}), "\1\2\3\4").ok());
  ASSERT_TRUE((*writer)->Finish().ok() && (*writer)->Publish().ok());
  EXPECT_EQ(ReadFile(path), "RW\1\2\3\4");
  const std::string packed = TestPath("added.raw.gz");
  WriteFile(packed, Gzip(ReadFile(path)));
  for (const std::string& name : {path, packed}) {
    EXPECT_TRUE(CheckArrayFile(name, {}, nullptr, formats).ok());
    EXPECT_EQ(ReadArrayHeader(name, {}, formats)->format, "raw");
    const auto file = ArrayFile::Open(name, {}, formats);
    ASSERT_TRUE(file.ok()) << file.status();
    double cells[2];
    ASSERT_TRUE((*file)->Read(Box({{0, 2}, {1, 2}}), cells).ok());
    EXPECT_EQ(cells[0], 2);
    EXPECT_EQ(cells[1], 4);
  }
  EXPECT_FALSE(ArrayFile::Open(path, {}).ok()) << "the built-in table is as it was";
}

TEST(ArrayFormatsTest, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  ArrayFormats formats = BuiltinArrayFormats();
  ASSERT_TRUE(formats.Add(RawFormat()).ok());
  const std::string path = TestPath("any.raw");
  WriteFile(path, "RW1234");
  for (const std::string name : {"tiff", "NPY", "np", "nifti1", "raw "}) {
    ArrayFileOptions options;
    options.format = name;
    const std::string wanted = "format '" + name + "' is unknown; right would be idx, npy, nifti, hdf5 or raw";
    for (const absl::Status& status :
         {ArrayFile::Open(path, options, formats).status(), ReadArrayHeader(path, options, formats).status(),
          CheckArrayFile(path, options, nullptr, formats).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(std::string(status.message()), wanted);
    }
  }
  EXPECT_THAT(std::string(ArrayWriter::Create(path, "tiff", CellType::kUInt8, {4}).status().message()),
              HasSubstr("format 'tiff' cannot be written; right would be npy, nifti or hdf5"));
}

TEST(ArrayFormatsTest, ASureFormatIsChosenBeforeOneThatIsNot) {
  const std::string path = TestPath("sniffed");
  WriteFile(path, "RW1234");
  for (const bool sure_first : {false, true}) {
    ArrayFormats formats;
    ArrayFormat unsure = RawFormat(Likeness::kMaybe);
    unsure.name = "unsure";
    ASSERT_TRUE(formats.Add(sure_first ? RawFormat() : unsure).ok());
    ASSERT_TRUE(formats.Add(sure_first ? unsure : RawFormat()).ok());
    const auto found = formats.Of(path, {});
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((*found)->name, "raw");
  }
  ArrayFormats formats;
  ASSERT_TRUE(formats.Add(RawFormat(Likeness::kMaybe)).ok());
  EXPECT_EQ((*formats.Of(path, {}))->name, "raw");
  EXPECT_THAT(std::string(BuiltinArrayFormats().Of(path, {}).status().message()),
              HasSubstr("of no format that can be read; right would be IDX, NPY, NIfTI-1 or HDF5"));
}

TEST(ArrayFormatsTest, AddRefusesWhatCannotBeUsed) {
  ArrayFormats formats = BuiltinArrayFormats();
  const size_t known = formats.all().size();
  ArrayFormat format = RawFormat();
  format.name = "npy";
  EXPECT_EQ(formats.Add(format).code(), absl::StatusCode::kAlreadyExists);
  format.name = "";
  EXPECT_EQ(formats.Add(format).code(), absl::StatusCode::kInvalidArgument);
  format = RawFormat();
  format.sniff = nullptr;
  EXPECT_THAT(std::string(formats.Add(format).message()), HasSubstr("'raw' needs the function sniff"));
  format = RawFormat();
  format.find = nullptr;
  EXPECT_THAT(std::string(formats.Add(format).message()), HasSubstr("needs the function create and find, or neither"));
  EXPECT_EQ(formats.all().size(), known);
}

}  // namespace
}  // namespace adjoin
