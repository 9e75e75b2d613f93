// A right `train` is planned; every wrong one is refused with one error at its field.
#include "planner/checks/train_check.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

absl::StatusOr<Plan> PlanText(const std::string& text) {
  const absl::StatusOr<ParsedSpec> parsed = ParseSpec(text, "job");
  if (!parsed.ok()) return parsed.status();
  return Planner::Build(parsed->spec, {{"train", 640}, {"test", 100}}, BuiltinLayerRules(), &parsed->locations);
}

// Returns LeNet-5's job with this optimizer, with `more` in `train`, and with `loss` in its loss.
std::string Job(const std::string& more, const std::string& optimizer = "sgd { lr: 0.01 momentum: 0.9 }",
                const std::string& loss = "") {
  return absl::StrReplaceAll(
      kLeNet, {{"optimizer { sgd { lr: 0.01 momentum: 0.9 } }", absl::StrCat("optimizer { ", optimizer, " } ", more)},
               {"target: \"label\" }", absl::StrCat("target: \"label\" ", loss, " }")}});
}

void ExpectRefused(const std::string& text, const std::string& says) {
  const absl::Status status = PlanText(text).status();
  EXPECT_FALSE(status.ok()) << says;
  EXPECT_TRUE(absl::StrContains(status.message(), says)) << status << "\n  lacks: " << says;
}

TEST(TrainCheckTest, AcceptsRightJobs) {
  for (const char* more :
       {"", "measure_layers_every: 10", "measure_layers_every: 18446744073709551615", "microbatches: 4",
        "clip_norm: 0.5", "validate_on: \"test\"",
        "validate_on: \"test\" validate_every: 10 early_stop { patience: 2 min_delta: 0.1 }",
        "validate_on: \"test\" early_stop { patience: 1 metric: \"accuracy\" }",
        "schedule { shape: \"linear\" steps: 5 to: 1 } schedule { shape: \"cosine\" steps: 9 from: 1 }",
        "schedule { shape: \"step\" steps: 5 from: 1 to: 0.1 }"}) {
    EXPECT_TRUE(PlanText(Job(more)).ok()) << more << ": " << PlanText(Job(more)).status();
  }
  for (const char* optimizer :
       {"adam { lr: 0.1 }", "adam { lr: 0.1 beta1: 0 beta2: 0.9 eps: 0 weight_decay: 1 decoupled: true }",
        "adam { lr: 0.1 amsgrad: true }", "adam { lr: 0.1 amsgrad: true decoupled: true }",
        "sgd { lr: 0.1 momentum: 0.9 nesterov: true weight_decay: 0.1 }", "rmsprop { lr: 0.1 }",
        "rmsprop { lr: 0.1 alpha: 0 eps: 0 weight_decay: 1 momentum: 0.9 centered: true }", "adagrad { lr: 0.1 }",
        "adagrad { lr: 0.1 lr_decay: 0.1 weight_decay: 1 initial: 0.1 eps: 0 }"}) {
    EXPECT_TRUE(PlanText(Job("", optimizer)).ok()) << optimizer << ": " << PlanText(Job("", optimizer)).status();
  }
  EXPECT_TRUE(PlanText(Job("microbatches: 2", "adam { lr: 0.1 }", "reduction: \"sum\" ignore_index: 3")).ok());
  EXPECT_TRUE(PlanText(Job("microbatches: 2", "adam { lr: 0.1 }", "label_smoothing: 0.1")).ok());
}

// A mean over probabilities is over all samples, whatever their weights; another data set may have classes.
TEST(TrainCheckTest, ProbabilitiesInMicrobatches) {
  const auto job = [](const std::string& more) {
    return absl::StrReplaceAll(Job(more, "adam { lr: 0.1 }", "class_weight: [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]"),
                               {{"idx { path: \"train-labels.idx.gz\" } dtype: \"int64\"",
                                 "idx { path: \"train-labels.idx.gz\" } shape: [10]"}});
  };
  EXPECT_TRUE(PlanText(job("microbatches: 2 validate_on: \"test\"")).ok()) << PlanText(job("microbatches: 2")).status();
  ExpectRefused(job("validate_on: \"train\""),
                "metric \"accuracy\" compares with the numbers of classes, but data set \"train\" has probabilities");
}

