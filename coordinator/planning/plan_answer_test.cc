#include "coordinator/planning/plan_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "coordinator/planning/seen_sizes.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"
#include "planner/time/cost_model.h"
#include "proto/coordinator.pb.h"
#include "proto/rates.pb.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSpec[] = R"(name: "small" kind: TRAIN ranks: 1 seed: 1
layer { name: "flat" input: "image" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "train"
  field { name: "image" idx { path: ["a.gz", "b.gz"] } shape: [1, 28, 28] }
  field { name: "label" idx { path: "labels.idx.gz" } dtype: "int64" } }
train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
)";

PlanQuestion Question(const std::string& text) {
  PlanQuestion question;
  question.set_source(text);
  question.set_file("job.textproto");
  return question;
}

TEST(PlanAnswer, ASpecIsReadAndItsPlanMadeOnceTheSizesAreKnown) {
  PlanQuestion question = Question(kSpec);
  const PlanAnswer checked = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(checked.error(), 0) << checked.message();
  EXPECT_EQ(checked.spec().name(), "small");
  EXPECT_EQ(checked.hash(), "");
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(100);
  question.mutable_size(0)->set_extents(77);
  const PlanAnswer planned = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(planned.error(), 0) << planned.message();
  Plan plan;
  ASSERT_TRUE(plan.ParseFromString(planned.plan()));
  EXPECT_EQ(plan.program_size(), 2);  // a tail of 36
  EXPECT_EQ(plan.dataset(0).samples(), 100);
  EXPECT_EQ(plan.dataset(0).extents(), 77u);
  EXPECT_EQ(planned.hash().size(), 32);
}

