// What the planner refuses, where, and what it says would be right.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/plan/operator_ids.h"
#include "planner/plan/plan_fixtures.h"

namespace adjoin {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Refusal {
  const char* from;
  const char* to;
  const char* where;  // the message starts with it
  const char* what;
};

TEST(PlannerRefusalsTest, BadInputIsRefusedWithLocationAndAdvice) {
  const Refusal refusals[] = {
      {"partition: [1,1,2,2]", "partition: [1,1,3,2]", "job.textproto:2:", "more ranks than the job has, 4"},
      {"partition: [1,2,1,1] rank: [0,1]", "partition: [1,2,2,1] rank: [0,1]",
       "job.textproto:3:", "1x2x2x1 takes 4 ranks, but 2 are named"},
      {"rank: [0,2]", "rank: [0,4]", "job.textproto:5:", "ranks 0 to 3"},
      {"rank: [0,2]", "rank: [0,0]", "job.textproto:5:", "named twice"},
      {"name: \"col\"", "name: \"row\"", "job.textproto:5:10: layout \"row\"", "names are unique"},
      {"partition: [2,2] }", "partition: [2,0] }", "job.textproto:6:", "at least 1"},
      {"partition: [2,2] }", "}", "job.textproto:6:1: layout \"w2x2\"", "needs either partition"},
      {"partition: [2,2] }", "mesh { size: 4 } sbp: \"S(x)\" }", "job.textproto:6:", "not a placement"},
      {"partition: [2,2] }", "mesh { size: 4 } }", "job.textproto:6:", "one per axis"},
      {"partition: [1,1,2,2]", "partition: [1,1,2,2] cut { dim: 2 size: [20, 9] }",
       "job.textproto:7:", "do not sum to its extent 28"},
      {"x: \"grid\" ", "", "job.textproto:7:", "] }; or add --auto, which chooses all layouts"},
      {"x: \"grid\" ", "x: \"gird\" ", "job.textproto:7:", "there is no layout \"gird\"; known are chan, col, grid"},
      {"x: \"grid\" ", "x: \"row\" ", "job.textproto:7:38: layer 0 \"conv1\"", "is for tensors of 2 dims"},
      {"input: \"image\" ", "input: \"imag\" ", "job.textproto:7:", "neither an earlier layer nor a field"},
      {"input: \"image\" ", "input: \"conv2\" ", "job.textproto:7:", "does not stand before it"},
      {"input: \"image\" ", "", "job.textproto:7:", "input is missing"},
      {"window { kernel: 5 } ", "window { kernel: 15 } ", "job.textproto:10:68: layer 3 \"conv2\"",
       "larger than the padded input in dim 2: 14 + 0 + 0 = 14"},
      {"window { kernel: 5 } ", "window { kernel: [5, 5, 5] } ", "job.textproto:10:", "3 values"},
      {"window { kernel: 5 } ", "window { kernel: 5 pad_lo: 15 boundary: \"circular\" } ",
       "job.textproto:10:", "padding 15 is too large for an input of 14 with boundary circular"},
      {"out_channels: 16 ", "out_channels: 16 groups: 4 ", "job.textproto:10:", "must divide"},
      {"out_channels: 16 ", "", "job.textproto:10:", "out_channels is missing"},
      {"name: \"relu2\" activation { fn: \"relu\" }", "name: \"drop\" dropout { p: 1.5 }",
       "job.textproto:11:", "layer 4 \"drop\": dropout.p is 1.5; it is a probability, from 0 to 1"},
      {"name: \"relu2\" activation { fn: \"relu\" }", "name: \"relu2\"", "job.textproto:11:1: layer 4 \"relu2\"",
       "activation {}, add {}"},
      {"name: \"relu2\"", "name: \"relu1\"", "job.textproto:11:", "names are unique"},
      {"name: \"relu2\"", "name: \"label\"", "job.textproto:11:", "has a field of this name"},
      {"name: \"relu2\"", "name: \"re lu\"", "job.textproto:11:", "letters, digits"},
      {"name: \"relu2\"", "name: \"relu2\" init { kind: \"zeros\" }",
       "job.textproto:11:", "init is for a layer with a weight"},
      {"mode: \"max\"", "mode: \"mean\"", "job.textproto:9:", "pool.mode \"mean\" is not known"},
      {"name: \"flat\" flatten", "name: \"flat\" x: \"grid\" flatten", "job.textproto:14:", "partition: [1, 4, 1, 1]"},
      {"y: \"chan\" ", "", "job.textproto:13:", "a repartition needs y"},
      {"layer { name: \"flat\" flatten { arg: 1 } }", "",
       "job.textproto:15:", "layout \"row\" is for tensors of 2 dims"},
      {"w: \"w2x2\"", "w: \"grid\"", "job.textproto:15:", "for tensors of 4 dims"},
      {"input: \"fc3\"", "input: \"fc4\"", "job.textproto:20:", "there is no layer \"fc4\"; the last one is \"fc3\""},
      {"input: \"fc3\"", "input: \"conv2\"", "job.textproto:20:", "the field needs shape: [10, 10]"},
      {"input: \"fc3\" ", "", "job.textproto:20:", "input is missing"},
      {"target: \"label\"", "target: \"labels\"", "job.textproto:20:",
       "loss 0: data set \"train\" does not have the field \"labels\", which it reads; its fields are image, label"},
      {"target: \"label\"", "target: \"image\"", "job.textproto:20:", "int64"},
      {"\"cross_entropy\"", "\"hinge\"",
       "job.textproto:20:", "these are: bce, bce_with_logits, cosine, cross_entropy, dice, "},
      {"input: \"fc3\" target: \"label\"", "input: \"fc3\" target: \"label\" class_weight: [1, 2]",
       "job.textproto:20:", "has 10 classes"},
      {"target: \"label\"", "target: \"label\" delta: 0.1", "job.textproto:20:", "delta is for huber, smooth_l1"},
      {"target: \"label\"", "target: \"label\" reduction: \"max\"", "job.textproto:20:", "\"mean\" or \"sum\""},
      {"shape: [1,28,28] ", "", "job.textproto:7:", "has no shape"},
      {"shape: [1,28,28] ", "shape: [1,28,0] ", "job.textproto:22:", "at least 1"},
      {"shape: [1,28,28] ", "shape: [1,4000000000000000,4000000000000000] ",
       "job.textproto:22:", "more than 2^53 cells"},
      {"mean: 0.1307", "mean: [1, 2]", "job.textproto:22:", "one per channel (1)"},
      {"std: 0.3081", "std: 0", "job.textproto:22:", "std is 0"},
      {"path: \"train-images.idx.gz\"", "path: \"/etc/passwd\"", "job.textproto:22:", "no leading '/'"},
      {"path: \"train-images.idx.gz\"", "path: \"a/../../b\"", "job.textproto:22:", "no '..'"},
      {"dtype: \"int64\"", "dtype: \"int32\"", "job.textproto:23:", "is not one of"},
      {"shuffle: true", "shuffle: true augment: \"flip\"",
       "job.textproto:21:", "\"flip\" is not known; write \"flip(D)\""},
      {"shuffle: true", "shuffle: true limit: 0", "job.textproto:21:", "limit is 0"},
      {"batch: 64", "batch: 0", "job.textproto:27:", "train.batch is 0; it must be at least 1"},
      {"batch: 64", "batch: 64 microbatches: 3", "job.textproto:27:", "which does not divide train.batch, 64"},
      {"batch: 64", "batch: 64 clip_norm: -1", "job.textproto:27:", "train.clip_norm is -1"},
      {"batch: 64", "batch: 64 validate_on: \"tset\"", "job.textproto:27:", "no data set \"tset\""},
      {"epochs: 8 ", "", "job.textproto:27:", "train.epochs or train.steps is missing"},
      {"epochs: 8 ", "epochs: 0 ", "job.textproto:27:", "train.epochs is 0"},
      {"train { dataset: \"train\"", "train { dataset: \"tran\"",
       "job.textproto:27:", "no data set \"tran\"; known are train, test"},
      {"sgd { lr: 0.01 momentum: 0.9 }", "adam { lr: 0 }", "job.textproto:27:", "train.optimizer.adam.lr is 0"},
      {"lr: 0.01", "lr: -1", "job.textproto:27:", "must be above 0"},
      {"lr: 0.01", "lr: nan", "job.textproto:27:", "finite"},
      {"momentum: 0.9", "nesterov: true", "job.textproto:27:", "needs a momentum"},
      {"metric: \"accuracy\"", "metric: \"dicey\"", "job.textproto:28:", "\"dicey\""},
      {"\"cross_entropy\"", "\"dice\"", "job.textproto:28:", "needs a loss of classes"},
      {"evaluate { dataset: \"test\"", "evaluate { dataset: \"tests\"", "job.textproto:28:", "no data set"},
      {"output_dir: \"lenet5-spatial\"", "output_dir: \"../x\"", "job.textproto:29:", "below it"},
      {"output_dir: \"lenet5-spatial\"", "output_dir: \"bob/attempt-12\"",
       "job.textproto:29:", "holds \"attempt-12\"; attempt-NUMBER and names"},
      {"output_dir: \"lenet5-spatial\"", "output_dir: \".epoch/x\"", "job.textproto:29:", "holds \".epoch\""},
      {"output_dir: \"lenet5-spatial\"", "checkpoint { every_steps: 7 }",
       "job.textproto:29:1: ", "checkpoint.dir is missing"},
      {"output_dir: \"lenet5-spatial\"", "checkpoint { dir: \"../d\" }", "job.textproto:29:14: ", "below it"},
      {"output_dir: \"lenet5-spatial\"", "checkpoint { dir: \"a/attempt-3\" }",
       "job.textproto:29:14: ", "holds \"attempt-3\""},
      {"output_dir: \"lenet5-spatial\"", "checkpoint { dir: \"d\" every_minutes: -1 }",
       "job.textproto:29:23: ", "at least 0"},
      {"output_dir: \"lenet5-spatial\"", "checkpoint { dir: \"d\" keep_best: \"loss\" }",
       "job.textproto:29:23: ", "needs train.validate_on"},
      {"output_dir: \"lenet5-spatial\"", "resources { cpus: 1 }",
       "job.textproto:29:13: ", "resources.cpus is not supported yet"},
      {"output_dir: \"lenet5-spatial\"", "resources { gpus: 2 }",
       "job.textproto:29:13: ", "resources.gpus is 2; it must be 0 or 1"},
      {"output_dir: \"lenet5-spatial\"", "restart { backoff_s: -1 }",
       "job.textproto:29:11: ", "restart.backoff_s is -1; it must be at least 0 and at most 86400"},
      {"output_dir: \"lenet5-spatial\"", "restart { on: \"always\" }",
       "job.textproto:29:", "restart.on is \"always\"; it must be \"rank_lost\", \"node_lost\" or \"error\""},
      {"output_dir: \"lenet5-spatial\"", "precision { compute: \"bfloat16\" }", "job.textproto:29:", "bfloat16"},
      {"output_dir: \"lenet5-spatial\"", "precision { compute: \"float64\" params: \"float32\" }",
       "job.textproto:29:", "both must be the same"},
      {"output_dir: \"lenet5-spatial\"", "weights { init_from: \"w\" from_output: \"x/model.safetensors\" }",
       "job.textproto:29:", "weights.from_output stands in place of weights.init_from"},
      {"output_dir: \"lenet5-spatial\"", "weights { from_output: \"../x\" }", "job.textproto:29:", "--output-root"},
      {"output_dir: \"lenet5-spatial\"", "weights { from_output: \"x/model.safetensors\" from_job: \"x\" }",
       "job.textproto:29:", "weights.from_job stands in place of weights.from_output"},
      {"output_dir: \"lenet5-spatial\"", "weights { init_from: \"w\" from_job: \"x\" }",
       "job.textproto:29:", "weights.from_job stands in place of weights.init_from"},
      {"output_dir: \"lenet5-spatial\"", "weights { from_job: \"x\" best: true step: 3 }",
       "job.textproto:29:", "weights.best and weights.step name two checkpoints"},
      {"output_dir: \"lenet5-spatial\"", "weights { from_job: \"x\" step: 9223372036854775808 }",
       "job.textproto:29:", "weights.step is 9223372036854775808; it must be at most 9223372036854775807"},
      {"output_dir: \"lenet5-spatial\"", "weights { init_from: \"w\" best: true }",
       "job.textproto:29:", "weights.best chooses among the checkpoints of weights.from_job, which is missing"},
      {"output_dir: \"lenet5-spatial\"", "weights { step: 3 }",
       "job.textproto:29:", "weights.step chooses among the checkpoints of weights.from_job, which is missing"},
      {"metric: \"accuracy\"", "metric: \"top05\"", "job.textproto:28:", "\"top05\" is not known"},
      {"metric: \"accuracy\"", "metric: \"top11\"",
       "job.textproto:28:", "with 10 classes is always 1; write at most \"top10\""},
      {"metric: \"accuracy\"", "metric: \"mse\"", "job.textproto:28:", "needs a loss that compares numbers"},
      {"metric: \"accuracy\"", "metric: [\"iou\", \"iou\"]", "job.textproto:28:", "\"iou\" is named twice"},
      {"metric: \"accuracy\"", "metric: \"loss\" range: 2",
       "job.textproto:28:", "evaluate.range is for metric \"psnr\""},
      {"ranks: 4", "ranks: 0", "job.textproto:1:", "from 1 to 32768"},
      {"ranks: 4", "ranks: 50000", "job.textproto:1:", "from 1 to 32768"},
      {"kind: TRAIN ", "kind: PREDICT ",
       "job.textproto:1:", "weights is missing: a job of kind PREDICT needs the trained ones"},
      {"kind: TRAIN ", "", "job.textproto", "kind is missing"},
      {"kind: TRAIN ", "kind: PREDICT weights { init_from: \"w\" } ",
       "job.textproto:28:", "evaluate is for jobs of kind TRAIN and EVALUATE"},
      {"home: OWNER conv { out_channels: 6", "home: OWNER owner: 4 conv { out_channels: 6",
       "job.textproto:7:", "rank 4 is to own the parameters, but the job has ranks 0 to 3"},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(testing::Message() << refusal.from << " -> " << refusal.to);
    const std::string error = ErrorOf(LeNetWith(refusal.from, refusal.to), MnistSizes());
    EXPECT_THAT(error, StartsWith(refusal.where));
    EXPECT_THAT(error, HasSubstr(refusal.what));
  }
}

TEST(PlannerRefusalsTest, WithoutLocationsTheLayerIsNamed) {
  JobSpec spec = ParseSpec(kLeNet, "")->spec;
  spec.mutable_layer(3)->mutable_conv()->mutable_window()->set_kernel(0, 15);
  const auto plan = Planner::Build(spec, {}, BuiltinLayerRules());
  EXPECT_THAT(std::string(plan.status().message()), StartsWith("layer 3 \"conv2\": kernel 15"));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlannerRefusalsTest, RefusesACutOfTheBatchThatDoesNotFitTheTail) {
  const std::string text = JobText(2, R"(layout { name: "b" partition: [2, 1] cut { dim: 0 size: [5, 3] } }
layer { name: "a" input: "image" x: "b" linear { out_features: 3 } })",
                                   "[4]", "a");
  EXPECT_TRUE(PlanText(text, {{"train", 16}}).ok());
  const std::string error = ErrorOf(text, {{"train", 17}});
  EXPECT_THAT(error, HasSubstr("layer 0 \"a\""));
  EXPECT_THAT(error, HasSubstr("program \"train_tail\", a batch of 1: the last one of an epoch, which train.drop_last:"
                               " true leaves out; a layout without an explicit cut fits every batch"));
}

