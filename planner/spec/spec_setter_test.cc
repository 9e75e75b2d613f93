#include "planner/spec/spec_setter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JobSpec LeNet() { return ParseSpec(kLeNet, "job.textproto")->spec; }

// Returns the job with one assignment made.
JobSpec With(const std::string& assignment) {
  JobSpec spec = LeNet();
  absl::Status status = SetSpecField(assignment, &spec);
  EXPECT_TRUE(status.ok()) << assignment << ": " << status;
  return spec;
}

std::string Refusal(const std::string& assignment) {
  JobSpec spec = LeNet();
  absl::Status status = SetSpecField(assignment, &spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << assignment;
  EXPECT_EQ(spec.SerializeAsString(), LeNet().SerializeAsString()) << assignment << " left a trace";
  return std::string(status.message());
}

TEST(SpecSetterTest, SetsFieldsOfEveryType) {
  EXPECT_EQ(With("train.batch=32").train().batch(), 32);
  EXPECT_EQ(With("seed=18446744073709551615").seed(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(With("train.optimizer.sgd.lr=1e-3").train().optimizer().sgd().lr(), 1e-3);
  EXPECT_EQ(With("train.drop_last=false").train().drop_last(), false);
  EXPECT_EQ(With("name=a b = c").name(), "a b = c");
  EXPECT_EQ(With("name=\"a\\n\xc3\xa9'").name(), "\"a\\n\xc3\xa9'") << "quotes and backslashes stand for themselves";
  EXPECT_EQ(With("kind=EVALUATE").kind(), EVALUATE);
  EXPECT_EQ(With("dataset[train].limit=100").dataset(0).limit(), 100);
  EXPECT_EQ(With("layer[0].conv.window.pad_lo=-1").layer(0).conv().window().pad_lo(0), -1);
}

TEST(SpecSetterTest, ChoosesFromListsByNumberAndByName) {
  EXPECT_EQ(With("layer[0].conv.out_channels=8").layer(0).conv().out_channels(), 8);
  EXPECT_EQ(With("layer[conv2].conv.out_channels=9").layer(3).conv().out_channels(), 9);
  EXPECT_EQ(With("dataset[test].field[image].scale=2").dataset(1).field(0).scale(), 2);
  EXPECT_THAT(With("layout[grid].partition[1]=4").layout(0).partition(), ElementsAre(1, 4, 2, 2));
  EXPECT_THAT(With("evaluate.metric[0]=loss").evaluate().metric(), ElementsAre("loss"));
  EXPECT_EQ(With("resources.node_label[zone=1]=a").resources().node_label().at("zone=1"), "a");
}

TEST(SpecSetterTest, SetsWholeListsAndGroups) {
  EXPECT_THAT(With("layer[conv1].conv.window.kernel=[3, 5]").layer(0).conv().window().kernel(), ElementsAre(3, 5));
  EXPECT_THAT(With("layer[conv1].conv.window.kernel=7").layer(0).conv().window().kernel(), ElementsAre(7));
  EXPECT_TRUE(With("layer[conv1].conv.window.kernel=[]").layer(0).conv().window().kernel().empty());
  EXPECT_THAT(With("evaluate.metric=[accuracy,loss]").evaluate().metric(), ElementsAre("accuracy", "loss"));
  JobSpec adam = With("train.optimizer={adam { lr: 0.5 }}");
  EXPECT_FALSE(adam.train().optimizer().has_sgd());
  EXPECT_EQ(adam.train().optimizer().adam().lr(), 0.5);
  EXPECT_EQ(With("train.optimizer.adam={lr: 0.5}").train().optimizer().adam().lr(), 0.5);
  EXPECT_EQ(With("restart.max_restarts=3").restart().max_restarts(), 3) << "a group that was not there";
  JobSpec steps = With("train.steps=10");
  EXPECT_EQ(steps.train().steps(), 10);
  EXPECT_FALSE(steps.train().has_epochs());
}

TEST(SpecSetterTest, RefusesPathsThatLeadNowhere) {
  EXPECT_THAT(Refusal("train.bach=32"), AllOf(StartsWith("train.bach: there is no field 'bach'"), HasSubstr("batch")));
  EXPECT_THAT(Refusal("train"), HasSubstr("is not PATH=VALUE"));
  EXPECT_THAT(Refusal("=3"), HasSubstr("is not a path"));
  EXPECT_THAT(Refusal("train..batch=3"), HasSubstr("is not a path"));
  EXPECT_THAT(Refusal("layer[0]conv=3"), HasSubstr("is not a path"));
  EXPECT_THAT(Refusal("layer[0=3"), HasSubstr("is not PATH=VALUE"));
  EXPECT_THAT(Refusal("train.batch.size=3"),
              HasSubstr("train.batch: is a whole number from 0 on (uint32), which has no"));
  EXPECT_THAT(Refusal("layer.conv.out_channels=3"),
              HasSubstr("layer: is a list: say which one, layer[number or name]"));
  EXPECT_THAT(Refusal("layer[13].frozen=true"), HasSubstr("layer[13]: does not exist; there are layer[0] to [12]"));
  EXPECT_THAT(Refusal("layer[conv9].frozen=true"),
              HasSubstr("there is no layer of this name; there are: conv1, relu1"));
  EXPECT_THAT(Refusal("train.schedule[0].steps=3"), HasSubstr("the job has no schedule there"));
  EXPECT_THAT(Refusal("train.batch[0]=3"), HasSubstr("batch is not a list"));
  EXPECT_THAT(Refusal("layout[grid].partition[4]=2"), HasSubstr("partition has 4 values"));
  EXPECT_THAT(Refusal("layer[pool1].conv.out_channels=8"), HasSubstr("the job has pool there, not conv"));
  EXPECT_THAT(Refusal("train.optimizer.adam.lr=1"), HasSubstr("the job has sgd there, not adam"));
  EXPECT_THAT(Refusal("resources.node_label=3"), HasSubstr("resources.node_label[NAME]=VALUE"));
}

TEST(SpecSetterTest, RefusesValuesOfTheWrongType) {
  EXPECT_EQ(Refusal("train.batch=many"),
            "train.batch: 'many' is not a whole number from 0 on (uint32), which belongs there");
  EXPECT_THAT(Refusal("train.batch=-1"), HasSubstr("'-1' is not a whole number from 0 on"));
  EXPECT_THAT(Refusal("train.batch=4294967296"), HasSubstr("'4294967296' is not"));
  EXPECT_THAT(Refusal("train.batch="), HasSubstr("'' is not"));
  EXPECT_THAT(Refusal("train.drop_last=yes"), HasSubstr("'yes' is not true or false"));
  EXPECT_THAT(Refusal("kind=FIT"), HasSubstr("one of KIND_UNSPECIFIED, TRAIN, PREDICT"));
  EXPECT_THAT(Refusal("layer[0].conv.window.kernel=[3,x]"), HasSubstr("'x' is not a whole number"));
  EXPECT_THAT(Refusal("train.optimizer=adam"), HasSubstr("train.optimizer: is a group of the fields sgd, adam"));
  EXPECT_THAT(Refusal("train.optimizer={adam { rate: 1 }}"), HasSubstr("\"rate\""));
}

TEST(SpecSetterTest, ReturnsTheChangedJobAsTextWithSetInItsName) {
  const SpecSource source{kLeNet, "job.textproto"};
  EXPECT_EQ(WithSettings(source, {})->text, source.text);
  auto changed = WithSettings(source, {"train.batch=32", "ranks=8", "train.batch=16"});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->name, "job.textproto with --set");
  auto parsed = ParseSpec(changed->text, changed->name);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.train().batch(), 16);
  EXPECT_EQ(parsed->spec.ranks(), 8);
  EXPECT_THAT(parsed->locations.At("train.batch"), StartsWith("job.textproto with --set:"));
  auto refusal = [](const SpecSource& from, const std::string& assignment) {
    return std::string(WithSettings(from, {assignment}).status().message());
  };
  EXPECT_THAT(refusal(source, "bach=1"), StartsWith("--set bach: there is no field"));
  EXPECT_THAT(refusal({"sead: 1", "job.textproto"}, "ranks=1"), StartsWith("job.textproto:1:"));
}

}  // namespace
}  // namespace adjoin
