// Archives that are made here, most of them such as PyTorch does not write.
#include "importer/torchscript/script_inliner.h"

#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "importer/archive/testing/zip_bytes.h"
#include "importer/torchscript/script_archive.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPickle("\x80\x02", 2);

std::string Key(const std::string& name) {
  return absl::StrCat("X", std::string(1, static_cast<char>(name.size())), std::string(3, '\0'), name);
}
// An object of a class in code/__torch__.py, whose attributes are given as pickles.
std::string Object(const std::string& type, const std::vector<std::pair<std::string, std::string>>& attributes = {}) {
  std::string pickle = absl::StrCat("c__torch__\n", type, "\n)\x81}(");
  for (const auto& [name, value] : attributes) absl::StrAppend(&pickle, Key(name), value);
  return absl::StrCat(pickle, "ub");
}

absl::StatusOr<OpGraph> InlineBytes(const std::string& bytes) {
  const std::string path = absl::StrCat(testing::TempDir(), "/model.pt");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  auto archive = ScriptArchive::Open(path);
  if (!archive.ok()) return archive.status();
  return InlineScript(**archive, {{{2, 3}, std::nullopt}});
}

absl::StatusOr<OpGraph> Inline(const std::string& code, const std::string& model = Object("Net")) {
  return InlineBytes(ZipBytes({{"m/data.pkl", absl::StrCat(kPickle, model, ".")},
                               {"m/constants.pkl", absl::StrCat(kPickle, ").")},
                               {"m/code/__torch__.py", code}}));
}

std::string Net(const std::string& body) {
  return absl::StrCat("class Net(Module):\n  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n", body);
}
std::string Error(const std::string& body) { return std::string(Inline(Net(body)).status().message()); }

