#include "base/security/make_certs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MakeCertsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  // Makes an empty file, and its folders.
  std::string Make(const std::string& name) {
    const std::string path = absl::StrCat(folder_, "/", name);
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "";
    return path;
  }

  std::string folder_;
};

TEST_F(MakeCertsTest, IsTheOneThatWasInstalledWithTheProgram) {
  const std::string program = Make("usr/bin/adjoin");
  EXPECT_EQ(MakeCertsProgramOf(program), "tools/make-certs") << "there is none";
  const std::string installed = Make("usr/share/adjoin/make-certs");
  EXPECT_EQ(MakeCertsProgramOf(program), installed);
  // A package that is upgraded replaces the file of a daemon that runs.
  EXPECT_EQ(MakeCertsProgramOf(program + " (deleted)"), installed);
}

TEST_F(MakeCertsTest, IsTheOneBesideTheProgramWhereAllAreInOneFolder) {
  const std::string program = Make("adjoin/adjoin-coordinator"), beside = Make("adjoin/make-certs");
  Make("share/adjoin/make-certs");
  EXPECT_EQ(MakeCertsProgramOf(program), beside);
}

TEST_F(MakeCertsTest, IsTheCheckoutsWhereNothingIsInstalled) {
  fs::create_directories(folder_ + "/bin/make-certs");
  EXPECT_EQ(MakeCertsProgramOf(folder_ + "/bin/adjoin"), "tools/make-certs") << "a folder is no program";
  EXPECT_EQ(MakeCertsProgramOf(""), "tools/make-certs");
  EXPECT_EQ(MakeCertsProgram(), "tools/make-certs") << "of this test";
}

TEST_F(MakeCertsTest, ItCallsItselfAsItWasCalled) {
  const std::string installed = Make("share/adjoin/make-certs");
  fs::copy_file(absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs"), installed,
                fs::copy_options::overwrite_existing);
  ASSERT_NE(system(absl::StrCat("bash ", installed, " --wrong > ", folder_, "/out 2> ", folder_, "/err").c_str()), 0);
  std::ifstream stream(folder_ + "/err");
  const std::string error((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  EXPECT_THAT(error, AllOf(StartsWith(installed + ": unknown argument"),
                           HasSubstr(absl::StrCat("right is: ", installed, " DIR"))));
}

}  // namespace
}  // namespace adjoin