TEST(TrainCheckTest, OnlyTrainingMeasuresItsLayers) {
  const std::string job = absl::StrReplaceAll(
      Job("measure_layers_every: 10"), {{"kind: TRAIN", "kind: EVALUATE weights { init_from: \"m.safetensors\" }"}});
  ExpectRefused(job, "train.measure_layers_every measures steps that train, and the job's kind is EVALUATE");
}

TEST(TrainCheckTest, Traces) {
  ExpectRefused(Job("trace { }"), "train.trace.steps is 0; it must be from 1 to 1000");
  ExpectRefused(Job("trace { steps: 1001 }"), "train.trace.steps is 1001; it must be from 1 to 1000");
  EXPECT_TRUE(PlanText(Job("trace { steps: 1000 first_step: 18446744073709551615 }")).ok());
  const std::string job = absl::StrReplaceAll(
      Job("trace { steps: 1 }"), {{"kind: TRAIN", "kind: EVALUATE weights { init_from: \"m.safetensors\" }"}});
  ExpectRefused(job, "train.trace records steps that train, and the job's kind is EVALUATE");
}

TEST(TrainCheckTest, Optimizers) {
  ExpectRefused(Job("", "adam { }"), "train.optimizer.adam.lr is 0; it must be above 0");
  ExpectRefused(Job("", "adam { lr: 1 beta1: 1 }"),
                "train.optimizer.adam.beta1 is 1; it must be at least 0 and below 1");
  ExpectRefused(Job("", "adam { lr: 1 beta2: -0.1 }"), "train.optimizer.adam.beta2 is -0.1");
  ExpectRefused(Job("", "adam { lr: 1 eps: -1 }"), "train.optimizer.adam.eps is -1; it must be at least 0");
  ExpectRefused(Job("", "adam { lr: nan }"), "train.optimizer.adam.lr is nan; it must be finite and above 0");
  ExpectRefused(Job("", "rmsprop { }"), "train.optimizer.rmsprop.lr is 0; it must be above 0");
  ExpectRefused(Job("", "rmsprop { lr: -1 }"), "train.optimizer.rmsprop.lr is -1; it must be above 0");
  ExpectRefused(Job("", "rmsprop { lr: 1 alpha: 1 }"),
                "train.optimizer.rmsprop.alpha is 1; it must be at least 0 and below 1");
  ExpectRefused(Job("", "rmsprop { lr: 1 alpha: -0.5 }"), "train.optimizer.rmsprop.alpha is -0.5");
  ExpectRefused(Job("", "rmsprop { lr: 1 eps: -1 }"), "train.optimizer.rmsprop.eps is -1; it must be at least 0");
  ExpectRefused(Job("", "rmsprop { lr: 1 momentum: -1 }"), "train.optimizer.rmsprop.momentum is -1");
  ExpectRefused(Job("", "rmsprop { lr: 1 weight_decay: inf }"),
                "train.optimizer.rmsprop.weight_decay is inf; it must be finite and at least 0");
  ExpectRefused(Job("", "adagrad { }"), "train.optimizer.adagrad.lr is 0; it must be above 0");
  ExpectRefused(Job("", "adagrad { lr: inf }"), "train.optimizer.adagrad.lr is inf");
  ExpectRefused(Job("", "adagrad { lr: 1 lr_decay: -1 }"), "train.optimizer.adagrad.lr_decay is -1");
  ExpectRefused(Job("", "adagrad { lr: 1 initial: -1 }"),
                "train.optimizer.adagrad.initial is -1; it must be at least 0");
  ExpectRefused(Job("", "adagrad { lr: 1 eps: nan }"), "train.optimizer.adagrad.eps is nan");
  ExpectRefused(Job("", "adagrad { lr: 1 weight_decay: -1 }"), "train.optimizer.adagrad.weight_decay is -1");
  ExpectRefused(Job("", ""), "train.optimizer is missing");
}

TEST(TrainCheckTest, Schedules) {
  ExpectRefused(Job("schedule { shape: \"exp\" steps: 1 }"),
                "shape \"exp\" is not one of \"linear\", \"cosine\", \"step\"");
  ExpectRefused(Job("schedule { shape: \"step\" to: 1 }"), "steps is 0; it must be at least 1");
  ExpectRefused(Job("schedule { shape: \"step\" steps: 1 from: -1 }"), "from is -1");
  ExpectRefused(Job("schedule { shape: \"step\" steps: 1 to: inf }"), "to is inf");
  ExpectRefused(Job("schedule { shape: \"step\" steps: 9007199254740993 }"), "more than 2^53 steps");
  ExpectRefused(Job("clip_norm: -1"), "train.clip_norm is -1");
}