TEST(PlannerRefusalsTest, SaysWhichBatchAnExplicitCutIsOf) {
  const std::string text = JobText(2, R"(layout { name: "b" partition: [2, 1] cut { dim: 0 size: [5, 3] } }
layer { name: "a" input: "image" x: "b" linear { out_features: 3 } })",
                                   "[4]", "a");
  const std::string divided = absl::StrReplaceAll(text, {{"epochs: 1", "epochs: 1 microbatches: 2"}});
  EXPECT_THAT(ErrorOf(divided, {{"train", 16}}),
              HasSubstr("a micro-batch of 4: an explicit cut of the batch is one of a micro-batch;"));
  EXPECT_TRUE(PlanText(absl::StrReplaceAll(divided, {{"batch: 8", "batch: 16"}}), {{"train", 16}}).ok());
  const std::string evaluated = absl::StrCat(text, "evaluate { dataset: \"train\" batch: 3 metric: \"loss\" }");
  EXPECT_THAT(ErrorOf(evaluated, {{"train", 16}}),
              HasSubstr("(program \"evaluate\", a batch of 3: evaluate.batch sets it;"));
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(evaluated, {{"batch: 3", "batch: 8"}}), {{"train", 20}}),
              HasSubstr("(program \"train_tail\", a batch of 4:"));
  const std::string dropped =
      absl::StrReplaceAll(evaluated, {{"batch: 3", "batch: 8"}, {"epochs: 1", "steps: 2 drop_last: true"}});
  EXPECT_THAT(ErrorOf(dropped, {{"train", 20}}),
              HasSubstr("(program \"evaluate_tail\", a batch of 4: the samples that are left over, none where"
                        " evaluate.batch divides their number; a layout without an explicit cut fits every batch)"));
  EXPECT_EQ(ErrorOf(dropped, {{"train", 24}}), "");
  // A smaller last micro-batch.
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(divided, {{"batch: 8", "batch: 16"}}), {{"train", 35}}),
              HasSubstr("(program \"train_tail\", a batch of 3: the last one of an epoch"));
  // Less than one batch in all.
  const std::string predicted =
      absl::StrReplaceAll(text.substr(0, text.find("train {")),
                          {{"kind: TRAIN", "kind: PREDICT weights { init_from: \"w\" } output_dir: \"p\""}}) +
      "predict { dataset: \"train\" batch: 8 input: \"a\" format: \"npy\" }";
  EXPECT_EQ(ErrorOf(predicted, {{"train", 16}}), "");
  EXPECT_THAT(
      ErrorOf(predicted, {{"train", 6}}),
      HasSubstr("(program \"predict\", a batch of 6: data set \"train\" has no more samples; a layout without"));
  // Other refusals of a first program do not speak of batches.
  const std::string wrong = absl::StrReplaceAll(divided, {{"size: [5, 3]", "size: [1, 3]"}, {"[4]", "[4, 4]"}});
  EXPECT_THAT(ErrorOf(wrong, {{"train", 16}}), testing::Not(HasSubstr("batch of")));
}

