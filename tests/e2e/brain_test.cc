// The brain volume of examples/brain, all the way that its README goes: data made from Debian's package, the U-Net
// trained on random blocks of the left half over four ranks of two real daemons, the whole volume labelled, and Dice
// per class on the right half: measured by Adjoin, and again by NumPy from the volume that was written, in its place in
// space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::StartsWith;

constexpr size_t kClasses = 4;
// The result of train_pytorch.py, the same training in serial PyTorch, on the right half: the mean of three seeds, and
// how far they are apart. Blocks and weights are drawn otherwise here, so this is one more seed.
constexpr double kSerialDice = 0.781;
constexpr double kSerialSpread = 0.099;
constexpr double kLeastDice = kSerialDice - kSerialSpread;

absl::StatusOr<std::string> RunPython(const std::string& script, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/python3", Runfile(absl::StrCat("examples/brain/", script))});
  ADJOIN_ASSIGN_OR_RETURN(const auto python, ChildProgram::Start(arguments, {}, testing::TempDir() + "/" + script));
  ADJOIN_ASSIGN_OR_RETURN(const int code, python->Wait(Deadline::After(absl::Seconds(120))));
  if (code != 0) return absl::InternalError(absl::StrCat(script, ": ", python->Errors()));
  return python->Output();
}

absl::Status RunExample(LocalCluster& cluster, const std::string& name) {
  const std::string text = ReadFile(Runfile(absl::StrCat("examples/brain/", name, ".textproto")));
  ADJOIN_ASSIGN_OR_RETURN(const std::string job, cluster.Submit(text));
  ADJOIN_ASSIGN_OR_RETURN(const JobSummary end, cluster.WaitFor(job, Deadline::After(absl::Minutes(12))));
  if (end.state() != SUCCEEDED) return absl::InternalError(absl::StrCat(name, ": ", end.reason()));
  return absl::OkStatus();
}

struct Dice {
  std::vector<double> per_class;
  double mean = 0;
};

absl::StatusOr<Dice> EvaluatedDice(const std::string& metrics) {
  std::ifstream in(metrics);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    if (entry["type"] != "evaluation") continue;
    return Dice{entry.at("dice_per_class").get<std::vector<double>>(), entry.at("dice").get<double>()};
  }
  return absl::NotFoundError(absl::StrCat("no evaluation in ", metrics));
}

// Parses the output of dice.py: a number and a name per line, the mean last.
Dice PrintedDice(const std::string& text) {
  Dice dice;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) dice.per_class.push_back(std::stod(line));
  if (dice.per_class.empty()) return dice;
  dice.mean = dice.per_class.back();
  dice.per_class.pop_back();
  return dice;
}

TEST(Brain, TheHeldOutHalfIsLabelledAsWellAsSerialTrainingDoes) {
  auto cluster = LocalCluster::Start(2, 2);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string data = (*cluster)->data_root() + "/brain";
  const auto made = RunPython("make_data.py", {data});
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* name : {"brain-train", "brain-predict", "brain-evaluate"}) {
    const absl::Status status = RunExample(**cluster, name);
    ASSERT_TRUE(status.ok()) << status;
  }
  const std::string output = (*cluster)->output_root();
  const auto evaluated = EvaluatedDice(output + "/brain-evaluate/metrics.jsonl");
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  std::cout << "Dice " << testing::PrintToString(evaluated->per_class) << ", mean " << evaluated->mean << std::endl;
  ASSERT_EQ(evaluated->per_class.size(), kClasses);
  EXPECT_GE(evaluated->mean, kLeastDice);

  // dice.py refuses volumes that do not lie in the same place.
  const std::string predicted = output + "/brain-predict/head-0.nii";
  const auto printed = RunPython("dice.py", {predicted, data + "/held-out-labels.nii.gz"});
  ASSERT_TRUE(printed.ok()) << printed.status();
  const Dice counted = PrintedDice(*printed);
  ASSERT_EQ(counted.per_class.size(), kClasses);
  for (size_t i = 0; i < kClasses; ++i)
    EXPECT_NEAR(evaluated->per_class[i], counted.per_class[i], 1e-12) << "class " << i;
  EXPECT_NEAR(evaluated->mean, counted.mean, 1e-12);

  const std::string picture = testing::TempDir() + "/slices.png";
  const auto drawn = RunPython("slices.py", {data + "/t1.nii.gz", data + "/labels.nii.gz", predicted, picture});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_THAT(ReadFile(picture), StartsWith("\x89PNG\r\n"));
  EXPECT_EQ((*cluster)->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
