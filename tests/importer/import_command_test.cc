// `adjoin import` itself: the files that it writes, and those that it leaves alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/deadline.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kTemplate[] = R"(name: "mine" kind: TRAIN ranks: 1
dataset { name: "train"
  field { name: "image" idx { path: "train_[0].idx" } shape: [1, 28, 28] }
  field { name: "label" idx { path: "labels.idx" } dtype: "int64" } }
loss { kind: "cross_entropy" target: "label" }
train { dataset: "train" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
weights { strict: false }
)";

struct Ended {
  int code = -1;
  std::string out, err;
};

class ImportCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", test->name());
    std::filesystem::create_directories(folder_);
  }
  std::string File(const std::string& name) const { return absl::StrCat(folder_, "/", name); }
  static std::string Archive(const std::string& name) { return Runfile(absl::StrCat("importer/testdata/", name)); }
  Ended Adjoin(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Runfile("cli/adjoin"));
    auto child = ChildProgram::Start(arguments, {}, absl::StrCat(std::getenv("TEST_TMPDIR"), "/adjoin-", ++number_));
    if (!child.ok()) return {-1, "", std::string(child.status().message())};
    const auto code = (*child)->Wait(Deadline::After(absl::Seconds(120)));
    return {code.value_or(-1), (*child)->Output(), (*child)->Errors()};
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string folder_;
  int number_ = 0;
};

TEST_F(ImportCommandTest, FillsATemplateAndIsVerifiedWithChosenLayouts) {
  std::ofstream(File("template")) << kTemplate;
  const Ended import = Adjoin({"import", Archive("lenet.pt2"), "-o", File("job"), "--weights",
                               File("model.safetensors"), "--template", File("template"), "--input", "image"});
  ASSERT_EQ(import.code, 0) << import.err;
  EXPECT_THAT(import.out + import.err, HasSubstr("11 layers, 8 tensors of weights"));
  EXPECT_THAT(ReadFile(File("job")), AllOf(HasSubstr("train_[0].idx"), HasSubstr("strict: false"),
                                           HasSubstr("init_from: "), HasSubstr("input: \"image\" conv")));
  const Ended plan = Adjoin({"plan", File("job")});
  EXPECT_EQ(plan.code, 0) << plan.err;
  const Ended verify = Adjoin({"verify", "--auto", "--ranks", "2", File("job")});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("no difference above"));
}

TEST_F(ImportCommandTest, WritesOverNothingUnlessItIsTold) {
  std::ofstream(File("job")) << "mine";
  const std::vector<std::string> command = {"import",    Archive("lenet.pt2"), "-o",
                                            File("job"), "--weights",          File("model.safetensors")};
  const Ended refused = Adjoin(command);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(File("job")), HasSubstr("exists; --force writes over it")));
  EXPECT_EQ(ReadFile(File("job")), "mine");
  EXPECT_THAT(Files(), ::testing::ElementsAre("job"));
  std::vector<std::string> forced = command;
  forced.push_back("--force");
  EXPECT_EQ(Adjoin(forced).code, 0);
  EXPECT_THAT(ReadFile(File("job")), StartsWith("# Imported from "));
  const Ended same = Adjoin({"import", Archive("lenet.pt2"), "-o", File("x"), "--weights", File("x")});
  EXPECT_EQ(same.code, 1);
  EXPECT_THAT(same.err, HasSubstr("name the same file"));
}

TEST_F(ImportCommandTest, LeavesNothingWhereItRefuses) {
  const Ended refused =
      Adjoin({"import", Archive("refused.pt2"), "-o", File("job"), "--weights", File("model.safetensors")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("torch.ops.aten.cumsum.default"), HasSubstr("in module part"),
                                 HasSubstr("--outline imports the rest")));
  EXPECT_THAT(Files(), IsEmpty());
  const Ended outline = Adjoin({"import", Archive("refused.pt2"), "--outline"});
  EXPECT_EQ(outline.code, 0) << outline.err;
  EXPECT_THAT(outline.out, AllOf(HasSubstr("# NOT IMPORTED: torch.ops.aten.cumsum.default"), HasSubstr("custom {")));
  EXPECT_EQ(Adjoin({"import", Archive("lenet.pt2"), "--input", "a,a"}).code, 1);
  EXPECT_EQ(Adjoin({"import", Archive("lenet.input.npy")}).code, 1);
  EXPECT_THAT(Adjoin({"import"}).err, HasSubstr("MODEL is missing"));
}

TEST_F(ImportCommandTest, PrintsTheScriptThatThePageShows) {
  const Ended script = Adjoin({"import", "--script"});
  ASSERT_EQ(script.code, 0) << script.err;
  const std::string page = ReadFile(Runfile("docs/import.md"));
  const std::vector<std::string> parts = absl::StrSplit(page, "```");
  ASSERT_GT(parts.size(), 2u);
  ASSERT_THAT(parts[1], StartsWith("python\n"));
  EXPECT_THAT(script.out, HasSubstr(parts[1].substr(7)));
}

}  // namespace
}  // namespace adjoin
