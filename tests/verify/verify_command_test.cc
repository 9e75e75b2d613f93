// The command itself: it passes what is right, names what is wrong, and says what is wrong with its input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ended {
  int code = -1;
  std::string out, err;
};

Ended Adjoin(std::vector<std::string> arguments) {
  static int number = 0;
  arguments.insert(arguments.begin(), Runfile("cli/adjoin"));
  auto child = ChildProgram::Start(arguments, {}, absl::StrCat(std::getenv("TEST_TMPDIR"), "/adjoin-", ++number));
  if (!child.ok()) return {-1, "", std::string(child.status().message())};
  const auto code = (*child)->Wait(Deadline::After(absl::Seconds(120)));
  return {code.value_or(-1), (*child)->Output(), (*child)->Errors()};
}

std::string Mnist(const std::string& job) { return Runfile(absl::StrCat("examples/mnist/", job, ".textproto")); }

// `file`: of a job.
Ended Faulty(const std::string& fault, const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"verify", file, "--verify-binary",
                                        Runfile(absl::StrCat("tests/verify/adjoin-verify-", fault))};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Adjoin(arguments);
}

TEST(VerifyCommandTest, TheExamplesEqualSerialOnAnyNumberOfRanks) {
  for (const char* job : {"lenet5-serial", "lenet5-spatial", "lenet5-sync-sgd", "lenet5-hybrid", "lenet5-two-stage"}) {
    const Ended verify = Adjoin({"verify", Mnist(job), "--ranks", "1,2,4"});
    EXPECT_EQ(verify.code, 0) << job << "\n" << verify.out << verify.err;
    EXPECT_THAT(verify.out, AllOf(StartsWith(job), HasSubstr("\n1 rank"), HasSubstr("\n2 ranks"),
                                  HasSubstr("\n4 ranks"), HasSubstr("conv2"), HasSubstr("adjoint test: holds")));
  }
}

TEST(VerifyCommandTest, OtherNumbersOfRanksStepsAndSeeds) {
  const Ended verify =
      Adjoin({"verify", "--ranks=3,8", "--steps", "3", "--seed", "5", "--batch", "3", Mnist("lenet5-spatial")});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, AllOf(HasSubstr("3 steps on 3 samples"), HasSubstr("seed 5"), HasSubstr("8 ranks")));
}

TEST(VerifyCommandTest, ChoosesLayoutsForEachNumberOfRanks) {
  const Ended verify = Adjoin({"verify", "--auto", "--ranks", "2,4", "--pin", "conv1=1x1x2x1", Mnist("lenet5-serial")});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, AllOf(HasSubstr("\n2 ranks\n"), HasSubstr("\n4 ranks\n"), Not(HasSubstr("re-cut")),
                                HasSubstr("adjoint test: holds")));
  const Ended unknown = Adjoin({"verify", "--auto", "--pin", "conv9=1x1x1x1", Mnist("lenet5-serial")});
  EXPECT_EQ(unknown.code, 1) << unknown.out;
  EXPECT_THAT(unknown.err, HasSubstr("there is no layer \"conv9\""));
  // What is wrong with one number of ranks hides nothing of the others.
  const Ended some = Adjoin({"verify", "--auto", "--ranks", "2,3,4", "--pin", "conv1=1x1x4x1", Mnist("lenet5-serial")});
  EXPECT_EQ(some.code, 1) << some.out;
  EXPECT_THAT(some.out, AllOf(HasSubstr("\n4 ranks\n"), Not(HasSubstr("\n2 ranks\n"))));
  EXPECT_THAT(some.err, AllOf(HasSubstr("error: on 2 ranks: "), HasSubstr("error: on 3 ranks: ")));
  const Ended alone = Adjoin({"verify", "--memory", "1GiB", Mnist("lenet5-serial")});
  EXPECT_EQ(alone.code, 1) << alone.out;
  EXPECT_THAT(alone.err, HasSubstr("--memory is for layouts that are chosen: add --auto"));
}

TEST(VerifyCommandTest, ChangesTheJobFirst) {
  const std::string job = Mnist("lenet5-spatial");
  const Ended verify = Adjoin({"verify", job, "--unset", "evaluate", "--set", "layer[conv1].conv.out_channels=3"});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_NE(verify.out, Adjoin({"verify", job}).out) << "another model";
  const Ended refused = Adjoin({"verify", job, "--unset", "trian"});
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("--unset trian: there is no field 'trian'"));
}

// A bias before a norm of each channel has no effect: its gradient is rounding, which Adam divides by rounding.
// LibTorch's own backward of hardsigmoid multiplies with 1/6 in float32. Neither is a deviation.
TEST(VerifyCommandTest, RoundingThatAnOptimizerMagnifiesIsNoDeviation) {
  const std::string file = absl::StrCat(std::getenv("TEST_TMPDIR"), "/norm.textproto");
  std::ofstream(file) << R"job(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "conv" input: "image" x: "grid" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm" norm { kind: "instance" } }
layer { name: "act" activation { fn: "hardsigmoid" } }
layer { name: "last" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "kl_div" input: "last" target: "wanted" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 9, 8] }
  field { name: "wanted" idx { path: "w" } shape: [2, 9, 8] } }
train { dataset: "data" batch: 2 steps: 1 optimizer { adam { lr: 0.01 } } }
)job";
  for (int seed = 1; seed <= 5; ++seed) {
    const Ended verify = Adjoin({"verify", file, "--seed", absl::StrCat(seed), "--ranks", "1,2,4", "--steps", "3"});
    EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
    EXPECT_EQ(verify.err, "") << "LibTorch warns of nothing";
  }
}