TEST(TrainCheckTest, MicroBatches) {
  ExpectRefused(Job("microbatches: 3"), "train.microbatches is 3, which does not divide train.batch, 64");
  ExpectRefused(Job("microbatches: 2", "adam { lr: 0.1 }", "ignore_index: 3"),
                "whose mean is over as many targets as its ignore_index lets count");
  ExpectRefused(
      Job("microbatches: 2", "adam { lr: 0.1 }", absl::StrCat("class_weight: [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]")),
      "as its class_weight lets count; right would be microbatches: 1, or reduction: \"sum\", or no class_weight");
  ExpectRefused(Job("microbatches_in_flight: 2"), "it must be from 1 to train.microbatches, 1");
  ExpectRefused(Job("microbatches: 4 microbatches_in_flight: 5"), "it must be from 1 to train.microbatches, 4");
  ExpectRefused(absl::StrCat(Job("microbatches: 4 microbatches_in_flight: 2"), "compare_executions: true"),
                "and compare_executions lets ranks wait for each other in every movement");
  ExpectRefused(Job("microbatches: 4 microbatches_in_flight: 2"), "no rank has layers that come before all those");
  const std::string dice = absl::StrReplaceAll(Job("microbatches: 2"), {{"\"cross_entropy\"", "\"dice\""}});
  ExpectRefused(dice, "of kind \"dice\", which is no sum over the samples; right would be microbatches: 1");
}

TEST(TrainCheckTest, Validation) {
  ExpectRefused(Job("validate_every: 3"), "train.validate_every needs train.validate_on");
  ExpectRefused(Job("early_stop { patience: 1 }"), "train.early_stop needs train.validate_on");
  ExpectRefused(Job("validate_on: \"tset\""), "there is no data set \"tset\"");
  ExpectRefused(Job("validate_on: \"test\" early_stop { }"), "train.early_stop.patience is missing");
  ExpectRefused(Job("validate_on: \"test\" early_stop { patience: 1 min_delta: -1 }"),
                "train.early_stop.min_delta is -1");
  ExpectRefused(Job("validate_on: \"test\" early_stop { patience: 1 metric: \"confusion\" }"),
                "is no number to judge by");
  ExpectRefused(Job("validate_on: \"test\" early_stop { patience: 1 metric: \"acc\" }"), "metric \"acc\" is not known");
  ExpectRefused(Job("validate_on: \"test\" early_stop { patience: 1 metric: \"mse\" }"),
                "needs a loss that compares numbers");
}

TEST(TrainCheckTest, NumberTypes) {
  const auto precision = [](const std::string& text) { return absl::StrCat(kLeNet, "precision { ", text, " }"); };
  for (const char* text :
       {"", "compute: \"float64\"", "params: \"float32\"", "compute: \"bfloat16\" params: \"float32\"",
        "compute: \"bfloat16\" params: \"float32\" loss_scale: 1024", "loss_scale: 0.5"}) {
    EXPECT_TRUE(PlanText(precision(text)).ok()) << text << ": " << PlanText(precision(text)).status();
  }
  for (const char* scale : {"-1", "nan", "inf", "1e20", "1e-20"}) {
    ExpectRefused(precision(absl::StrCat("loss_scale: ", scale)), "; it must be from 2^-64 to 2^64");
  }
  ExpectRefused(precision("compute: \"bfloat16\""),
                "precision.params \"bfloat16\" with compute \"bfloat16\" is not supported yet; params: \"float32\" is");
  ExpectRefused(precision("compute: \"float64\" params: \"float32\""), "both must be the same");
  ExpectRefused(precision("compute: \"float16\""), "precision.compute \"float16\"");
  ExpectRefused(absl::StrReplaceAll(precision("loss_scale: 2"), {{"momentum: 0.9", "momentum: 0.9 dampening: 0.5"}}),
                "precision.loss_scale with sgd.dampening");
  ExpectRefused(precision("reduce: \"float32\""), "precision.reduce is not supported yet");
}