TEST(PlanAnswer, OfAPlanThatIsMadeAPictureIsDrawn) {
  PlanQuestion question = Question(kSpec);
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(100);
  const PlanAnswer planned = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(planned.error(), 0) << planned.message();
  PlanQuestion picture;
  picture.set_picture_of(planned.plan());
  const PlanAnswer drawn = AnswerPlanQuestion(picture, BuiltinLayerRules());
  ASSERT_EQ(drawn.error(), 0) << drawn.message();
  EXPECT_THAT(drawn.picture(), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(drawn.picture(), HasSubstr(planned.hash()));
  EXPECT_EQ(drawn.plan(), "");
  for (const std::string& wrong : {planned.plan().substr(0, planned.plan().size() - 1), std::string("no plan")}) {
    picture.set_picture_of(wrong);
    EXPECT_NE(AnswerPlanQuestion(picture, BuiltinLayerRules()).error(), 0);
  }
}

TEST(PlanAnswer, TheMemoryOfARankIsToldAndALimitFarBelowItRefused) {
  const auto answer = [](const std::string& batch, const std::string& limit) {
    PlanQuestion question = Question(absl::StrReplaceAll(kSpec, {{"batch: 64", "batch: " + batch}}) +
                                     "resources { memory_bytes: " + limit + " }\n");
    question.set_sized(true);
    question.add_size()->set_name("train");
    question.mutable_size(0)->set_samples(32768);
    return AnswerPlanQuestion(question, BuiltinLayerRules());
  };
  const PlanAnswer planned = answer("32768", "1073741824");
  ASSERT_EQ(planned.error(), 0) << planned.message();
  const int64_t bytes = planned.predicted().tensor_bytes();
  EXPECT_GT(bytes, int64_t{100} << 20);
  EXPECT_GT(planned.predicted().resident_bytes(), bytes);
  EXPECT_THAT(planned.memory(), HasSubstr("the process itself"));
  const PlanAnswer close = answer("32768", std::to_string(bytes / 100 * 92));
  EXPECT_EQ(close.error(), 0) << "the prediction may be off: " << close.message();
  const PlanAnswer refused = answer("32768", std::to_string(bytes / 100 * 88));
  EXPECT_EQ(refused.error(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refused.message(), HasSubstr("job.textproto:9:13: resources.memory_bytes allows "));
  EXPECT_THAT(refused.message(), HasSubstr("raise the limit to that"));
  EXPECT_EQ(refused.plan(), "");
}

TEST(PlanAnswer, TheTimeOfAStepIsToldByTheRatesOfTheNodes) {
  PlanQuestion question = Question(kSpec);
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(32768);
  const PlanAnswer by_default = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(by_default.error(), 0) << by_default.message();
  const StepPrediction& predicted = by_default.predicted();
  EXPECT_GT(predicted.compute_seconds(), 0);
  EXPECT_GE(predicted.step_seconds(),
            predicted.compute_seconds() + predicted.movement_seconds() + predicted.wait_seconds());
  EXPECT_EQ(predicted.rates(), CostModel::Default().machine());
  RateTable& rates = *question.mutable_rates();
  rates.set_machine("a slow node");
  rates.set_step_seconds(3);
  KernelRate& copy = *rates.add_kernel();
  copy.set_kind("copy");
  copy.set_dtype("float32");
  copy.set_forward_seconds(1e-6);
  copy.set_backward_seconds(1e-6);
  const PlanAnswer measured = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(measured.error(), 0) << measured.message();
  EXPECT_EQ(measured.predicted().rates(), "a slow node");
  EXPECT_GE(measured.predicted().step_seconds(), 3);
  EXPECT_EQ(measured.hash(), by_default.hash()) << "rates decide nothing";
  rates.mutable_kernel(0)->set_forward_seconds(-1);
  const PlanAnswer refused = AnswerPlanQuestion(question, BuiltinLayerRules());
  EXPECT_EQ(refused.predicted().rates(), CostModel::Default().machine()) << "a table of no use is not used";
}

TEST(PlanAnswer, ThePlanTellsWhereTheWeightsOfAnEarlierJobAre) {
  PlanQuestion question = Question(std::string(kSpec) + "weights { from_job: \"base\" best: true strict: false }");
  const PlanAnswer checked = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(checked.error(), 0) << checked.message();
  EXPECT_EQ(checked.spec().weights().from_job(), "base");
  EXPECT_EQ(checked.model_size(), 2);
  EXPECT_EQ(PlaceOf(checked, "weights.from_job"), "job.textproto:9:11");
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(100);
  question.set_weights("base/ckpt/step-0000000040.1-00c0ffee00c0ffee");
  const PlanAnswer planned = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(planned.error(), 0) << planned.message();
  Plan plan;
  ASSERT_TRUE(plan.ParseFromString(planned.plan()));
  const Weights& weights = plan.spec().weights();
  EXPECT_EQ(weights.from_output(), question.weights());
  EXPECT_EQ(weights.from_job(), "");
  EXPECT_FALSE(weights.best());
  EXPECT_TRUE(weights.has_strict() && !weights.strict());
  EXPECT_FALSE(plan.has_weights_file());
}

TEST(PlanAnswer, ThePlanTellsWhatTheFileOfWeightsHolds) {
  PlanQuestion question = Question(std::string(kSpec) + "weights { from_output: \"base/model.safetensors\" }");
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(100);
  question.mutable_weights_file()->set_bytes(1000);
  question.mutable_weights_file()->set_chunk_bytes(4096);
  question.mutable_weights_file()->add_sum("0123456789abcdef0123456789abcdef");
  const PlanAnswer planned = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(planned.error(), 0) << planned.message();
  Plan plan;
  ASSERT_TRUE(plan.ParseFromString(planned.plan()));
  EXPECT_EQ(plan.weights_file().SerializeAsString(), question.weights_file().SerializeAsString());
  question.mutable_weights_file()->set_bytes(1001);
  EXPECT_NE(AnswerPlanQuestion(question, BuiltinLayerRules()).hash(), planned.hash()) << "all ranks must have the same";
}

TEST(PlanAnswer, AJobThatReadsNoFileIsPlannedWithTheFirstQuestion) {
  constexpr char kImage[] = "idx { path: [\"a.gz\", \"b.gz\"] }", kLabel[] = "idx { path: \"labels.idx.gz\" }";
  std::string text = kSpec;
  text.replace(text.find(kLabel), std::strlen(kLabel), "synthetic { kind: \"index\" samples: 100 high: 10 }");
  PlanQuestion question = Question(text);
  PlanAnswer first = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(first.error(), 0) << first.message();
  EXPECT_EQ(first.plan(), "") << "the images are in files";

  text.replace(text.find(kImage), std::strlen(kImage), "synthetic { kind: \"normal\" samples: 100 }");
  EXPECT_EQ(AnswerPlanQuestion(Question(text), BuiltinLayerRules()).plan(), "") << "it has no output_dir";
  text += "output_dir: \"out\"";
  question = Question(text);
  first = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(first.error(), 0) << first.message();
  EXPECT_EQ(first.spec().name(), "small");
  question.set_sized(true);
  question.add_size()->set_name("train");
  question.mutable_size(0)->set_samples(100);
  const PlanAnswer second = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(second.error(), 0) << second.message();
  EXPECT_EQ(first.plan(), second.plan());
  EXPECT_EQ(first.hash(), second.hash());
  EXPECT_EQ(first.hash().size(), 32);
  EXPECT_FALSE(second.has_spec());
}

TEST(PlanAnswer, AFolderThatTheSpecLeavesOutMayBeToldInAdvance) {
  std::string text = kSpec;
  for (const auto& [file, made] :
       {std::pair("idx { path: [\"a.gz\", \"b.gz\"] }", "synthetic { kind: \"normal\" samples: 100 }"),
        std::pair("idx { path: \"labels.idx.gz\" }", "synthetic { kind: \"index\" samples: 100 high: 10 }")}) {
    text.replace(text.find(file), std::strlen(file), made);
  }
  PlanQuestion question = Question(text);
  question.set_output_dir("job-17");
  const PlanAnswer first = AnswerPlanQuestion(question, BuiltinLayerRules());
  ASSERT_EQ(first.error(), 0) << first.message();
  Plan plan;
  ASSERT_TRUE(plan.ParseFromString(first.plan()));
  EXPECT_EQ(plan.spec().output_dir(), "job-17");
  EXPECT_EQ(first.spec().output_dir(), "") << "the spec is told as it was written";
  EXPECT_EQ(first.expected_size_size(), 0) << "they are certain";
  EXPECT_EQ(first.hash(), AnswerPlanQuestion(Question(text + "output_dir: \"job-17\""), BuiltinLayerRules()).hash());

  // A refusal does not name it.
  question.set_source(text + "checkpoint { every_steps: 10 }");
  const PlanAnswer refused = AnswerPlanQuestion(question, BuiltinLayerRules());
  EXPECT_THAT(refused.message(), HasSubstr("my-job/checkpoints"));
  question.clear_output_dir();
  EXPECT_EQ(AnswerPlanQuestion(question, BuiltinLayerRules()).message(), refused.message());
}

// What a planner answers that has seen the files of `seen`, and one that has seen nothing.
struct TwoAnswers {
  PlanAnswer knowing, fresh;
};
TwoAnswers AnswersTo(const std::string& text, int64_t seen_samples) {
  SeenSizes seen;
  PlanQuestion sized = Question(kSpec);
  sized.set_sized(true);
  sized.add_size()->set_name("train");
  sized.mutable_size(0)->set_samples(seen_samples);
  EXPECT_EQ(AnswerPlanQuestion(sized, BuiltinLayerRules(), &seen).error(), 0);
  PlanQuestion question = Question(text);
  question.set_output_dir("job-17");
  TwoAnswers answers = {AnswerPlanQuestion(question, BuiltinLayerRules(), &seen),
                        AnswerPlanQuestion(question, BuiltinLayerRules())};
  EXPECT_EQ(answers.knowing.error(), answers.fresh.error());
  EXPECT_EQ(answers.knowing.message(), answers.fresh.message());
  EXPECT_EQ(answers.knowing.spec().SerializeAsString(), answers.fresh.spec().SerializeAsString());
  EXPECT_EQ(answers.fresh.plan(), "") << "its files are to be looked at first";
  return answers;
}

TEST(PlanAnswer, ThePlanForSizesThatWereSeenIsTheOneForTheseSizes) {
  const std::string text = absl::StrReplaceAll(kSpec, {{"lr: 0.01", "lr: 0.02"}, {"small", "other"}});
  const PlanAnswer ahead = AnswersTo(text, 100).knowing;
  ASSERT_EQ(ahead.expected_size_size(), 1);
  EXPECT_EQ(ahead.expected_size(0).samples(), 100);
  PlanQuestion sized = Question(text);
  sized.set_output_dir("job-17");
  sized.set_sized(true);
  *sized.add_size() = ahead.expected_size(0);
  const PlanAnswer second = AnswerPlanQuestion(sized, BuiltinLayerRules());
  EXPECT_EQ(ahead.plan(), second.plan());
  EXPECT_EQ(ahead.hash(), second.hash());
  EXPECT_EQ(ahead.predicted().SerializeAsString(), second.predicted().SerializeAsString());
  EXPECT_EQ(ahead.memory(), second.memory());
  EXPECT_EQ(second.expected_size_size(), 0);
  EXPECT_EQ(PlaceOf(ahead, "dataset[0].field[1].idx.path[0]"), "job.textproto:7:31");
}

TEST(PlanAnswer, OnlyJobsOnTheSameFilesThatMayBePlannedNowAre) {
  const std::string text = kSpec;
  EXPECT_EQ(AnswersTo(absl::StrReplaceAll(text, {{"labels.idx.gz", "others.idx.gz"}}), 100).knowing.plan(), "");
  EXPECT_EQ(AnswersTo(text + "weights { from_job: \"base\" strict: false }", 100).knowing.plan(), "")
      << "a worker tells where they are";
  EXPECT_EQ(AnswersTo(absl::StrReplaceAll(text, {{"ranks: 1", "ranks: 8192"}}), 100).knowing.plan(), "")
      << "a large job is planned only with the sizes that are found";
  SeenSizes seen;
  PlanQuestion sized = Question(text);
  sized.set_sized(true);
  sized.add_size()->set_name("train");
  sized.mutable_size(0)->set_samples(100);
  ASSERT_EQ(AnswerPlanQuestion(sized, BuiltinLayerRules(), &seen).error(), 0);
  EXPECT_EQ(AnswerPlanQuestion(Question(text), BuiltinLayerRules(), &seen).plan(), "") << "its folder is not known";
  EXPECT_NE(AnswerPlanQuestion(Question(text + "output_dir: \"out\""), BuiltinLayerRules(), &seen).plan(), "");
}

TEST(PlanAnswer, WhatWasSeenIsLeftOutWhereTheQuestionSaysSoAndToldBeforeItIsUsed) {
  SeenSizes seen;
  PlanQuestion sized = Question(kSpec);
  sized.set_sized(true);
  sized.add_size()->set_name("train");
  sized.mutable_size(0)->set_samples(100);
  int guesses = 0;
  const auto count = [&] { ++guesses; };
  ASSERT_EQ(AnswerPlanQuestion(sized, BuiltinLayerRules(), &seen, count).error(), 0);
  EXPECT_EQ(guesses, 0) << "these are its own sizes";
  PlanQuestion question = Question(kSpec);
  question.set_output_dir("job-17");
  EXPECT_NE(AnswerPlanQuestion(question, BuiltinLayerRules(), &seen, count).plan(), "");
  EXPECT_EQ(guesses, 1);
  question.set_as_if_unseen(true);
  EXPECT_EQ(AnswerPlanQuestion(question, BuiltinLayerRules(), &seen, count).SerializeAsString(),
            AnswerPlanQuestion(question, BuiltinLayerRules()).SerializeAsString());
  EXPECT_EQ(guesses, 1);
}

// AnswersTo compares each answer with that of a planner that has seen nothing.
TEST(PlanAnswer, WhatWasSeenRefusesNoJobAndAcceptsNone) {
  const std::string text = kSpec;
  // With 10 samples this job has nothing to train on, and this one less memory than it takes: the second question
  // tells.
  const std::string drops = absl::StrReplaceAll(text, {{"epochs: 1", "epochs: 1 drop_last: true"}});
  const std::string limited =
      absl::StrReplaceAll(text, {{"batch: 64", "batch: 32768"}}) + "resources { memory_bytes: 67108864 }\n";
  for (const auto& [later, samples] : {std::pair(drops, 10), std::pair(limited, 32768)}) {
    const PlanAnswer checked = AnswersTo(later, samples).knowing;
    EXPECT_EQ(checked.error(), 0) << checked.message();
    EXPECT_EQ(checked.plan(), "");
  }
  // Two mistakes: the layer's is told, whatever was seen.
  const std::string wrong = absl::StrReplaceAll(drops, {{"flatten { arg: 1 }", "flatten { arg: 1 arg: 100 }"}});
  EXPECT_THAT(AnswersTo(wrong, 10).knowing.message(), HasSubstr("layer 0 \"flat\""));
  // Layouts for the 10 samples that are there, and not for the batch that the evaluation names.
  const std::string cut =
      absl::StrReplaceAll(text, {{"ranks: 1", "ranks: 2"},
                                 {"batch: 64", "batch: 10"},
                                 {"input: \"image\" flatten", "input: \"image\" x: \"batch\" flatten"},
                                 {"layer { name: \"fc\"",
                                  "layer { name: \"deal\" y: \"uneven\" repartition {} }\nlayer { name: \"fc\""}}) +
      "evaluate { dataset: \"train\" batch: 64 metric: \"accuracy\" }\n"
      "layout { name: \"batch\" partition: [2, 1, 1, 1] }\n"
      "layout { name: \"uneven\" partition: [2, 1] cut { dim: 0 size: [4, 6] } }\n";
  EXPECT_THAT(AnswersTo(cut, 10).knowing.message(), HasSubstr("program \"evaluate\""));
  PlanQuestion sized = Question(cut);
  sized.set_sized(true);
  sized.add_size()->set_name("train");
  sized.mutable_size(0)->set_samples(10);
  const PlanAnswer fits = AnswerPlanQuestion(sized, BuiltinLayerRules());
  EXPECT_EQ(fits.error(), 0) << fits.message();
}

// Nor are programs asked for of a spec that is none: AnswersTo compares again.
TEST(PlanAnswer, AWrongSpecOnFilesThatWereSeenIsToldAsAnyOther) {
  const std::string text = kSpec;
  for (const std::string& wrong :
       {absl::StrReplaceAll(text, {{"batch: 64", "batch: 0"}}), absl::StrReplaceAll(text, {{"batch: 64", ""}}),
        absl::StrReplaceAll(text, {{"train { dataset: \"train\"", "train { dataset: \"none\""}}),
        absl::StrReplaceAll(text, {{"batch: 64", "batch: 64 microbatches: 100"}}),
        absl::StrReplaceAll(text, {{"batch: 64", "batch: 64 validate_on: \"none\""}}),
        text + "evaluate { dataset: \"none\" metric: \"accuracy\" }",
        absl::StrReplaceAll(text, {{"TRAIN", "PREDICT"}})}) {
    EXPECT_NE(AnswersTo(wrong, 100).knowing.error(), 0) << wrong;
  }
}

TEST(PlanAnswer, APlanThatWouldLackAProgramIsNotMadeFirst) {
  LayerRules rules;
  ASSERT_EQ(AddBuiltinLayerRules(rules), absl::OkStatus());
  int plans = 0;
  const LayerRule counts = [&](const LayerRequest&) -> absl::StatusOr<LayerOutcome> {
    ++plans;
    return absl::UnimplementedError("no such layer");
  };
  ASSERT_EQ(rules.Register("counts", counts), absl::OkStatus());
  const std::string text = absl::StrReplaceAll(kSpec, {{"flatten { arg: 1 }", "custom { type: \"counts\" }"}});
  const std::string judged = text + "evaluate { dataset: \"train\" batch: 64 metric: \"accuracy\" }";
  SeenSizes seen;
  PlanQuestion sized = Question(kSpec);
  sized.set_sized(true);
  sized.add_size()->set_name("train");
  sized.mutable_size(0)->set_samples(10);
  ASSERT_EQ(AnswerPlanQuestion(sized, rules, &seen).error(), 0);
  // How often the rule is asked until the question is answered.
  const auto asked = [&](const std::string& spec, SeenSizes* known) {
    PlanQuestion question = Question(spec);
    question.set_output_dir("job-17");
    plans = 0;
    EXPECT_EQ(AnswerPlanQuestion(question, rules, known).error(), static_cast<int>(absl::StatusCode::kUnimplemented));
    return plans;
  };
  EXPECT_EQ(asked(text, &seen), 2 * asked(text, nullptr));
  // There is no evaluation in batches of 64 where there are 10 samples.
  EXPECT_EQ(asked(judged, &seen), asked(judged, nullptr));
}

TEST(PlanAnswer, TheFieldsOfDataFilesHavePlaces) {
  const PlanAnswer answer = AnswerPlanQuestion(Question(kSpec), BuiltinLayerRules());
  EXPECT_EQ(PlaceOf(answer, "dataset[0].field[1].idx.path[0]"), "job.textproto:7:31");
  EXPECT_EQ(PlaceOf(answer, "dataset[0].field[0].idx.path[1]"), "job.textproto:6:31");
  EXPECT_EQ(PlaceOf(answer, "dataset[0].field[1]"), "job.textproto:7:3");
  EXPECT_EQ(PlaceOf(answer, "dataset[0].field[1].scale"), "job.textproto:7:3");  // not written: the field around it
  EXPECT_EQ(PlaceOf(answer, "weights.init_from"), "job.textproto");
}

TEST(PlanAnswer, AMistakeIsAnErrorWithItsPlace) {
  const PlanAnswer answer = AnswerPlanQuestion(Question("name: \"x\"\nranks: many"), BuiltinLayerRules());
  EXPECT_EQ(answer.error(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(answer.message(), HasSubstr("job.textproto:2:8"));
}

TEST(PlanAnswer, WhatARuleThrowsIsAnError) {
  LayerRules rules;
  ASSERT_EQ(AddBuiltinLayerRules(rules), absl::OkStatus());
  const LayerRule throwing = [](const LayerRequest&) -> absl::StatusOr<LayerOutcome> {
    throw std::out_of_range("no such dim");
  };
  ASSERT_EQ(rules.Register("throws", throwing), absl::OkStatus());
  std::string text = kSpec;
  text.replace(text.find("flatten { arg: 1 }"), 18, "custom { type: \"throws\" }");
  const PlanAnswer answer = AnswerPlanQuestion(Question(text), rules);
  EXPECT_EQ(answer.error(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(answer.message(), "the planner threw \"no such dim\"");
}

TEST(PlanAnswer, APlanThatIsTooLargeIsRefused) {
  JobSpec spec;
  spec.set_ranks(4096);
  spec.add_layer();
  EXPECT_EQ(CheckPlanSize(256 << 20, spec), absl::OkStatus());
  const absl::Status refused = CheckPlanSize((256 << 20) + 1, spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()),
            "the job's plan has 268435457 bytes, for 1 layers on 4096 ranks; at most 268435456 are possible: take "
            "fewer ranks,"
            " or fewer layers");
}

}  // namespace
}  // namespace adjoin