TEST(InlineScriptTest, PutsMethodsIntoEachOther) {
  const auto graph = Inline(
      absl::StrCat(
          Net("    part = self.part\n    y = (part).forward(x, )\n    n = ops.prim.NumToTensor(torch.size(y, 1))\n"
              "    return torch.add_((part).forward1(y, ), torch.view(y, [-1, int(n)]), alpha=2)\n"),
          "class Part(Module):\n  def forward(self: __torch__.Part,\n    x: Tensor) -> Tensor:\n"
          "    return torch.relu(x)\n  def forward1(self: __torch__.Part,\n    x: Tensor) -> Tensor:\n"
          "    return torch.clamp(x, 0, None)\n"),
      Object("Net", {{"part", Object("Part")}}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> nodes;
  for (const OpNode& node : graph->nodes) nodes.push_back(absl::StrCat(node.module, " ", node.target));
  EXPECT_THAT(nodes, ElementsAre("part torch.ops.aten.relu.default", "part torch.ops.aten.clamp.default",
                                 " torch.ops.aten.view.default", " torch.ops.aten.add_.Tensor"));
  EXPECT_EQ(graph->nodes[0].module_type, "Part");
  EXPECT_TRUE(graph->nodes[3].in_place);
  EXPECT_EQ(graph->nodes[3].Float("alpha", 1), 2);
  EXPECT_THAT(graph->nodes[2].Ints("size"), ElementsAre(-1, 3));
  EXPECT_FALSE(graph->nodes[1].Has("max"));
  EXPECT_THAT(graph->tensors.at(graph->outputs.at(0)).shape, ElementsAre(2, 3));
}

// Nothing reads what they return: the importer has to see that they change `x`, or what it cannot know.
TEST(InlineScriptTest, WhatChangesATensorIsNotLost) {
  const auto graph = Inline(Net("    _0 = torch.index_put_(x, [None, x], 1)\n    return x\n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const OpNode& node = graph->nodes.back();
  EXPECT_TRUE(node.in_place);
  EXPECT_EQ(node.Tensor("self"), graph->outputs.at(0));
  const auto foreign = Inline(Net("    ops.mine.write_(x)\n    return x\n"));
  ASSERT_TRUE(foreign.ok()) << foreign.status();
  EXPECT_EQ(foreign->nodes.back().target, "torch.ops.mine.write_");
  EXPECT_TRUE(foreign->nodes.back().outputs.empty()) << "that is how the importer knows it";
}

// A list is a value here, so what changes one would be lost: cat([x]) in place of cat([x, y]).
TEST(InlineScriptTest, RefusesWhatChangesAList) {
  for (const char* line :
       {"torch.append(xs, x)", "_0 = torch.append(xs, x)", "_0 = torch._set_item(xs, 0, x)",
        "_0 = torch.extend(xs, [x])", "torch.insert(xs, 0, x)", "_0 = torch.pop(xs)", "torch.clear(xs)",
        "torch.reverse(xs)", "ops.aten.append(xs, x)", "torch.append([], x)", "torch.append(self=xs, el=x)"}) {
    EXPECT_THAT(Error(absl::StrCat("    xs = [x]\n    ", line, "\n    return torch.cat(xs, 1)\n")),
                AllOf(HasSubstr("code/__torch__.py:5: torch.ops.aten."), HasSubstr(" in the model itself: "),
                      HasSubstr("may change the "), HasSubstr("right would be a list that is written whole")))
        << line;
  }
  EXPECT_THAT(Error("    _0 = torch._set_item({\"a\": x}, \"a\", x)\n    return x\n"),
              HasSubstr("may change the dict that it is given; right would be tensors"));
  EXPECT_THAT(Error("    xs = [x]\n    xs0 = torch.add_(xs, [x])\n    return torch.cat(xs, 1)\n"),
              HasSubstr("torch.ops.aten.add_ in the model itself: its arguments"));
  EXPECT_TRUE(Inline(Net("    return torch.hstack([x, x])\n")).ok()) << "its result is a new tensor";
}

TEST(InlineScriptTest, ReadsNumbersOfSizes) {
  const auto graph =
      Inline(Net("    n = ops.prim.NumToTensor(torch.size(x, 1))\n"
                 "    return torch.narrow(x, 1, torch.sub(n, 2), 2)\n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.back().target, "torch.ops.aten.narrow.default");
  EXPECT_EQ(graph->nodes.back().Int("start", 0), 1);
  const auto length = Inline(Net("    return torch.mul(x, torch.len(x))\n"));
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(length->nodes.back().arguments.at("other").kind, OpArgument::Kind::kOther) << "computed, and refused";
}

TEST(InlineScriptTest, NamesTheLineOfWhatNoTraceHas) {
  EXPECT_THAT(Error("    return (self).forward(x, )\n"),
              AllOf(HasSubstr("code/__torch__.py:2"), HasSubstr("__torch__.Net.forward calls itself")));
  EXPECT_THAT(Error("    return CONSTANTS.c7\n"), HasSubstr("__torch__.py:4: there is no constant c7"));
  EXPECT_THAT(Error("    return torch.relu(1)\n"), HasSubstr("torch.ops.aten.relu in the model itself: its arguments"));
  EXPECT_THAT(Error("    return (x).forward(x, )\n"), HasSubstr("the method forward is of what is no module"));
  EXPECT_THAT(Error("    return x[0]\n"), HasSubstr("an index is of no list"));
  EXPECT_THAT(Error("    return self.weight\n"), HasSubstr("has no attribute weight"));
  EXPECT_THAT(Error("    return (self).backward(x, )\n"), HasSubstr("has no method backward"));
  EXPECT_THAT(Error("    return y\n"), HasSubstr("the name y is not defined"));
  EXPECT_THAT(Error("    return eval(x)\n"), HasSubstr("the function eval is not known"));
  EXPECT_THAT(Error("    return os.system(x)\n"), HasSubstr("the function os.system is not known"));
  EXPECT_THAT(Error("    return __torch__.other(x)\n"), HasSubstr("it has no function other"));
  EXPECT_THAT(Error("    a, b, c, = torch.chunk(x, 2)\n    return a\n"), HasSubstr("there are 3 names for 2 values"));
  EXPECT_THAT(Error("    for i in x:\n      y = i\n    return x\n"), HasSubstr("has `for`"));
  EXPECT_THAT(Error("    return 1\n"), HasSubstr("returns no tensor"));
  EXPECT_THAT(std::string(Inline("class Other(Module):\n  a : int\n").status().message()), HasSubstr("no class Net"));
}

TEST(InlineScriptTest, BoundsWhatCallsEachOther) {
  const auto chain = [](const std::string& line) {
    std::string code = "class Net(Module):\n";
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&code, "  def ", i == 0 ? "forward" : absl::StrCat("f", i),
                      "(self: Net,\n    x: Tensor) -> Tensor:\n", "    y = (self).f", i + 1, "(x, )\n    z = (self).f",
                      i + 1, "(x, )\n    return z\n");
    }
    return absl::StrCat(code, "  def f40(self: Net,\n    x: Tensor) -> Tensor:\n    return ", line, "\n");
  };
  EXPECT_THAT(std::string(Inline(chain("x")).status().message()), HasSubstr("more often than"));
  EXPECT_THAT(std::string(Inline(chain("torch.relu(x)")).status().message()), HasSubstr("more than 20000 operators"));
  std::string doubled = "    a0 = [x, x]\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&doubled, "    a", i + 1, " = [a", i, ", a", i, "]\n");
  EXPECT_THAT(Error(doubled + "    return x\n"), HasSubstr("a list has more than"));
  std::string model = Object("Net");
  for (int i = 0; i < 100; ++i) model = Object("Net", {{"part", model}});
  EXPECT_THAT(std::string(Inline(Net("    return x\n"), model).status().message()),
              HasSubstr("nested more than 60 deep"));
  // A module that has itself as its part.
  const std::string cycle = absl::StrCat("c__torch__\nNet\n)\x81q\x01}(", Key("part"), "h\x01ub");
  EXPECT_TRUE(Inline(Net("    part = self.part\n    return x\n"), cycle).ok());
}

// A stack of its own in each of 20,000 operators would be gigabytes.
TEST(InlineScriptTest, OperatorsShareTheModulesThatTheyRunIn) {
  std::string code = Net("    return (self.part).forward(x, )\n"), model = Object("Part0");
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(
        &code, "class Part", i, "(Module):\n  def forward(self: Part,\n    x: Tensor) -> Tensor:\n",
        i == 0 ? "    y = torch.relu(x)\n    return torch.relu(y)\n" : "    return (self.part).forward(x, )\n");
    if (i > 0) model = Object(absl::StrCat("Part", i), {{"part", model}});
  }
  const auto graph = Inline(code, Object("Net", {{"part", model}}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->nodes.size(), 2u);
  EXPECT_EQ(graph->nodes[0].innermost, graph->nodes[1].innermost);
  std::vector<std::string> types;
  for (const OpModule* module = graph->nodes[0].innermost.get(); module != nullptr; module = module->outer.get()) {
    types.push_back(module->type);
  }
  ASSERT_EQ(types.size(), 21u);
  EXPECT_EQ(types.front(), "Part0");
  EXPECT_EQ(types.back(), "Net");
  EXPECT_EQ(graph->nodes[0].module, graph->nodes[0].innermost->path);
}

// Extents are not known behind an operator that is not: how many parts there are, the method tells.
TEST(InlineScriptTest, TakesApartWhatFollowsAnUnknownOperator) {
  const auto graph =
      Inline(Net("    y = torch.lgamma_of_mine(x)\n    _1 = torch.chunk(y, 3, 1)\n    a, b, c, = _1\n"
                 "    _2 = ops.mine.halves(y)\n    d, e, = _2\n    return torch.add(c, e)\n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->nodes.size(), 4u);
  EXPECT_EQ(graph->nodes[0].target, "torch.ops.aten.lgamma_of_mine");
  EXPECT_EQ(graph->nodes[1].outputs.size(), 3u);
  EXPECT_EQ(graph->nodes[2].outputs.size(), 2u);
  EXPECT_EQ(graph->nodes[3].Tensor("self"), graph->nodes[1].outputs[2]);
}

TEST(InlineScriptTest, BoundsTextsAndResults) {
  const std::string word(1000, 'w');
  std::string texts = absl::StrCat("    a0 = [\"", word, "\"]\n");
  for (int i = 0; i < 14; ++i) absl::StrAppend(&texts, "    a", i + 1, " = [a", i, ", a", i, "]\n");
  EXPECT_THAT(Error(texts + "    return x\n"), HasSubstr("a list has more than 100000 values"));
  std::string many;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&many, "a", i, ", ");
  EXPECT_THAT(Error(absl::StrCat("    ", many, "= ops.mine.parts(x)\n    return a0\n")),
              HasSubstr("torch.ops.mine.parts in the model itself: it has 5000 results; right would be at most 4096"));
  const auto graph = Inline(Net(absl::StrCat("    return ops.mine.", word, "(x)\n")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->outputs[0].size(), 64u);
}

TEST(InlineScriptTest, RefusesPicklesOfOtherThings) {
  const auto message = [](const std::string& pickle) {
    return std::string(Inline(Net("    return x\n"), pickle).status().message());
  };
  EXPECT_THAT(message("cos\nsystem\n)\x81}("), AllOf(HasSubstr("names the function os system"), HasSubstr("executed")));
  EXPECT_THAT(message("c__torch__\nNet\n(K\x01t\x81"), HasSubstr("it makes an object of no class"));
  EXPECT_THAT(message("]K\x01"
                      "a"),
              HasSubstr("its data.pkl has no module"));
  EXPECT_THAT(message("K\x01K\x02"
                      "a"),
              HasSubstr("no list"));
}

TEST(InlineScriptTest, EveryCutAndAnyChangedByteIsAnErrorOrHarmless) {
  std::ostringstream whole;
  whole << std::ifstream("importer/testdata/traced_refused.pt", std::ios::binary).rdbuf();
  const std::string bytes = whole.str();
  ASSERT_GT(bytes.size(), 1000u);
  for (size_t i = 0; i < bytes.size(); i += 13) EXPECT_FALSE(InlineBytes(bytes.substr(0, i)).ok()) << i;
  std::mt19937_64 random(TestSeed());
  for (size_t i = 0; i < bytes.size(); i += 5) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(random());
    const auto graph = InlineBytes(changed);
    if (!graph.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(graph.status()) || absl::IsInvalidArgument(graph.status())) << graph.status();
    }
  }
}

}  // namespace
}  // namespace adjoin
