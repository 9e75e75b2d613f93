#include "layers/attention/block_expansion.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using testing::ElementsAre;

JobSpec Parse(const std::string& text) {
  JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

// "name = kind(inputs)" of every layer.
std::vector<std::string> Shown(const JobSpec& spec) {
  std::vector<std::string> shown;
  for (const Layer& layer : spec.layer()) {
    shown.push_back(absl::StrCat(layer.name(), " = ", KindOf(layer), "(", absl::StrJoin(layer.input(), ", "), ")"));
  }
  return shown;
}

std::vector<std::string> Expanded(const std::string& layers) {
  const auto expanded = ExpandBlocks(Parse(layers));
  EXPECT_TRUE(expanded.ok()) << expanded.status();
  return Shown(expanded->spec);
}

std::string ErrorOf(const std::string& text) {
  const absl::Status status = ExpandBlocks(Parse(text)).status();
  return absl::StrCat(FieldOf(status), ": ", std::string(status.message()));
}

TEST(BlockExpansionTest, PreNorm) {
  EXPECT_THAT(Expanded("layer { name: 'a' input: 'x' add {} } layer { name: 'b' transformer { heads: 2 hidden: 8 } }"),
              ElementsAre("a = add(x)", "b.norm1 = norm(a)", "b.self_attn = attention(b.norm1)",
                          "b.residual1 = add(a, b.self_attn)", "b.norm2 = norm(b.residual1)",
                          "b.linear1 = linear(b.norm2)", "b.activation = activation(b.linear1)",
                          "b.linear2 = linear(b.activation)", "b = add(b.residual1, b.linear2)"));
}

TEST(BlockExpansionTest, PostNormWithDropout) {
  EXPECT_THAT(
      Expanded("layer { name: 'b' input: 'x' transformer { heads: 2 hidden: 8 norm_first: false dropout: 0.1 } }"),
      ElementsAre("b.self_attn = attention(x)", "b.dropout1 = dropout(b.self_attn)", "b.residual1 = add(x, b.dropout1)",
                  "b.norm1 = norm(b.residual1)", "b.linear1 = linear(b.norm1)", "b.activation = activation(b.linear1)",
                  "b.dropout = dropout(b.activation)", "b.linear2 = linear(b.dropout)",
                  "b.dropout2 = dropout(b.linear2)", "b.residual2 = add(b.norm1, b.dropout2)",
                  "b.norm2 = norm(b.residual2)", "b = pad(b.norm2)"));
}

TEST(BlockExpansionTest, SwinBlock) {
  const auto expanded =
      ExpandBlocks(Parse("layer { name: 'b' input: 'x' x: 'cut' y: 'out' transformer { heads: 2 hidden: 8 window: 4 "
                         "shift: [2, 1] dropout: 0.5 } }"));
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  EXPECT_THAT(Shown(expanded->spec),
              ElementsAre("b.norm1 = norm(x)", "b.attn = window_attention(b.norm1)", "b.dropout1 = dropout(b.attn)",
                          "b.residual1 = add(x, b.dropout1)", "b.norm2 = norm(b.residual1)",
                          "b.mlp.0 = linear(b.norm2)", "b.mlp.1 = activation(b.mlp.0)", "b.mlp.2 = dropout(b.mlp.1)",
                          "b.mlp.3 = linear(b.mlp.2)", "b.mlp.4 = dropout(b.mlp.3)", "b = add(b.residual1, b.mlp.4)"));
  EXPECT_THAT(expanded->spec.layer(0).x(), ElementsAre("cut"));
  EXPECT_THAT(expanded->spec.layer(3).x(), ElementsAre("cut"));
  EXPECT_EQ(expanded->spec.layer(8).y(), "cut");
  EXPECT_EQ(expanded->spec.layer(10).y(), "out");
  EXPECT_THAT(expanded->spec.layer(1).window_attention().shift(), ElementsAre(2, 1));
  Layer linear = expanded->spec.layer(8);
  const auto shape_of = [](const std::string& layer) {
    EXPECT_EQ(layer, "b.residual1");
    return std::vector<int64_t>{1, 8, 8, 6};
  };
  EXPECT_TRUE(expanded->CompleteLayer(8, shape_of, &linear).ok());
  EXPECT_EQ(linear.linear().out_features(), 6);
}

TEST(BlockExpansionTest, HeadsAndHiddenFeaturesAreCutAlike) {
  const auto expanded = ExpandBlocks(Parse(
      "layout { name: 'w' partition: [2, 1, 2] rank: [3, 1, 2, 0] cut { dim: 0 size: [1, 2] } cut { dim: 2 size: [2, "
      "4] } }"
      "layout { name: 'w.whole' partition: 1 }"
      "layer { name: 'b' input: 'x' x: 'x' w: 'w' home: SHARDED recompute: true transformer { heads: 3 hidden: 8 } }"
      "layer { name: 'c' w: 'w' transformer { heads: 3 hidden: 8 } }"));
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  const JobSpec& spec = expanded->spec;
  ASSERT_EQ(spec.layout_size(), 4);
  EXPECT_EQ(spec.layout(2).ShortDebugString(),
            "name: \"w.whole_\" rank: 3 rank: 1 rank: 2 rank: 0 mesh { size: 2 } mesh { size: 1 } mesh { size: 2 }"
            " sbp: \"S(0)\" sbp: \"S(1)\" sbp: \"B\" cut { size: 1 size: 2 }");
  EXPECT_EQ(spec.layout(3).ShortDebugString(),
            "name: \"w.hidden\" rank: 3 rank: 1 rank: 2 rank: 0 partition: 2 partition: 1"
            " partition: 2 cut { size: 1 size: 2 }");
  EXPECT_EQ(spec.layer(1).w(), "w");
  EXPECT_EQ(spec.layer(1).y(), "x");
  EXPECT_THAT(spec.layer(4).x(), ElementsAre("w.whole_"));
  EXPECT_EQ(spec.layer(4).y(), "w.hidden");
  EXPECT_EQ(spec.layer(6).y(), "x");
  EXPECT_EQ(spec.layer(14).y(), "w.whole_");
  EXPECT_EQ(spec.layer(6).home(), SHARDED);
  EXPECT_EQ(spec.layer(2).home(), HOME_DEFAULT) << "a sum has no parameters";
  EXPECT_TRUE(spec.layer(2).recompute());
}

// A mesh does not know the number of dims. The windows do, and the attention's input is checked against them.
TEST(BlockExpansionTest, WindowsWithAMesh) {
  const auto expanded =
      ExpandBlocks(Parse("layout { name: 'w' mesh { size: 2 } mesh { size: 2 } sbp: ['B', 'S(2)'] }"
                         "layer { name: 'b' input: 'x' w: 'w' transformer { heads: 2 hidden: 8 window: 8 } }"));
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  EXPECT_EQ(expanded->spec.layer(1).name(), "b.attn");
  Layer attention = expanded->spec.layer(1);
  const auto complete = [&](std::vector<int64_t> shape) {
    return expanded->CompleteLayer(
        1, [&](const std::string&) { return shape; }, &attention);
  };
  EXPECT_TRUE(complete({2, 64, 6}).ok());
  const absl::Status refused = complete({2, 8, 8, 6});
  EXPECT_EQ(FieldOf(refused), "window_attention.window");
  EXPECT_EQ(refused.message().substr(0, 48), "its input, 2x8x8x6, has 2 spatial dims: with a m");
  EXPECT_THAT(expanded->spec.layout(1).sbp(), ElementsAre("B", "B"));
  EXPECT_THAT(expanded->spec.layout(2).sbp(), ElementsAre("B", "S(2)"));
}

TEST(BlockExpansionTest, InitDrawsTheWeightsButNotTheNorms) {
  for (const char* window : {"", "window: 2"}) {
    const auto expanded = ExpandBlocks(Parse(absl::StrCat(
        "layer { name: 'b' input: 'x' init { kind: 'normal' gain: 0.02 } transformer { heads: 2 hidden: 8 ", window,
        "} }")));
    ASSERT_TRUE(expanded.ok()) << expanded.status();
    std::vector<std::string> drawn;
    for (const Layer& layer : expanded->spec.layer()) {
      if (layer.has_init()) drawn.push_back(KindOf(layer));
    }
    EXPECT_THAT(drawn, ElementsAre(*window == 0 ? "attention" : "window_attention", "linear", "linear"));
    const JobSpec user = Parse("layer { name: 'b' transformer {} }");
    EXPECT_EQ(FieldOf(expanded->AtUsersLayer(user, AtField("layer[1].init.kind", InvalidSpec("no")))),
              "layer[0].init.kind");
  }
}

TEST(BlockExpansionTest, ErrorsNameTheUsersFields) {
  EXPECT_EQ(ErrorOf("layer { name: 'b' input: 'x' transformer { hidden: 8 } }"),
            "layer[0].transformer.heads: transformer.heads is missing; it must be at least 1");
  EXPECT_EQ(
      ErrorOf("layer { name: 'b' input: 'x' transformer { heads: 1 hidden: 8 activation: 'gelo' } }").substr(0, 32),
      "layer[0].transformer.activation:");
  EXPECT_EQ(ErrorOf("layer { name: 'b' input: 'x' transformer { heads: 1 hidden: 8 shift: 1 } }"),
            "layer[0].transformer.shift[0]: transformer.shift is for a block with windows; write window, too");
  EXPECT_EQ(ErrorOf("layer { name: 'b' transformer { heads: 1 hidden: 8 } }"),
            "layer[0].input: input is missing: the first layer reads a field of the data set");
  EXPECT_EQ(
      ErrorOf("layer { name: 'b.norm2' input: 'x' add {} } layer { name: 'b' transformer { heads: 1 hidden: 8 } }"),
      "layer[1].name: its layer \"b.norm2\" has the name of another layer or of a field of the data; rename one");
  const JobSpec user = Parse("layer { name: 'a' add {} } layer { name: 'b' transformer { heads: 1 hidden: 8 } }");
  const auto expanded = ExpandBlocks(user);
  ASSERT_TRUE(expanded.ok()) << expanded.status();
  const absl::Status inner = AtField("layer[5].linear.out_features", InvalidSpec("too many"));
  const absl::Status status = expanded->AtUsersLayer(user, inner);
  EXPECT_EQ(FieldOf(status), "layer[1].transformer.hidden");
  EXPECT_EQ(status.message(), "its layer \"b.linear1\": too many");
  EXPECT_EQ(FieldOf(expanded->AtUsersLayer(user, AtField("layer[0].add", InvalidSpec("no")))), "layer[0].add");
  EXPECT_EQ(FieldOf(expanded->AtUsersLayer(user, AtField("loss[0]", InvalidSpec("no")))), "loss[0]");
}

}  // namespace
}  // namespace adjoin