TEST(PlannerRefusalsTest, CountsAndTotalsAreCapped) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += absl::StrReplaceAll(text, {{"#", absl::StrCat(i)}});
    return all;
  };
  const std::string linear = "layer { name: \"a\" input: \"image\" linear { out_features: 3 } }";
  const auto error = [&](const std::string& more) { return ErrorOf(JobText(1, linear + more, "[4]", "a")); };
  EXPECT_THAT(error(repeated("\nlayer { name: \"n#\" activation { fn: \"relu\" } }", 10000)),
              HasSubstr("10001 layers; at most 10000"));
  EXPECT_THAT(error(repeated("\nlayout { name: \"n#\" partition: 1 }", 1001)), HasSubstr("1001 layouts; at most 1000"));
  EXPECT_THAT(error(repeated("\ndataset { name: \"d#\" }", 1000)), HasSubstr("1001 data sets; at most 1000"));
  const std::string many = "[4" + repeated(", 1", 16) + "]";
  EXPECT_THAT(error("layout { name: \"b\" partition: " + many + " }"),
              HasSubstr("numbers in its partition; at most 16"));
  EXPECT_THAT(ErrorOf(JobText(1, linear, many, "a")), HasSubstr("17 dims in its shape; at most 16"));

  // Each movement is below the limit; all of them together are not.
  const std::string begin =
      "precision { compute: \"float64\" } layout { name: \"rows\" partition: [2, 1] }"
      " layout { name: \"one\" partition: [1, 1] }\n"
      "layer { name: \"a\" input: \"image\" x: \"rows\" activation { fn: \"relu\" } }";
  const std::string end = "\nlayer { name: \"l\" linear { out_features: 2 } }";
  const std::string to_and_fro = repeated(
      "\nlayer { name: \"t#\" y: \"one\" repartition {} }"
      "\nlayer { name: \"f#\" y: \"rows\" repartition {} }",
      4000);
  const std::string large = "[8796093022208]", too_large = "[8796093022209]";
  EXPECT_EQ(ErrorOf(JobText(2, begin + end, large, "l")), "");
  EXPECT_THAT(ErrorOf(JobText(2, begin + to_and_fro + end, large, "l")), HasSubstr("more than 2^60 bytes a step"));
  EXPECT_THAT(ErrorOf(JobText(2, begin + end, too_large, "l")), HasSubstr("at most 2^46 elements"));
}

TEST(PlannerRefusalsTest, ManyMovementsOnManyRanksAreRefused) {
  for (const auto& [ranks, most] : std::map<uint32_t, int>{{1024, 16384}, {4096, 32768}, {32768, 4096}}) {
    OperatorIds ids;
    OperatorPlan op;
    absl::Status status;
    int taken = 0;
    for (; status.ok() && taken < 100000; ++taken) status = ids.Take(op, ranks);
    EXPECT_EQ(taken, most + 1);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("more than ", most, " movements on ", ranks,
                                                                      " ranks; ", most, " are possible")));
  }
}

}  // namespace
}  // namespace adjoin