// Puts text in place of conv1's or relu1's first field.
TEST(TrainCheckTest, Inits) {
  const auto conv = [](const std::string& init) {
    return absl::StrReplaceAll(kLeNet,
                               {{"home: OWNER conv { out_channels: 6", absl::StrCat(init, " conv { out_channels: 6")}});
  };
  for (const char* init : {"init { kind: \"kaiming_normal\" }", "init { kind: \"dirac\" }", "init { kind: \"ones\" }",
                           "init { kind: \"normal\" gain: 0.02 value: 1 }", "init { kind: \"constant\" value: -1 }"}) {
    EXPECT_TRUE(PlanText(conv(init)).ok()) << init << ": " << PlanText(conv(init)).status();
  }
  ExpectRefused(conv("init { }"), "init.kind is missing; write one of constant, dirac");
  ExpectRefused(conv("init { kind: \"xavier\" }"), "init.kind \"xavier\" is not known");
  ExpectRefused(conv("init { kind: \"orthogonal\" }"), "init.kind \"orthogonal\"");
  ExpectRefused(conv("init { kind: \"eye\" }"), "is for a weight of 2 dims; this layer's is 6x1x5x5");
  ExpectRefused(conv("init { kind: \"ones\" gain: 2 }"), "init.gain is not for kind \"ones\"");
  ExpectRefused(conv("init { kind: \"normal\" gain: -2 }"), "init.gain is -2");
  ExpectRefused(conv("init { kind: \"values\" values: [1, 2] }"),
                "init.values has 2 numbers; the weight, 6x1x5x5, has 150: one for each, row-major");
  ExpectRefused(
      absl::StrReplaceAll(kLeNet, {{"layer { name: \"relu1\"", "layer { name: \"relu1\" init { kind: \"ones\" }"}}),
      "init is for a layer with a weight, which this one does not have");
}

// By the role of a parameter.
TEST(TrainCheckTest, InitOfALayerWithSeveralWeights) {
  const auto job = [](const std::string& layer) {
    return absl::StrCat(R"(name: "a" kind: TRAIN ranks: 2
layout { name: "cut" partition: [1, 2, 1] }
layer { name: "a" input: "x" x: "cut" )",
                        layer, R"( }
loss { kind: "mse" input: "a" target: "t" }
dataset { name: "train" field { name: "x" synthetic { kind: "normal" samples: 640 } shape: [4, 8] }
  field { name: "t" synthetic { kind: "normal" samples: 640 } shape: [4, 8] } }
train { dataset: "train" batch: 2 epochs: 1 optimizer { sgd { lr: 0.1 } } }
output_dir: "a")");
  };
  const auto inits = [&](const std::string& layer) {
    std::map<std::string, std::string> found;
    const absl::StatusOr<Plan> plan = PlanText(job(layer));
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return found;
    for (const ParameterPlan& parameter : plan->parameter()) found[parameter.name()] = parameter.init().kind();
    return found;
  };
  const std::map<std::string, std::string> of_attention = {{"a.in_proj_weight", "trunc_normal"},
                                                           {"a.in_proj_bias", "constant"},
                                                           {"a.out_proj.weight", "trunc_normal"},
                                                           {"a.out_proj.bias", "constant"}};
  EXPECT_EQ(inits("init { kind: \"trunc_normal\" gain: 0.02 } attention { heads: 2 }"), of_attention);
  EXPECT_EQ(inits("attention { heads: 2 }").at("a.in_proj_weight"), "xavier_uniform");
  // A layer whose parameter has the name of another's: one tensor would be trained as two.
  ExpectRefused(job("attention { heads: 2 } } layer { name: \"a.out_proj\" y: \"cut\" linear { out_features: 8 }"),
                "layer 1 \"a.out_proj\": its parameter \"a.out_proj.weight\" has the name of one of layer \"a\"");
  const auto of_windows = inits("init { kind: \"zeros\" } window_attention { heads: 2 window: 2 }");
  EXPECT_EQ(of_windows.at("a.qkv.weight"), "zeros");
  EXPECT_EQ(of_windows.at("a.proj.weight"), "zeros");
  EXPECT_EQ(of_windows.at("a.relative_position_bias_table"), "trunc_normal");
}

}  // namespace
}  // namespace adjoin
