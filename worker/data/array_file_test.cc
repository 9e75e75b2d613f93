#include "worker/data/array_file.h"
#include "base/testing/test_seed.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The folder with the files of make_array_files.py, which are written once for all tests.
const std::string& Folder() {
  static const std::string& folder = *[] {
    auto* made = new std::string(testing::TempDir() + "/arrays");
    const std::string command = absl::StrCat("rm -rf ", *made, " && mkdir ", *made,
                                             " && /usr/bin/python3 worker/data/make_array_files.py ", *made);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return made;
  }();
  return folder;
}

struct Line {
  std::string file, object, format, type;
  std::vector<int64_t> shape;
  std::vector<double> truth;
};

std::vector<Line> Manifest() {
  std::vector<Line> lines;
  std::ifstream in(Folder() + "/manifest");
  std::string file, object, format, type, shape, truth;
  while (in >> file >> object >> format >> type >> shape >> truth) {
    Line line{
        .file = file,
        .object = object == "-" ? "" : object,
        .format = format,
        .type = type,
        .shape = {},
        .truth = {},
    };
    if (shape != "-") {
      for (absl::string_view extent : absl::StrSplit(shape, 'x')) {
        int64_t value = 0;
        EXPECT_TRUE(absl::SimpleAtoi(extent, &value));
        line.shape.push_back(value);
      }
    }
    const std::string bytes = ReadFile(Folder() + "/" + truth);
    line.truth.resize(bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(line.truth.data(), bytes.data(), bytes.size());
    lines.push_back(std::move(line));
  }
  return lines;
}

Box RandomBox(const std::vector<int64_t>& shape, std::mt19937& random) {
  Box box = Box::Whole(shape);
  for (int dim = 0; dim < box.dims(); ++dim) {
    box[dim].lo = static_cast<int64_t>(random() % (shape[dim] + 1));
    box[dim].hi = box[dim].lo + static_cast<int64_t>(random() % (shape[dim] - box[dim].lo + 1));
  }
  return box;
}

std::vector<double> Cut(const Line& line, const Box& box) {
  std::vector<double> cut;
  for (size_t i = 0; i < line.truth.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    bool inside = true;
    for (int dim = box.dims() - 1; dim >= 0; --dim) {
      inside &= box[dim].Contains(rest % line.shape[dim]);
      rest /= line.shape[dim];
    }
    if (inside) cut.push_back(line.truth[i]);
  }
  return cut;
}

bool Same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

std::string CheckError(const std::string& file, const std::string& object = "") {
  ArrayFileOptions options;
  options.object = object;
  options.name = file;
  const absl::Status status = CheckArrayFile(Folder() + "/" + file, options).status();
  EXPECT_FALSE(status.ok()) << file;
  EXPECT_EQ(ArrayFile::Open(Folder() + "/" + file, options).status().code(), status.code()) << file;
  return std::string(status.message());
}

TEST(ArrayFileTest, ReadsAnyBoxOfFilesThatNumPyAndH5pyWrote) {
  const uint64_t seed = TestSeed(5);
  std::mt19937 random(seed);
  const std::vector<Line> lines = Manifest();
  ASSERT_GT(lines.size(), 120u);
  for (const Line& line : lines) {
    SCOPED_TRACE(absl::StrCat(line.file, " ", line.object, ", seed ", seed));
    ArrayFileOptions options;
    options.object = line.object;
    options.cache_dir = testing::TempDir() + "/cache";
    const std::string path = Folder() + "/" + line.file;
    const absl::StatusOr<ArrayHeader> checked = CheckArrayFile(path, options);
    ASSERT_TRUE(checked.ok()) << checked.status();
    const absl::StatusOr<ArrayHeader> read = ReadArrayHeader(path, options);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ToString(), checked->ToString());
    auto file = ArrayFile::Open(path, options);
    ASSERT_TRUE(file.ok()) << file.status();
    const ArrayHeader& header = (*file)->header();
    EXPECT_EQ(header.format, line.format);
    EXPECT_EQ(ToString(header.type), line.type);
    EXPECT_EQ(header.shape, line.shape);
    const bool whole_chunks =
        line.object.find("packed/") != std::string::npos || line.object == "unwritten" || line.object == "partly";
    int64_t bytes = 0;
    for (int round = 0; round < 6; ++round) {
      const Box box = round == 0 ? Box::Whole(line.shape) : RandomBox(line.shape, random);
      std::vector<double> cells(static_cast<size_t>(box.Volume()), -77);
      ASSERT_TRUE((*file)->Read(box, cells.data()).ok());
      EXPECT_TRUE(Same(cells, Cut(line, box))) << box.ToString();
      bytes += box.Volume() * SizeOf(header.type);
      if (!whole_chunks) {
        EXPECT_EQ((*file)->bytes_read(), bytes);
      }
    }
    EXPECT_EQ((*file)->Read(Box(std::vector<Interval>(line.shape.size() + 1)), nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    if (!line.shape.empty()) {
      Box beyond = Box::Whole(line.shape);
      for (int dim = 0; dim < beyond.dims(); ++dim) beyond[dim] = {beyond[dim].hi, beyond[dim].hi + 1};
      EXPECT_EQ((*file)->Read(beyond, nullptr).code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(ArrayFileTest, ReadsTheBoxAndAtMostTheChunksThatMeetIt) {
  const Box box({{20, 30}, {0, 16}, {3, 40}});
  std::map<std::string, int64_t> bytes = {{"plain", box.Volume() * 4}, {"chunked", 1 * 1 * 3 * 16 * 16 * 16 * 4}};
  for (const auto& [object, wanted] : bytes) {
    ArrayFileOptions options;
    options.object = object;
    auto file = ArrayFile::Open(Folder() + "/big.h5", options);
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<double> cells(static_cast<size_t>(box.Volume()));
    ASSERT_TRUE((*file)->Read(box, cells.data()).ok());
    EXPECT_EQ((*file)->bytes_read(), wanted) << object;
  }
}

TEST(ArrayFileTest, RefusesByName) {
  EXPECT_THAT(CheckError("complex.npy"),
              HasSubstr("complex.npy: holds complex numbers ('<c16'), which cannot be read"));
  EXPECT_THAT(CheckError("object.npy"), HasSubstr("Python objects"));
  EXPECT_THAT(CheckError("structured.npy"), HasSubstr("structures"));
  EXPECT_THAT(CheckError("text.npy"), HasSubstr("holds text"));
  EXPECT_THAT(CheckError("pair.hdr"), HasSubstr("a pair of .hdr and .img"));
  EXPECT_THAT(CheckError("analyze.hdr"), HasSubstr("ANALYZE"));
  EXPECT_THAT(CheckError("two.nii"), HasSubstr("NIfTI-2"));
  EXPECT_THAT(CheckError("manifest"), HasSubstr("of no format that can be read"));
  EXPECT_THAT(CheckError("no.npy"), HasSubstr("no.npy: No such file"));
  EXPECT_THAT(CheckError("many.h5"),
              AllOf(HasSubstr("which data set (object)"), HasSubstr("packed/int8_le"), HasSubstr(" and 36 more")));
  EXPECT_THAT(CheckError("many.h5", "nothing"),
              AllOf(HasSubstr("'nothing' cannot be opened"), HasSubstr("packed/int8_le")));
  EXPECT_THAT(CheckError("many.h5", "plain"), HasSubstr("cannot be opened"));
  EXPECT_THAT(CheckError("many.h5", "text"), HasSubstr("data set 'text' holds text"));
  EXPECT_THAT(CheckError("many.h5", "complex"), HasSubstr("structures"));
  EXPECT_THAT(CheckError("many.h5", "lzf_packed"), HasSubstr("compressed by lzf"));
  EXPECT_THAT(CheckError("many.h5", "elsewhere"), HasSubstr("cannot be opened"));
  EXPECT_THAT(CheckError("many.h5", "outside"), HasSubstr("in other files"));
  EXPECT_THAT(CheckError("many.h5", "virtual"), HasSubstr("in other files"));
  ArrayFileOptions options;
  options.format = "tiff";
  EXPECT_THAT(std::string(ArrayFile::Open(Folder() + "/line.npy", options).status().message()),
              HasSubstr("format 'tiff' is unknown"));
  for (const char* format : {"idx", "hdf5", "nifti"}) {
    options.format = format;
    EXPECT_EQ(ArrayFile::Open(Folder() + "/line.npy", options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ArrayFileTest, RefusesTruncatedFilesAndTrailingBytes) {
  for (const char* name : {"line.npy", "version2.npy", "int16_be.nii", "uint8_le.nii", "inflated.npy.gz",
                           "float32_le.nii.gz", "block.h5"}) {
    const std::string whole = ReadFile(Folder() + "/" + name);
    const std::string path = TestPath(name);
    const bool hdf5 = absl::string_view(name) == "block.h5";
    for (size_t length = 0; length < whole.size(); length += hdf5 ? 61 : 1 + length / 60) {
      WriteFile(path, whole.substr(0, length));
      EXPECT_FALSE(CheckArrayFile(path, {}).ok()) << name << " " << length;
      EXPECT_FALSE(ArrayFile::Open(path, {}).ok()) << name << " " << length;
    }
    if (hdf5) continue;
    WriteFile(path, whole + "x");
    const absl::Status more = CheckArrayFile(path, {}).status();
    EXPECT_EQ(more.code(), absl::StatusCode::kDataLoss) << name;
    EXPECT_THAT(std::string(more.message()), HasSubstr("trailing bytes")) << name;
    EXPECT_EQ(ArrayFile::Open(path, {}).status().code(), absl::StatusCode::kDataLoss) << name;
  }
}

TEST(ArrayFileTest, FindsAFlippedBitOfAChunkByItsChecksum) {
  const std::string bytes = ReadFile(Folder() + "/checked.h5");
  const std::string path = TestPath("flipped.h5");
  // Nearly all of the file is chunks.
  for (size_t at = bytes.size() / 2; at < bytes.size() / 2 + 100; ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    WriteFile(path, bad);
    const absl::Status status = CheckArrayFile(path, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cells: cells [")) << at;
  }
}

TEST(ArrayFileTest, ChecksHdf5FilesWithinTheLimitsWhateverTheyClaim) {
  // A few kilobytes that claim 8 GiB in one row, 2^40 chunks, and 2^60 cells in one row.
  for (const char* object : {"one_row", "many", "wide"}) {
    SCOPED_TRACE(object);
    ArrayFileOptions options;
    options.object = object;
    CheckLimits limits;
    limits.bytes = 32 << 20;
    int asked = 0;
    limits.enough = [&] { return ++asked, false; };
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const auto header = CheckArrayFile(Folder() + "/claims.h5", options, &limits);
    getrusage(RUSAGE_SELF, &after);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 256 << 10) << "KiB";
    EXPECT_LT(limits.bytes, 1 << 20);
    EXPECT_GE(asked, 32);
    // Asked to stop it does.
    limits.bytes = INT64_MAX;
    asked = 0;
    limits.enough = [&] { return ++asked > 3; };
    ASSERT_TRUE(CheckArrayFile(Folder() + "/claims.h5", options, &limits).ok());
    EXPECT_EQ(asked, 4);
  }
}

TEST(ArrayFileTest, RefusesAChunkThatDoesNotInflateToItsSize) {
  const auto check = [](const char* object) {
    ArrayFileOptions options;
    options.object = object;
    options.name = "a.h5";
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const absl::Status status = CheckArrayFile(Folder() + "/unpacked.h5", options).status();
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
    return status;
  };
  EXPECT_EQ(check("right"), absl::OkStatus());
  EXPECT_EQ(check("not_packed"), absl::OkStatus());
  const absl::Status more = check("more");
  EXPECT_EQ(more.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(more.message()),
            "a.h5: more: cells [1024], their chunk is corrupt: unpacked it has more than its 1024 bytes");
  EXPECT_THAT(std::string(check("less").message()), HasSubstr("unpacked it has less than its 1024 bytes"));
  EXPECT_THAT(std::string(check("not_packed_more").message()), HasSubstr("unpacked it has more than its 1024 bytes"));
}

TEST(ArrayFileTest, CheckingSubtractsTheInflatedBytesFromTheLimits) {
  const std::string path = TestPath("zeros.npy.gz");
  const std::string text = "{'descr': '|u1', 'fortran_order': False, 'shape': (10000000,), }\n";
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(text.size());
  bytes += '\0';
  bytes += text + std::string(10'000'000, '\0');
  const std::string packed = Gzip(bytes);
  ASSERT_LT(packed.size(), 20'000u);
  WriteFile(path, packed.substr(0, packed.size() - 4));
  const auto size = static_cast<int64_t>(bytes.size());
  CheckLimits limits;
  limits.bytes = size - 1;
  EXPECT_TRUE(CheckArrayFile(path, {}, &limits).ok()) << "only the header";
  EXPECT_EQ(limits.bytes, size - 1);
  limits.bytes = size;
  EXPECT_EQ(CheckArrayFile(path, {}, &limits).status().code(), absl::StatusCode::kDataLoss);
  WriteFile(path, packed);
  limits.bytes = 2 * size;
  ASSERT_TRUE(CheckArrayFile(path, {}, &limits).ok());
  // The header was inflated before the limits were checked.
  EXPECT_NEAR(static_cast<double>(limits.bytes), static_cast<double>(size), 200);
  int asked = 0;
  limits.bytes = size;
  limits.enough = [&] { return ++asked > 1; };
  ASSERT_TRUE(CheckArrayFile(path, {}, &limits).ok());
  EXPECT_EQ(asked, 2);
}

TEST(ArrayFileTest, RefusesAHugeClaimWithoutAllocatingIt) {
  const std::string npy = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  for (const char* shape :
       {"4000000000,", "99999999999999999999,", "3037000500, 3037000500", "-3,", "2147483648, 2147483648, 4"}) {
    const std::string text = npy + shape + "), }\n";
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(text.size());
    bytes += '\0';
    bytes += text + "12345678";
    const std::string path = TestPath("claim.npy");
    for (const bool gzip : {false, true}) {
      WriteFile(path, gzip ? Gzip(bytes) : bytes);
      EXPECT_EQ(CheckArrayFile(path, {}).status().code(), absl::StatusCode::kDataLoss) << shape;
      EXPECT_EQ(ArrayFile::Open(path, {}).status().code(), absl::StatusCode::kDataLoss) << shape;
    }
  }
}

TEST(ArrayFileTest, AFileThatIsShortenedWhileItIsReadIsAnError) {
  const std::string path = TestPath("short.npy");
  const std::string whole = ReadFile(Folder() + "/line.npy");
  WriteFile(path, whole);
  auto file = ArrayFile::Open(path, {});
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(whole.size() - 4)), 0);
  std::vector<double> cells(9);
  EXPECT_EQ((*file)->Read(Box({{0, 9}}), cells.data()).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace adjoin