TEST(VerifyCommandTest, FindsAHaloThatIsOffByOne) {
  const std::string file = absl::StrCat(std::getenv("TEST_TMPDIR"), "/strided.textproto");
  std::ofstream(file) << R"job(kind: TRAIN ranks: 4
layout { name: "grid" partition: [1, 1, 2, 2] }
layer { name: "first" input: "image" x: "grid" conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } } }
layer { name: "strided" conv { out_channels: 3 window { kernel: 3 stride: 2 pad_lo: 1 } } }
layer { name: "last" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "mse" input: "last" target: "wanted" }
dataset { name: "data" field { name: "image" idx { path: "i" } shape: [2, 9, 8] }
  field { name: "wanted" idx { path: "w" } shape: [2, 5, 4] } }
train { dataset: "data" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
)job";
  const Ended verify = Faulty("halo", file);
  EXPECT_EQ(verify.code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out,
              AllOf(HasSubstr("DEVIATES: layer strided is the first: output on rank"), HasSubstr("global position (")));
}

TEST(VerifyCommandTest, FindsAMissingSumOfProducts) {
  const Ended verify = Faulty("sum", Mnist("lenet5-spatial"));
  EXPECT_EQ(verify.code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("DEVIATES: layer fc2 is the first: output on rank"));
}

TEST(VerifyCommandTest, FindsAMissingSumOfGradients) {
  const Ended verify = Faulty("sync", Mnist("lenet5-hybrid"));
  EXPECT_EQ(verify.code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("DEVIATES: layer conv1 is the first: gradient of conv1."));
}

TEST(VerifyCommandTest, FindsAWrongBias) {
  const Ended verify = Faulty("bias", Mnist("lenet5-sync-sgd"));
  EXPECT_EQ(verify.code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("DEVIATES: layer conv2 is the first: output on rank"));
}

TEST(VerifyCommandTest, FindsAWrongGradientOfAnInput) {
  const Ended verify = Faulty("x", Mnist("lenet5-hybrid"));
  EXPECT_EQ(verify.code, 1) << verify.out << verify.err;
  EXPECT_THAT(verify.out,
              HasSubstr("DEVIATES: layer conv2 is the first: gradient of its input, the output of \"pool1\" on rank"));
}

TEST(VerifyCommandTest, OnOneRankNothingIsLeftOut) {
  const Ended verify = Faulty("sync", Mnist("lenet5-hybrid"), {"--ranks", "1"});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
}

TEST(VerifyCommandTest, TheSpecGivesDefaults) {
  const std::string file = absl::StrCat(std::getenv("TEST_TMPDIR"), "/job.textproto");
  std::ofstream(file) << ReadFile(Mnist("lenet5-hybrid")) << "verify { ranks: [2] steps: 2 tolerance: 1e-9 }\n";
  const Ended verify = Adjoin({"verify", file});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, AllOf(HasSubstr("2 steps"), HasSubstr("above 1.0e-09"), HasSubstr("\n2 ranks"),
                                Not(HasSubstr("\n4 ranks"))));
  const Ended flags = Adjoin({"verify", file, "--ranks", "1", "--steps", "1"});
  EXPECT_THAT(flags.out, AllOf(HasSubstr("1 step "), HasSubstr("\n1 rank"), Not(HasSubstr("\n2 ranks"))));
}

TEST(VerifyCommandTest, PrintsThePlannersWarnings) {
  const std::string file = absl::StrCat(std::getenv("TEST_TMPDIR"), "/idle.textproto");
  std::ofstream(file) << R"(name: "idle" kind: TRAIN ranks: 3
layout { name: "batch" partition: [2, 1] }
layer { name: "fc" input: "x" x: "batch" linear { out_features: 2 } }
loss { kind: "mse" input: "fc" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [3] }
  field { name: "t" idx { path: "t" } shape: [2] } }
train { dataset: "data" batch: 4 steps: 1 optimizer { sgd { lr: 0.1 } } }
)";
  const Ended verify = Adjoin({"verify", file});
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
  EXPECT_THAT(verify.out, HasSubstr("\nwarning: rank 2 has no part of any layer's result"));
}

TEST(VerifyCommandTest, BadInputIsOneError) {
  const std::string folder = std::getenv("TEST_TMPDIR");
  const std::string file = folder + "/bad.textproto", job = ReadFile(Mnist("lenet5-spatial"));
  std::ofstream(file) << "sead: 1\n" << job;
  Ended bad = Adjoin({"verify", file});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, StartsWith(absl::StrCat("adjoin verify: error: ", file, ":1:")));
  bad = Adjoin({"verify", folder + "/none"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("none: No such file"));
  bad = Adjoin({"verify", Mnist("lenet5-spatial"), "--ranks", "0"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("cannot verify on 0 ranks"));
  bad = Adjoin({"verify", Mnist("lenet5-spatial"), "--tolerance", "-1"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("tolerance is -1"));
  bad = Adjoin({"verify", Mnist("lenet5-spatial"), "--steps", "0"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("steps is 0"));
  EXPECT_EQ(Adjoin({"verify"}).code, 2);
  EXPECT_EQ(Adjoin({"verify", Mnist("lenet5-spatial"), "--rank", "2", "--frob"}).code, 2);
  bad = Adjoin({"verify", "--verify-binary", folder + "/none", "job"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("--verify-binary"));
  EXPECT_THAT(Adjoin({"verify", "--help"}).out, HasSubstr("--tolerance"));
}

}  // namespace
}  // namespace adjoin
