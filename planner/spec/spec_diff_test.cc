#include "planner/spec/spec_diff.h"

#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "planner/spec/spec_defaults.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "planner/spec/spec_setter.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Changes = std::vector<std::pair<std::string, std::string>>;

JobSpec Spec(const std::string& text) {
  const auto parsed = ParseSpec(text, "job.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

JobSpec LeNet(const std::vector<std::pair<const absl::string_view, absl::string_view>>& replaced = {}) {
  return Spec(absl::StrReplaceAll(kLeNet, replaced));
}

// "train.batch: 64 | 32"; a value that is not written has brackets, and one that is absent is a -.
std::vector<std::string> Texts(const std::vector<SpecDifference>& differences) {
  const auto text = [](const std::optional<std::string>& value, bool written) {
    return !value.has_value() ? "-" : written ? *value : absl::StrCat("(", *value, ")");
  };
  std::vector<std::string> texts;
  for (const SpecDifference& each : differences) {
    texts.push_back(absl::StrCat(each.path, ": ", text(each.a, each.a_written), " | ", text(each.b, each.b_written)));
  }
  return texts;
}

TEST(SpecDiffTest, EqualJobsDifferInNothing) {
  EXPECT_THAT(DifferencesOf(LeNet(), LeNet()), IsEmpty());
  EXPECT_THAT(DifferencesOf(JobSpec(), JobSpec()), IsEmpty());
}

TEST(SpecDiffTest, FieldsGoByTheirPathsAndElementsByTheirNames) {
  EXPECT_THAT(Texts(DifferencesOf(LeNet(), LeNet({{"batch: 64", "batch: 32"},
                                                  {"out_channels: 16", "out_channels: 8"},
                                                  {"drop_last: true", ""},
                                                  {"[1,2,1,1]", "[1,1,2,1]"},
                                                  {"layer { name: \"relu4\" activation { fn: \"relu\" } }\n", ""},
                                                  {"sgd { lr: 0.01 momentum: 0.9 }", "adam { lr: 0.001 }"}}))),
              ElementsAre("layout[chan].partition: [1,2,1,1] | [1,1,2,1]", "layer[conv2].conv.out_channels: 16 | 8",
                          "layer[relu4]: { name: \"relu4\" activation { fn: \"relu\" } } | -", "train.batch: 64 | 32",
                          "train.drop_last: true | (false)", "train.optimizer.sgd: { lr: 0.01 momentum: 0.9 } | -",
                          "train.optimizer.adam: - | { lr: 0.001 }"));
}

TEST(SpecDiffTest, AnAbsentFieldEqualsItsDefault) {
  const JobSpec absent = LeNet({{"sgd { lr: 0.01 momentum: 0.9 }", "adam { lr: 0.01 }"}});
  const JobSpec written = LeNet({
      {"sgd { lr: 0.01 momentum: 0.9 }", "adam { lr: 0.01 beta1: 0.9 beta2: 0.999 eps: 1e-8 }"},
      {"kernel: 5 pad_lo: 2", "kernel: [5,5] pad_lo: 2 pad_hi: [2,2] stride: 1 boundary: \"zeros\""},
      {"out_features: 84", "out_features: 84 bias: true"},
      {"kernel: 2 stride: 2", "kernel: 2"},
      {"layer { name: \"relu3\"", "layer { home: REPLICATED name: \"relu3\""},
      {"layer { name: \"relu1\"", "layer { name: \"relu1\" input: \"conv1\""},
      {"dtype: \"int64\"", "dtype: \"int64\" scale: 1 mean: [0, 0]"},
      {"flatten { arg: 1 }", "flatten {}"},
      {"rank: [0,1]", "rank: [0,1] "},
      {"{ name: \"w2x2\" partition: [2,2] }", "{ name: \"w2x2\" partition: [2,2] rank: [0,1,2,3] }"},
      {"metric: \"accuracy\"", "metric: \"accuracy\" batch: 64 range: 1"},
      {"output_dir:", "precision { compute: \"float32\" } restart {} rank_weight: [2,2,2,2] output_dir:"},
      {"loss { kind: \"cross_entropy\"", "loss { kind: \"cross_entropy\" reduction: \"mean\" weight: 1"},
  });
  EXPECT_THAT(Texts(DifferencesOf(absent, written)), IsEmpty());
  EXPECT_THAT(Texts(DifferencesOf(written, absent)), IsEmpty());
}

TEST(SpecDiffTest, ADefaultIsShownBesideAnotherValue) {
  EXPECT_THAT(Texts(DifferencesOf(LeNet(), LeNet({{"output_dir:", "precision { params: \"float64\" } output_dir:"},
                                                  {"out_features: 10", "out_features: 10 bias: false"},
                                                  {"batch: 64", "batch: 64 clip_norm: 1"}}))),
              ElementsAre("layer[fc3].linear.bias: (true) | false", "train.clip_norm: - | 1",
                          "precision.params: (float32) | float64"));
}

TEST(SpecDiffTest, DefaultsThatFollowFromAnotherDifferenceAreLeftOut) {
  // evaluate.batch follows train.batch, and the data's type the number type of the job.
  EXPECT_THAT(Texts(DifferencesOf(LeNet(), LeNet({{"batch: 64", "batch: 32"}}))), ElementsAre("train.batch: 64 | 32"));
}

TEST(SpecDiffTest, ListsWithoutNamesGoByNumberAndLayersHaveAnOrder) {
  EXPECT_THAT(Texts(DifferencesOf(Spec("loss { kind: \"mse\" } loss { kind: \"l1\" }"), Spec("loss { kind: \"l1\" }"))),
              ElementsAre("loss[0].kind: mse | l1", "loss[1]: { kind: \"l1\" } | -"));
  EXPECT_THAT(Texts(DifferencesOf(Spec("layer { name: \"a\" input: \"x\" } layer { name: \"b\" input: \"x\" }"),
                                  Spec("layer { name: \"b\" input: \"x\" } layer { name: \"a\" input: \"x\" }"))),
              ElementsAre("layer: [a,b] | [b,a]"));
  // An input that is not written is the layer before: so moving a layer changes it.
  EXPECT_THAT(
      Texts(DifferencesOf(Spec("layer { name: \"a\" } layer { name: \"b\" } layer { name: \"c\" input: \"a\" }"),
                          Spec("layer { name: \"a\" } layer { name: \"b\" } layer { name: \"c\" }"))),
      ElementsAre("layer[c].input: [a] | ([b])"));
}

TEST(SpecDiffTest, MapsGoByTheirKeys) {
  EXPECT_THAT(
      Texts(DifferencesOf(
          Spec("resources { node_label { key: \"zone\" value: \"a\" } node_label { key: \"k\" value: \"v\" } }"),
          Spec("resources { node_label { key: \"zone\" value: \"b\" } }"))),
      ElementsAre("resources.node_label[k]: v | -", "resources.node_label[zone]: a | b"));
}

// What --set takes: making the differences in one job yields the other.
TEST(SpecDiffTest, PathsAndValuesAreThoseOfSet) {
  JobSpec a = LeNet();
  const JobSpec b = LeNet({{"seed: 1", "seed: 7"},
                           {"batch: 64", "batch: 32 clip_norm: 0.125"},
                           {"kernel: 5 pad_lo: 2", "kernel: [5,7] pad_lo: 2 boundary: \"reflect\""},
                           {"momentum: 0.9", "nesterov: true momentum: 0.30000000000000004"},
                           {"home: OWNER conv { out_channels: 16", "conv { out_channels: 16"},
                           {"metric: \"accuracy\"", "metric: [\"accuracy\", \"top5\"]"},
                           {"output_dir: \"lenet5-spatial\"", "output_dir: \"a b\""}});
  const std::vector<SpecDifference> differences = DifferencesOf(a, b);
  EXPECT_EQ(differences.size(), 10);
  for (const SpecDifference& each : differences) {
    const absl::Status changed =
        each.b.has_value() ? SetSpecField(absl::StrCat(each.path, "=", *each.b), &a) : RemoveSpecField(each.path, &a);
    EXPECT_TRUE(changed.ok()) << changed;
  }
  EXPECT_THAT(Texts(DifferencesOf(a, b)), IsEmpty());
}

// The comments of job.proto, as "Conv.groups" -> "1", where they name one value as the default.
std::map<std::string, std::string> DefaultsOfComments() {
  std::ifstream in("proto/job.proto");
  EXPECT_TRUE(in.good());
  const std::regex message("message (\\w+) \\{"), field("(?:optional |repeated )?[\\w.<>, ]+ (\\w+) = \\d+.*");
  const std::regex absent("Absent(?: \\(0\\))?: (\"[\\w]*\"|true|false|-?\\d+(?:\\.\\d+)?(?:e-?\\d+)?)(?:[.;].*)?");
  std::map<std::string, std::string> defaults;
  std::string owner, comment;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(' ');
    const std::string text = begin == std::string::npos ? "" : line.substr(begin);
    std::smatch match;
    if (text.rfind("//", 0) == 0) {
      absl::StrAppend(&comment, comment.empty() ? "" : " ", text.substr(text.size() > 3 ? 3 : 2));
      continue;
    }
    if (std::regex_search(text, match, message)) owner = match[1];
    if (std::regex_match(text, match, field)) {
      const std::string name = absl::StrCat(owner, ".", match[1].str());
      const size_t at = comment.find("Absent");
      const std::string said = at == std::string::npos ? "" : comment.substr(at);
      if (std::regex_match(said, match, absent)) defaults[name] = match[1];
    }
    comment.clear();
  }
  return defaults;
}

TEST(SpecDefaultsTest, AreThoseThatTheCommentsTell) {
  // Other fields decide on these, or 0 and false are what an absent field is anyway.
  const std::vector<std::string> elsewhere = {"Norm.eps", "Init.gain", "Loss.eps", "Dropout.p", "Adagrad.initial"};
  const std::map<std::string, std::string> told = DefaultsOfComments();
  EXPECT_GT(told.size(), 30) << "the comments are read";
  std::map<std::string, std::string> known;
  for (const SpecDefault& each : SpecDefaults()) {
    const auto* type = JobSpec::descriptor()->file()->FindMessageTypeByName(each.message);
    ASSERT_NE(type, nullptr) << each.message;
    EXPECT_NE(type->FindFieldByName(each.field), nullptr) << each.message << "." << each.field;
    known[absl::StrCat(each.message, ".", each.field)] = each.value;
  }
  for (const auto& [name, value] : told) {
    if (std::find(elsewhere.begin(), elsewhere.end(), name) != elsewhere.end()) continue;
    ASSERT_EQ(known.count(name), 1) << name << " is " << value << " where it is absent";
    EXPECT_EQ(known[name], value) << name;
  }
}

TEST(SpecDefaultsTest, CanBeReadAsValues) {
  for (const SpecDefault& each : SpecDefaults()) {
    const auto* type = JobSpec::descriptor()->file()->FindMessageTypeByName(each.message);
    const auto* field = type->FindFieldByName(each.field);
    std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFieldValueFromString(each.value, field, message.get()))
        << each.message << "." << each.field;
  }
}

}  // namespace
}  // namespace adjoin
