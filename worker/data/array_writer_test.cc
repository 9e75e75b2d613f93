#include "worker/data/array_writer.h"

#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/data/array_file.h"
#include "worker/data/encode_cells.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

// The cells of `box` as check_array_file.py has them.
std::string CellsOf(CellType type, const std::vector<int64_t>& shape, const Box& box) {
  std::vector<double> values;
  for (int64_t i = 0; i < VolumeOf(shape); ++i) {
    int64_t rest = i;
    bool inside = true;
    for (int dim = box.dims() - 1; dim >= 0; rest /= shape[dim--]) inside &= box[dim].Contains(rest % shape[dim]);
    if (inside) values.push_back(static_cast<double>(i * 7 % 23));
  }
  std::string bytes(values.size() * static_cast<size_t>(SizeOf(type)), '\0');
  EncodeCells(type, values.data(), static_cast<int64_t>(values.size()), reinterpret_cast<unsigned char*>(bytes.data()));
  return bytes;
}

int PythonSays(const std::string& path, const std::string& format, CellType type, const std::vector<int64_t>& shape) {
  return std::system(absl::StrCat("/usr/bin/python3 worker/data/check_array_file.py ", path, " ", format, " ",
                                  ToString(type), " ", absl::StrJoin(shape, " "))
                         .c_str());
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// In parts along two dims, each by a process of its own.
void WriteByProcesses(const std::string& path, const std::string& format, CellType type,
                      const std::vector<int64_t>& shape) {
  unlink(path.c_str());
  auto creator = ArrayWriter::Create(path, format, type, shape);
  ASSERT_TRUE(creator.ok()) << creator.status();
  EXPECT_FALSE(Exists(path));
  std::vector<Box> parts;
  for (int part = 0; part < 4; ++part) {
    Box box = Box::Whole(shape);
    const int last = box.dims() - 1;
    box[0] = part % 2 == 0 ? Interval{0, shape[0] / 2} : Interval{shape[0] / 2, shape[0]};
    if (last > 0) box[last] = part / 2 == 0 ? Interval{0, shape[last] / 3} : Interval{shape[last] / 3, shape[last]};
    if (last > 0 || part < 2) parts.push_back(box);
  }
  std::vector<pid_t> children;
  for (size_t part = 1; part < parts.size(); ++part) {
    const pid_t child = fork();
    if (child == 0) {
      auto writer = ArrayWriter::Open(path, format, type, shape);
      if (!writer.ok()) _exit(2);
      if (!(*writer)->Write(parts[part], CellsOf(type, shape, parts[part]).data()).ok()) _exit(3);
      _exit((*writer)->Finish().ok() ? 0 : 4);
    }
    children.push_back(child);
  }
  EXPECT_TRUE((*creator)->Write(parts[0], CellsOf(type, shape, parts[0]).data()).ok());
  EXPECT_EQ((*creator)->Publish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*creator)->Finish().ok());
  for (pid_t child : children) {
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE((*creator)->Publish().ok());
  EXPECT_EQ((*creator)->Publish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Exists(path + ".tmp"));
}

TEST(ArrayWriterTest, NumPyAndH5pyReadWhatManyProcessesWrote) {
  const struct {
    std::string format;
    CellType type;
    std::vector<int64_t> shape;
  } cases[] = {
      {"npy", CellType::kFloat32, {5, 6, 7}},   {"npy", CellType::kUInt8, {11}},
      {"npy", CellType::kFloat16, {4, 9}},      {"npy", CellType::kInt64, {2, 3, 4, 5}},
      {"nifti", CellType::kFloat32, {5, 6, 7}}, {"nifti", CellType::kUInt8, {3, 5, 6, 7}},
      {"nifti", CellType::kInt16, {8}},         {"hdf5", CellType::kFloat32, {5, 6, 7}},
      {"hdf5", CellType::kFloat16, {4, 9}},     {"hdf5", CellType::kUInt16, {6, 6}},
  };
  for (const auto& entry : cases) {
    SCOPED_TRACE(absl::StrCat(entry.format, " ", ToString(entry.type)));
    const std::string path = TestPath(absl::StrCat("written.", entry.format));
    WriteByProcesses(path, entry.format, entry.type, entry.shape);
    EXPECT_EQ(PythonSays(path, entry.format, entry.type, entry.shape), 0);
    // And as this project's own readers have it.
    auto file = ArrayFile::Open(path, {});
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->header().shape, entry.shape);
    EXPECT_EQ((*file)->header().type, entry.type);
  }
}

