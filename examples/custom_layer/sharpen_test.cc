// The layer without its serial function: verify compares it with itself on one rank, and says so. And what verify says
// where a rule refuses a number of ranks.
#include "examples/custom_layer/sharpen.h"
#include "layers/builtin/builtin_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "examples/custom_layer/sharpen_rule.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/registry.h"
#include "layers/rules/spec_error.h"
#include "planner/spec/spec_parser.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

ParsedSpec Job() {
  std::ifstream file("examples/custom_layer/sharpened.textproto");
  std::stringstream text;
  text << file.rdbuf();
  auto parsed = ParseSpec(text.str(), "sharpened.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *std::move(parsed);
}

LayerRegistry Layers() {
  LayerRegistry layers = BuiltinLayers();
  layers.Register("sharpen", BuildSharpen);
  return layers;
}

TEST(SharpenTest, EqualsItselfOnOneRank) {
  const LayerRegistry layers = Layers();
  VerifyOptions options;
  options.ranks = {1, 2, 4};
  options.steps = 2;
  options.rules = &RulesWithSharpen();
  options.layers = &layers;
  const auto result = Verify(Job(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->deviates()) << ReportText(*result);
  EXPECT_THAT(result->own_layers, UnorderedElementsAre("sharpen1", "sharpen2"));
  EXPECT_THAT(ReportText(*result), HasSubstr("compared with itself on one rank: sharpen1, sharpen2."));
}

TEST(SharpenTest, SharedWeightsNeedASerialFunction) {
  ParsedSpec job = Job();
  ASSERT_EQ(job.spec.layer(4).name(), "sharpen2");
  job.spec.mutable_layer(4)->set_weights_of("sharpen1");
  const LayerRegistry layers = Layers();
  VerifyOptions options;
  options.rules = &RulesWithSharpen();
  options.layers = &layers;
  const auto result = Verify(job, options);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("layer \"sharpen2\" uses the weights of layer \"sharpen1\", but verify has no serial function"
                        " for their kind \"sharpen\", which it then needs"));
}

TEST(SharpenTest, WithoutItsRuleTheJobIsRefused) {
  const auto result = Verify(Job(), VerifyOptions());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("layer type \"sharpen\" is not known"));
}

// Sharpens on one rank or four only.
absl::StatusOr<LayerOutcome> PickyRule(const LayerRequest& request) {
  if (request.input[0].mesh().size() == 2) return InvalidSpec("it does not run on two ranks");
  return SharpenRule(request);
}

TEST(SharpenTest, WhatThePlannerRefusesIsShownForThatNumberOfRanks) {
  LayerRules rules;
  ASSERT_TRUE(AddBuiltinLayerRules(rules).ok());
  ASSERT_TRUE(rules.Register("sharpen", PickyRule).ok());
  const LayerRegistry layers = Layers();
  VerifyOptions options;
  options.ranks = {2, 4};
  options.rules = &rules;
  options.layers = &layers;
  const auto result = Verify(Job(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->deviates());
  EXPECT_FALSE(result->runs[1].deviates()) << ReportText(*result);
  EXPECT_THAT(ReportText(*result),
              HasSubstr("2 ranks, layouts re-cut\n  NOT VERIFIED: layer 1 \"sharpen1\": it does not run on two ranks"));
}

}  // namespace
}  // namespace adjoin
