// `adjoin data info` on files that NumPy and h5py wrote, as a user runs it.
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

struct Shown {
  int code;
  std::string out, err;
};

std::string Text(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

const std::string& Folder() {
  static const std::string& folder = *[] {
    auto* made = new std::string(testing::TempDir() + "/info");
    const std::string command =
        absl::StrCat("rm -rf ", *made, " && mkdir ", *made, " && /usr/bin/python3 cli/make_data_info_files.py ", *made);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return made;
  }();
  return folder;
}

Shown Info(const std::string& arguments) {
  const std::string command =
      absl::StrCat("a=$PWD/cli/adjoin && cd ", Folder(), " && $a data info ", arguments, " > out 2> err");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), Text(Folder() + "/out"), Text(Folder() + "/err")};
}

TEST(DataInfoTest, CountsEachLabel) {
  const Shown shown = Info("labels.npy");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out,
            "file    labels.npy\n"
            "format  npy\n"
            "shape   2x10x10\n"
            "type    uint8\n"
            "min     0\n"
            "max     3\n"
            "mean    1.6\n"
            "NaN     none\n"
            "\n"
            "VALUES  CELLS  SHARE\n"
            "0       80     40.00 %  ################################\n"
            "1       20     10.00 %  ########\n"
            "2       0      0.00 %\n"
            "3       100    50.00 %  ########################################\n");
}

TEST(DataInfoTest, CountsNansWithThePositionOfTheFirst) {
  const Shown shown = Info("values.npy.gz");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("NaN       1 of 64 cells, the first at [1, 2]\n"));
  EXPECT_THAT(shown.out, HasSubstr("infinite  1 of 64 cells, the first at [3, 3]\n"));
  EXPECT_THAT(shown.out, HasSubstr("max       31.5\n"));
  EXPECT_THAT(shown.out, HasSubstr("29.53125 to 31.5"));
}

TEST(DataInfoTest, DataSetsOfAnHdf5FileAreListedOrShown) {
  Shown shown = Info("set.h5");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(ContainsRegex("train/images +3x4 +float32\n"), ContainsRegex("name +- +holds text")));
  shown = Info("set.h5 --object train/images");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("shape   3x4\n"), ContainsRegex("\n1 +12 +100.00 %")));
}

TEST(DataInfoTest, APipeIsRefusedWithoutWaitingForItsWriter) {
  ASSERT_EQ(std::system(absl::StrCat("mkfifo ", Folder(), "/pipe").c_str()), 0);
  for (const char* arguments : {"pipe", "pipe --format hdf5", "pipe --object a"}) {
    const Shown shown = Info(arguments);
    EXPECT_EQ(shown.code, 1) << arguments;
    EXPECT_EQ(shown.err, "adjoin: error: pipe: not a regular file\n") << arguments;
  }
}

TEST(DataInfoTest, ErrorsAreOneLineAndExitCode1) {
  const auto error = [](const std::string& arguments) {
    const Shown shown = Info(arguments);
    EXPECT_EQ(shown.code, 1);
    EXPECT_EQ(shown.out, "");
    EXPECT_EQ(shown.err.find('\n'), shown.err.size() - 1) << shown.err;
    return shown.err;
  };
  EXPECT_THAT(error("none.npy"), HasSubstr("adjoin: error: none.npy: No such file"));
  EXPECT_THAT(error("labels.npy --format tiff"), HasSubstr("format 'tiff' is unknown"));
  EXPECT_THAT(error("labels.npy --format nifti"), HasSubstr("not a NIfTI-1 file"));
  EXPECT_THAT(error("labels.npy --object a"), HasSubstr("--object is for HDF5 files"));
  EXPECT_THAT(error("set.h5 --object b"), HasSubstr("data set 'b' cannot be opened"));
  EXPECT_THAT(error("out --format hdf5"), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(error("."), HasSubstr("not a regular file"));
  EXPECT_EQ(Info("").code, 2);
}

}  // namespace
}  // namespace adjoin