TEST(ArrayWriterTest, UnwrittenCellsAreZeroAndEmptyArraysAreFiles) {
  for (const char* format : {"npy", "nifti", "hdf5"}) {
    const std::string path = TestPath(absl::StrCat("zeros.", format));
    auto writer = ArrayWriter::Create(path, format, CellType::kFloat64, {3, 4});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Finish().ok());
    ASSERT_TRUE((*writer)->Publish().ok());
    auto file = ArrayFile::Open(path, {});
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<double> cells(12, 1);
    ASSERT_TRUE((*file)->Read(Box::Whole({3, 4}), cells.data()).ok());
    EXPECT_EQ(cells, std::vector<double>(12, 0));
  }
  for (const char* format : {"npy", "hdf5"}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 0}, std::vector<int64_t>{}}) {
      const std::string path = TestPath(absl::StrCat("edge.", format));
      auto writer = ArrayWriter::Create(path, format, CellType::kFloat32, shape);
      ASSERT_TRUE(writer.ok()) << writer.status();
      auto other = ArrayWriter::Open(path, format, CellType::kFloat32, shape);
      ASSERT_TRUE(other.ok()) << other.status();
      const float cell = 2.5;
      ASSERT_TRUE((*other)->Write(Box::Whole(shape), &cell).ok());
      ASSERT_TRUE((*writer)->Finish().ok());
      ASSERT_TRUE((*writer)->Publish().ok());
      auto file = ArrayFile::Open(path, {});
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((*file)->header().shape, shape);
      double read = 0;
      ASSERT_TRUE((*file)->Read(Box::Whole(shape), &read).ok());
      EXPECT_EQ(read, shape.empty() ? 2.5 : 0);
    }
  }
}

TEST(ArrayWriterTest, KeepsANiftiFilesLocationInSpace) {
  std::string kept(348, '\0');
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = static_cast<char>(i * 11 % 255 + 1);
  const auto put = [&](size_t offset, auto number) { std::memcpy(&kept[offset], &number, sizeof(number)); };
  put(40, int16_t{3});
  ArrayWriterOptions options;
  options.nifti = kept;
  const std::string path = TestPath("kept.nii");
  {
    auto writer = ArrayWriter::Create(path, "nifti", CellType::kUInt8, {2, 3, 4, 5}, options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Finish().ok() && (*writer)->Publish().ok());
  }
  const std::string bytes = ReadFile(path);
  ASSERT_EQ(bytes.size(), 352u + 120);
  const auto same = [&](size_t from, size_t to) {
    return bytes.substr(from, to - from) == kept.substr(from, to - from);
  };
  EXPECT_TRUE(same(4, 40) && same(74, 92)) << "what describes the file, spacing of the three dims that it has";
  EXPECT_TRUE(same(123, 124) && same(132, 140)) << "units, times";
  EXPECT_TRUE(same(148, 328)) << "description, qform and sform";
  float spacing;
  std::memcpy(&spacing, &bytes[92], 4);
  EXPECT_EQ(spacing, 1) << "of the fourth dim";
  const int16_t dims[8] = {4, 5, 4, 3, 2, 1, 1, 1};
  EXPECT_EQ(std::memcmp(&bytes[40], dims, sizeof(dims)), 0);
  // The header of a file in the other byte order is kept as well: read, and its numbers are the same.
  auto header = ReadArrayHeader(path, {});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->nifti, bytes.substr(0, 348));
  options.nifti = "short";
  EXPECT_THAT(std::string(ArrayWriter::Create(path, "nifti", CellType::kUInt8, {2}, options).status().message()),
              HasSubstr("348"));
}

TEST(ArrayWriterTest, ANiftiHeaderOfEitherByteOrderIsKept) {
  const std::string folder = TestPath("made");
  ASSERT_EQ(std::system(absl::StrCat("rm -rf ", folder, " && mkdir ", folder,
                                     " && /usr/bin/python3 worker/data/make_array_files.py ", folder)
                            .c_str()),
            0);
  for (const char* name : {"int16_le.nii", "int16_be.nii"}) {
    auto header = ReadArrayHeader(folder + "/" + name, {});
    ASSERT_TRUE(header.ok()) << header.status();
    ArrayWriterOptions options;
    options.nifti = header->nifti;
    const std::string path = TestPath("again.nii");
    auto writer = ArrayWriter::Create(path, "nifti", CellType::kFloat32, {4, 5, 6}, options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Finish().ok() && (*writer)->Publish().ok());
    const std::string bytes = ReadFile(path);
    float numbers[18];
    std::memcpy(numbers, &bytes[256], sizeof(numbers));
    for (int i = 0; i < 18; ++i) EXPECT_EQ(numbers[i], i) << name;
    int16_t codes[2];
    std::memcpy(codes, &bytes[252], sizeof(codes));
    EXPECT_EQ(codes[0], 1);
    EXPECT_EQ(codes[1], 2);
    float spacing[4];
    std::memcpy(spacing, &bytes[76], sizeof(spacing));
    EXPECT_EQ(spacing[0], -1);
    EXPECT_EQ(spacing[2], 2.5);
  }
}

