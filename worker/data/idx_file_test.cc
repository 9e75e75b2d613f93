#include "worker/data/idx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "worker/data/array_file.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ArrayFileOptions Idx() {
  ArrayFileOptions options;
  options.format = "idx";
  return options;
}

std::string NameOf(IdxType type) {
  return type == IdxType::kUInt8     ? "uint8"
         : type == IdxType::kInt8    ? "int8"
         : type == IdxType::kInt16   ? "int16"
         : type == IdxType::kInt32   ? "int32"
         : type == IdxType::kFloat32 ? "float32"
                                     : "float64";
}

std::string Images() {
  std::vector<double> cells(5 * 4 * 3);
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<double>(i * 7 % 256);
  return IdxBytes(IdxType::kUInt8, {5, 4, 3}, cells);
}

absl::Status ProbeBytes(const std::string& bytes) {
  const std::string path = TestPath("probe.idx");
  WriteFile(path, bytes);
  return CheckArrayFile(path, Idx()).status();
}

TEST(IdxFileTest, ReadsTheHeaderOfEveryType) {
  for (IdxType type :
       {IdxType::kUInt8, IdxType::kInt8, IdxType::kInt16, IdxType::kInt32, IdxType::kFloat32, IdxType::kFloat64}) {
    const std::string bytes = IdxBytes(type, {2, 3}, {1, 2, 3, 4, 5, 6});
    for (bool gzip : {false, true}) {
      const std::string path = TestPath("file");
      WriteFile(path, gzip ? Gzip(bytes) : bytes);
      for (const auto& header : {ReadArrayHeader(path, Idx()), CheckArrayFile(path, Idx())}) {
        ASSERT_TRUE(header.ok()) << header.status();
        EXPECT_EQ(header->format, "idx");
        EXPECT_EQ(header->shape, (std::vector<int64_t>{2, 3}));
        EXPECT_EQ(header->ToString(), absl::StrCat("2x3 ", NameOf(type)));
      }
    }
  }
}

TEST(IdxFileTest, GzipMembersInARowAreOneFile) {
  const std::string bytes = Images();
  EXPECT_TRUE(ProbeBytes(Gzip(bytes.substr(0, 20)) + Gzip(bytes.substr(20))).ok());
}

TEST(IdxFileTest, NamesWhatIsWrong) {
  absl::Status missing = CheckArrayFile(TestPath("nothing.idx"), Idx()).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nothing.idx: No such file"));
  EXPECT_THAT(std::string(CheckArrayFile(testing::TempDir(), Idx()).status().message()),
              HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(ProbeBytes("").message()), HasSubstr("empty"));
  EXPECT_THAT(std::string(ProbeBytes("PK\x03\x04 a zip").message()),
              HasSubstr("not an IDX file: it starts with 50 4b"));
  EXPECT_THAT(std::string(ProbeBytes(IdxHeaderBytes(0x0a, {1})).message()), HasSubstr("type 0x0a is unknown"));
  EXPECT_THAT(std::string(ProbeBytes(IdxHeaderBytes(0x08, {})).message()), HasSubstr("no dims"));
  EXPECT_THAT(std::string(ProbeBytes(Images() + "x").message()),
              AllOf(HasSubstr("trailing bytes"), HasSubstr("5x4x3 uint8"), HasSubstr("60 bytes")));
  EXPECT_THAT(std::string(ProbeBytes(Gzip(Images() + "x")).message()), HasSubstr("trailing bytes"));
  EXPECT_THAT(std::string(ProbeBytes(Gzip(Images()) + "x").message()),
              HasSubstr("trailing bytes after the gzip stream"));
}

TEST(IdxFileTest, RefusesAFileThatEndsAnywhere) {
  const std::string plain = Images();
  for (size_t length = 0; length < plain.size(); ++length) {
    const absl::Status status = ProbeBytes(plain.substr(0, length));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << " " << status;
    // The same content within a sound gzip stream.
    EXPECT_EQ(ProbeBytes(Gzip(plain.substr(0, length))).code(), absl::StatusCode::kDataLoss) << length;
  }
  EXPECT_THAT(std::string(ProbeBytes(plain.substr(0, plain.size() - 1)).message()),
              HasSubstr("60 bytes of data were expected, found 59"));
  const std::string gzip = Gzip(plain);
  for (size_t length = 0; length < gzip.size(); ++length) {
    const absl::Status status = ProbeBytes(gzip.substr(0, length));
    EXPECT_FALSE(status.ok()) << length;
    if (length >= 2) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("truncated")) << length;
    }
  }
}

TEST(IdxFileTest, FindsAFlippedBitInAGzipFile) {
  const std::string gzip = Gzip(Images());
  for (size_t at = 10; at < gzip.size(); ++at) {  // the first ten bytes are gzip's own header, with its time stamp
    std::string bad = gzip;
    bad[at] = static_cast<char>(bad[at] ^ 1);  // the upper bits of the last block's last byte mean nothing
    EXPECT_FALSE(ProbeBytes(bad).ok()) << "byte " << at;
  }
}

TEST(IdxFileTest, RefusesAHugeClaimWithoutAllocatingIt) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{0xffffffff}, {0xffffffff, 0xffffffff}, {0x7fffffff, 0x7fffffff, 0x7fffffff, 2}}) {
    const std::string bytes = IdxHeaderBytes(0x0e, shape) + "12345678";
    EXPECT_EQ(ProbeBytes(bytes).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ProbeBytes(Gzip(bytes)).code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace adjoin
