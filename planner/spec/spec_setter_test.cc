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
  EXPECT_THAT(With("evaluate.metric=[\"accuracy\", \"loss\"]").evaluate().metric(), ElementsAre("accuracy", "loss"));
  EXPECT_THAT(With("dataset[train].field[image].idx.path=[\"a,b.idx\", \"c\\n.idx\"]").dataset(0).field(0).idx().path(),
              ElementsAre("a,b.idx", "c\n.idx"))
      << "quoted as in a job's text";
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
  EXPECT_THAT(Refusal("evaluate.metric=[\"loss]"),
              HasSubstr("evaluate.metric: '[\"loss]' is no list of texts; right would be [a,b] or [\"a\",\"b\"]"));
  EXPECT_THAT(Refusal("evaluate.metric=[\"a\"] metrics: [\"b\"]"), HasSubstr("is no list of texts"));
  EXPECT_THAT(Refusal("train.optimizer=adam"), HasSubstr("train.optimizer: is a group of the fields sgd, adam"));
  EXPECT_THAT(Refusal("train.optimizer={adam { rate: 1 }}"), HasSubstr("\"rate\""));
}

// Returns the job without what the path names.
JobSpec Without(const std::string& path) {
  JobSpec spec = LeNet();
  absl::Status status = RemoveSpecField(path, &spec);
  EXPECT_TRUE(status.ok()) << path << ": " << status;
  return spec;
}

std::string RemovalError(const std::string& path) {
  JobSpec spec = LeNet();
  absl::Status status = RemoveSpecField(path, &spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
  EXPECT_EQ(spec.SerializeAsString(), LeNet().SerializeAsString()) << path << " left a trace";
  return std::string(status.message());
}

std::vector<std::string> LayerNames(const JobSpec& spec) {
  std::vector<std::string> names;
  for (const Layer& layer : spec.layer()) names.push_back(layer.name());
  return names;
}

TEST(SpecSetterTest, RemovesGroupsListsAndSingleFields) {
  EXPECT_FALSE(Without("train").has_train());
  EXPECT_TRUE(Without("train").has_evaluate()) << "nothing else goes";
  EXPECT_TRUE(Without("loss").loss().empty());
  EXPECT_EQ(Without("seed").seed(), 0);
  EXPECT_FALSE(Without("train.optimizer.sgd").train().optimizer().has_sgd());
  EXPECT_TRUE(Without("layer[conv1].conv.window.kernel").layer(0).conv().window().kernel().empty());
}

TEST(SpecSetterTest, RemovesElementsAndKeepsTheOrderOfTheOthers) {
  std::vector<std::string> names = LayerNames(LeNet());
  names.erase(names.begin() + 3);
  EXPECT_EQ(LayerNames(Without("layer[conv2]")), names);
  EXPECT_EQ(LayerNames(Without("layer[3]")), names);
  EXPECT_EQ(Without("dataset[train]").dataset_size(), 1);
  EXPECT_EQ(Without("dataset[train]").dataset(0).name(), "test");
  EXPECT_THAT(Without("layout[grid].partition[0]").layout(0).partition(), ElementsAre(1, 2, 2));
  JobSpec labels = LeNet();
  (*labels.mutable_resources()->mutable_node_label())["zone"] = "a";
  (*labels.mutable_resources()->mutable_node_label())["disk"] = "b";
  ASSERT_TRUE(RemoveSpecField("resources.node_label[zone]", &labels).ok());
  EXPECT_EQ(labels.resources().node_label_size(), 1);
  EXPECT_EQ(labels.resources().node_label().at("disk"), "b");
  EXPECT_TRUE(RemoveSpecField("resources.node_label", &labels).ok());
  EXPECT_TRUE(labels.resources().node_label().empty());
}

TEST(SpecSetterTest, RefusesToRemoveWhatIsNotThere) {
  EXPECT_EQ(RemovalError("restart"), "restart: the job has none, so there is nothing to remove");
  EXPECT_THAT(RemovalError("restart.backoff_s"), StartsWith("restart: the job has none"));
  EXPECT_THAT(RemovalError("train.schedule"), StartsWith("train.schedule: the job has none"));
  EXPECT_THAT(RemovalError("trian"), HasSubstr("there is no field 'trian' here; there are: name, kind"));
  EXPECT_THAT(RemovalError("layer[conv9]"), HasSubstr("there is no layer of this name; there are: conv1"));
  EXPECT_THAT(RemovalError("layer[99]"), HasSubstr("layer[99]: does not exist"));
  EXPECT_THAT(RemovalError("layer.conv"), HasSubstr("is a list: say which one"));
  EXPECT_THAT(RemovalError("layout[grid].partition[4]"), HasSubstr("partition has 4 values"));
  EXPECT_THAT(RemovalError("resources.node_label[zone]"), HasSubstr("resources: the job has none"));
  EXPECT_THAT(RemovalError("train[0]"), HasSubstr("train is not a list"));
  EXPECT_THAT(RemovalError("train=1"), HasSubstr("it has a '='"));
  EXPECT_THAT(RemovalError("seed.x"), HasSubstr("which has no fields"));
  EXPECT_THAT(RemovalError(""), HasSubstr("is not a path"));
}

TEST(SpecSetterTest, ReturnsTheChangedJobAsTextWithSetInItsName) {
  const SpecSource source{kLeNet, "job.textproto"};
  EXPECT_EQ(WithChanges(source, {})->text, source.text);
  auto changed = WithChanges(source, {{}, {"train.batch=32", "ranks=8", "train.batch=16"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->name, "job.textproto with --set");
  auto parsed = ParseSpec(changed->text, changed->name);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.train().batch(), 16);
  EXPECT_EQ(parsed->spec.ranks(), 8);
  EXPECT_THAT(parsed->locations.At("train.batch"), StartsWith("job.textproto with --set:"));
  auto refusal = [](const SpecSource& from, const std::string& assignment) {
    return std::string(WithChanges(from, {{}, {assignment}}).status().message());
  };
  EXPECT_THAT(refusal(source, "bach=1"), StartsWith("--set bach: there is no field"));
  EXPECT_THAT(refusal({"sead: 1", "job.textproto"}, "ranks=1"), StartsWith("job.textproto:1:"));
  EXPECT_THAT(std::string(WithChanges(source, {{"restart"}, {}}).status().message()), StartsWith("--unset restart: "));
}

TEST(SpecSetterTest, RemovesBeforeItSets) {
  const SpecSource source{kLeNet, "job.textproto"};
  auto changed = WithChanges(source, {{"train.optimizer", "evaluate"}, {"train.optimizer.adam.lr=0.5"}});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->name, "job.textproto with --unset and --set");
  const auto parsed = ParseSpec(changed->text, changed->name);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.train().optimizer().adam().lr(), 0.5);
  EXPECT_FALSE(parsed->spec.has_evaluate());
  EXPECT_EQ(WithChanges(source, {{"evaluate"}, {}})->name, "job.textproto with --unset");
}

}  // namespace
}  // namespace adjoin
