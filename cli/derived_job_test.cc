#include "cli/derived_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

JobSpec Parse(const std::string& text) {
  auto parsed = ParseSpec(text, "job.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

JobSpec LeNet() {
  JobSpec spec = Parse(kLeNet);
  spec.mutable_checkpoint()->set_dir("checkpoints");
  spec.mutable_weights()->set_init_from("start.safetensors");
  spec.mutable_restart()->set_max_restarts(2);
  return spec;
}

DerivedJobOptions Options(Kind kind) {
  DerivedJobOptions options;
  options.kind = kind;
  return options;
}

// Derives the job, and checks that it can be planned.
DerivedJob Derive(const JobSpec& trained, const DerivedJobOptions& options) {
  auto derived = DeriveJob(trained, options);
  EXPECT_TRUE(derived.ok()) << derived.status();
  if (!derived.ok()) return {};
  const auto plan = Planner::Build(derived->spec, {}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(derived);
}

std::string Refusal(const JobSpec& trained, const DerivedJobOptions& options) {
  return std::string(DeriveJob(trained, options).status().message());
}

TEST(DerivedJobTest, ACheckpointIsTakenInPlaceOfTheModel) {
  DerivedJobOptions options = Options(PREDICT);
  options.from_job = "job-7";
  options.best = true;
  const Weights best = Derive(LeNet(), options).spec.weights();
  EXPECT_EQ(best.from_job(), "job-7");
  EXPECT_EQ(best.from_output(), "");
  EXPECT_TRUE(best.best());
  options.best = false;
  options.step = 40;
  EXPECT_EQ(Derive(LeNet(), options).spec.weights().step(), 40u);
}

TEST(DerivedJobTest, APredictionKeepsTheNetworkAndTakesTheModel) {
  const JobSpec spec = Derive(LeNet(), Options(PREDICT)).spec;
  EXPECT_EQ(spec.kind(), PREDICT);
  EXPECT_EQ(spec.name(), "lenet5-spatial-predict");
  EXPECT_EQ(spec.output_dir(), "lenet5-spatial-predict");
  EXPECT_EQ(spec.layer_size(), LeNet().layer_size());
  EXPECT_EQ(spec.ranks(), 4);
  EXPECT_EQ(spec.weights().from_output(), "lenet5-spatial/model.safetensors");
  EXPECT_EQ(spec.weights().init_from(), "");
  EXPECT_EQ(spec.restart().max_restarts(), 2);
  EXPECT_FALSE(spec.has_train() || spec.has_evaluate() || spec.has_checkpoint());
  EXPECT_THAT(spec.loss(), IsEmpty());
  EXPECT_EQ(spec.predict().dataset(), "test") << "which the job evaluates";
  EXPECT_THAT(spec.predict().input(), ElementsAre("fc3")) << "which the loss reads";
  EXPECT_EQ(spec.predict().format(), "npy");
  EXPECT_EQ(spec.dataset_size(), 1) << "files of other data sets need not be there any more";
}

TEST(DerivedJobTest, AnEvaluationKeepsLossesMetricsAndBatch) {
  const JobSpec spec = Derive(LeNet(), Options(EVALUATE)).spec;
  EXPECT_EQ(spec.kind(), EVALUATE);
  EXPECT_EQ(spec.name(), "lenet5-spatial-evaluate");
  EXPECT_EQ(spec.loss_size(), 1);
  EXPECT_FALSE(spec.has_predict() || spec.has_train());
  EXPECT_THAT(spec.evaluate().metric(), ElementsAre("accuracy"));
  EXPECT_EQ(spec.evaluate().batch(), 64) << "train.batch, which is gone";
  JobSpec without = LeNet();
  without.clear_evaluate();
  DerivedJobOptions options = Options(EVALUATE);
  options.dataset = "train";
  EXPECT_THAT(Derive(without, options).spec.evaluate().metric(), ElementsAre("loss"));
}

TEST(DerivedJobTest, OptionsReplaceDefaults) {
  DerivedJobOptions options = Options(PREDICT);
  options.dataset = "train";
  options.name = "n";
  options.output_dir = "o";
  options.batch = 3;
  options.input = {"pool2", "fc1"};
  options.format = "hdf5";
  const JobSpec spec = Derive(LeNet(), options).spec;
  EXPECT_EQ(spec.name(), "n");
  EXPECT_EQ(spec.output_dir(), "o");
  EXPECT_EQ(spec.predict().batch(), 3);
  EXPECT_EQ(spec.predict().dataset(), "train");
  EXPECT_FALSE(spec.dataset(0).shuffle()) << "samples are written in the order of the files";
  EXPECT_THAT(spec.predict().input(), ElementsAre("pool2", "fc1"));
  options = Options(EVALUATE);
  options.metric = {"top3", "loss"};
  EXPECT_THAT(Derive(LeNet(), options).spec.evaluate().metric(), ElementsAre("top3", "loss"));
}

TEST(DerivedJobTest, DataSetsOfAFileReplaceOrAreAdded) {
  DerivedJobOptions options = Options(PREDICT);
  options.data = Parse("dataset { name: \"new\" field { name: \"image\" npy { path: \"n\" } shape: [1,28,28] } }");
  EXPECT_EQ(Derive(LeNet(), options).spec.predict().dataset(), "new") << "the only one of the file";
  options.data.mutable_dataset(0)->set_name("test");
  const JobSpec replaced = Derive(LeNet(), options).spec;
  EXPECT_EQ(replaced.dataset(0).name(), "test");
  EXPECT_TRUE(replaced.dataset(0).field(0).has_npy());
  options.dataset = "train";
  EXPECT_TRUE(Derive(LeNet(), options).spec.dataset(0).field(0).has_idx());
  options.dataset = "";
  *options.data.add_dataset() = LeNet().dataset(0);
  EXPECT_EQ(Refusal(LeNet(), options), "say which data set with --dataset; there are: train, test");
  options.data.set_ranks(3);
  EXPECT_EQ(Refusal(LeNet(), options), "--data: the file has ranks; only dataset { ... } belongs there");
}

TEST(DerivedJobTest, BlocksBecomeWholeSamplesAndTheUserIsTold) {
  const std::string text = R"job(name: "v" kind: TRAIN ranks: 2
layout { name: "g" partition: [1, 1, 2, 1, 1] }
layer { name: "c" input: "volume" x: "g" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "c" target: "label" }
dataset { name: "d" shuffle: true blocks { size: [4, 4, 4] per_epoch: 9 } augment: "flip(0)"
  field { name: "volume" npy { path: "v" } shape: [1, 12, 8, 8] }
  field { name: "label" npy { path: "l" } shape: [12, 8, 8] dtype: "int64" } }
train { dataset: "d" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
output_dir: "a/v")job";
  DerivedJobOptions options = Options(PREDICT);
  options.classes = true;
  const DerivedJob derived = Derive(Parse(text), options);
  EXPECT_FALSE(derived.spec.dataset(0).has_blocks());
  EXPECT_THAT(derived.spec.dataset(0).augment(), IsEmpty());
  EXPECT_EQ(derived.spec.output_dir(), "a/v-predict");
  EXPECT_THAT(derived.notices,
              ElementsAre(HasSubstr("data set \"d\" is predicted in whole samples, not in blocks of 4x4x4")));
  EXPECT_TRUE(Derive(Parse(text), Options(EVALUATE)).spec.dataset(0).has_blocks());
  EXPECT_THAT(Derive(LeNet(), Options(PREDICT)).notices, IsEmpty());
}

TEST(DerivedJobTest, VolumesOfDifferentExtentsAreTakenOneByOne) {
  const std::string text = R"job(name: "v" kind: TRAIN ranks: 2
layout { name: "g" partition: [1, 1, 2, 1, 1] }
layer { name: "c" input: "volume" x: "g" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
loss { kind: "cross_entropy" input: "c" target: "label" }
dataset { name: "d" blocks { size: [4, 4, 4] per_epoch: 9 }
  field { name: "volume" npy { path: ["v", "w"] } shape: [1, -1, -1, -1] }
  field { name: "label" npy { path: ["l", "m"] } shape: [-1, -1, -1] dtype: "int64" } }
train { dataset: "d" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
output_dir: "v")job";
  EXPECT_EQ(Derive(Parse(text), Options(PREDICT)).spec.predict().batch(), 0u);
  DerivedJobOptions options = Options(EVALUATE);
  *options.data.add_dataset() = Parse(text).dataset(0);
  EXPECT_EQ(Derive(Parse(text), options).spec.evaluate().batch(), 2u) << "blocks";
  options.data.mutable_dataset(0)->clear_blocks();
  EXPECT_EQ(Derive(Parse(text), options).spec.evaluate().batch(), 1u);
}

TEST(DerivedJobTest, WhatCannotBeDerivedIsRefused) {
  DerivedJobOptions options = Options(PREDICT);
  options.dataset = "tset";
  EXPECT_EQ(Refusal(LeNet(), options), "--dataset: there is no data set \"tset\"; there are: train, test");
  const JobSpec predicted = Derive(LeNet(), Options(PREDICT)).spec;
  EXPECT_THAT(Refusal(predicted, Options(PREDICT)), StartsWith("the job is of kind PREDICT and has no model"));
  JobSpec spec = LeNet();
  spec.clear_output_dir();
  EXPECT_THAT(Refusal(spec, Options(PREDICT)), HasSubstr("no output_dir"));
  spec = LeNet();
  spec.clear_loss();
  EXPECT_THAT(Refusal(spec, Options(PREDICT)), HasSubstr("say with --input"));
  spec = LeNet();
  spec.clear_evaluate();
  EXPECT_EQ(Refusal(spec, Options(PREDICT)), "say which data set with --dataset; there are: train, test");
  spec.mutable_train()->set_validate_on("train");
  EXPECT_EQ(DeriveJob(spec, Options(PREDICT))->spec.predict().dataset(), "train");
}

}  // namespace
}  // namespace adjoin