TEST(ArrayWriterTest, AnOldFileStaysUntilTheNewOneIsPublished) {
  const std::string path = TestPath("old.npy");
  WriteFile(path, "old");
  {
    auto writer = ArrayWriter::Create(path, "npy", CellType::kUInt8, {4});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Write(Box({{0, 4}}), "abcd").ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    EXPECT_EQ(ReadFile(path), "old");
  }
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_FALSE(Exists(path + ".tmp")) << "the creator that goes removes it";
}

TEST(ArrayWriterTest, NamesWhatIsWrong) {
  const std::string path = TestPath("wrong");
  const auto error = [&](const std::string& format, CellType type, const std::vector<int64_t>& shape) {
    return std::string(ArrayWriter::Create(path, format, type, shape).status().message());
  };
  EXPECT_THAT(error("idx", CellType::kUInt8, {4}), HasSubstr("right would be npy, nifti or hdf5"));
  EXPECT_THAT(error("nifti", CellType::kFloat16, {4}), HasSubstr("NIfTI-1 has no float16"));
  EXPECT_THAT(error("nifti", CellType::kUInt8, {40000, 2}), HasSubstr("1 to 32767"));
  EXPECT_THAT(error("nifti", CellType::kUInt8, {}), HasSubstr("1 to 7 dims"));
  EXPECT_THAT(error("npy", CellType::kUInt8, {-1}), HasSubstr("negative"));
  EXPECT_THAT(error("npy", CellType::kFloat64, {int64_t{1} << 40, int64_t{1} << 40}),
              HasSubstr("more bytes than any file"));
  EXPECT_EQ(ArrayWriter::Create(TestPath("no") + "/folder.npy", "npy", CellType::kUInt8, {4}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ArrayWriter::Open(path, "npy", CellType::kUInt8, {4}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Exists(path + ".tmp"));
  auto writer = ArrayWriter::Create(path, "npy", CellType::kUInt8, {4});
  ASSERT_TRUE(writer.ok());
  EXPECT_THAT(std::string(ArrayWriter::Open(path, "npy", CellType::kUInt8, {5}).status().message()),
              HasSubstr("is there for 4 uint8, this rank writes 5 uint8"));
  EXPECT_EQ((*writer)->Write(Box({{2, 5}}), "abc").code(), absl::StatusCode::kInvalidArgument);
}

TEST(ArrayWriterTest, AFullDiskIsAnErrorOfCreateAndLeavesNothing) {
  for (const char* format : {"npy", "nifti", "hdf5"}) {
    const std::string path = TestPath(absl::StrCat("full.", format));
    const pid_t child = fork();
    if (child == 0) {
      // A limit on files' sizes stands for a full disk.
      signal(SIGXFSZ, SIG_IGN);
      const struct rlimit limit = {100'000, 100'000};
      setrlimit(RLIMIT_FSIZE, &limit);
      const absl::Status status = ArrayWriter::Create(path, format, CellType::kFloat64, {1000, 1000}).status();
      _exit(!status.ok() && !Exists(path) && !Exists(path + ".tmp") ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << format;
  }
}

TEST(ArrayWriterTest, ADiskThatIsTooSmallIsAnErrorOfCreate) {
  const std::string folder = TestPath("disk");
  mkdir(folder.c_str(), 0700);
  if (geteuid() != 0 || mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here: " << strerror(errno);
  }
  for (const char* format : {"npy", "nifti", "hdf5"}) {
    const std::string path = absl::StrCat(folder, "/full.", format);
    const absl::Status status = ArrayWriter::Create(path, format, CellType::kFloat32, {1000, 1000}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    EXPECT_FALSE(Exists(path) || Exists(path + ".tmp"));
  }
  umount2(folder.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace adjoin
