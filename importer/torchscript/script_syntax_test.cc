#include "importer/torchscript/script_syntax.h"

#include <cstdint>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Form = ScriptExpression::Kind;

constexpr char kNet[] = R"(class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : bool
  __annotations__["0"] = __torch__.torch.nn.modules.conv.Conv3d
  def forward(self: __torch__.Net,
    x: Tensor,
    pair: Tuple[Tensor, Tensor]) -> Tensor:
    # nothing
    weight = self.weight
    a, b, = torch.chunk(x, 2, -1)
    _0 = ops.prim.NumToTensor(torch.size(a, 0))
    y = torch.view(b, [int(_0), -1])
    _1 = torch.ones([2], dtype=11, layout=None)
    return torch.add((getattr(self, "0")).forward(y, ), CONSTANTS.c0, alpha=1.5000000000000001e-05)
def twice(x: Tensor) -> Tensor:
  return x
)";

TEST(ParseScriptTest, ReadsWhatATraceHas) {
  const auto file = ParseScript(kNet, "net.py");
  ASSERT_TRUE(file.ok()) << file.status();
  const ScriptClass& net = file->classes.at("Net");
  EXPECT_THAT(net.parameters, ElementsAre("weight"));
  EXPECT_TRUE(net.buffers.empty());
  EXPECT_EQ(file->functions.count("twice"), 1u);
  const ScriptMethod& forward = net.methods.at("forward");
  ASSERT_EQ(forward.parameters.size(), 3u);
  EXPECT_EQ(forward.parameters[1].type, "Tensor");
  EXPECT_EQ(forward.parameters[2].type, "Tuple");
  ASSERT_EQ(forward.body.size(), 6u);
  EXPECT_THAT(forward.body[1].targets, ElementsAre("a", "b"));
  EXPECT_TRUE(forward.body[1].unpacks);
  EXPECT_EQ(forward.body[1].value.items[3].kind, Form::kNegative);
  EXPECT_EQ(forward.body[1].line, 12);
  EXPECT_THAT(forward.body[4].value.names, ElementsAre("dtype", "layout"));
  EXPECT_TRUE(forward.body[5].returns);
  EXPECT_EQ(forward.body[5].value.items.back().real, 1.5000000000000001e-05);
}

TEST(ParseScriptTest, KeepsWhatIsNotStraight) {
  const auto file = ParseScript(
      "class Net(Module):\n  def forward(self: Net,\n    x: Tensor) -> Tensor:\n    y = x\n    if bool(y):\n      z = "
      "y\n"
      "    else:\n      z = x\n    return z\n  def other(self: Net) -> int:\n    return 1\n",
      "net.py");
  ASSERT_TRUE(file.ok()) << file.status();
  const ScriptMethod& forward = file->classes.at("Net").methods.at("forward");
  EXPECT_EQ(forward.control, "if");
  EXPECT_EQ(forward.control_line, 5);
  EXPECT_EQ(file->classes.at("Net").methods.at("other").control, "");
}

std::string Error(const std::string& text) { return std::string(ParseScript(text, "net.py").status().message()); }
std::string Method(const std::string& line) { return absl::StrCat("def f(x: Tensor) -> Tensor:\n  ", line, "\n"); }
std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(ParseScriptTest, NamesTheLineOfWhatIsWrong) {
  EXPECT_THAT(Error(Method("y = torch.add(x, ")), AllOf(HasSubstr("net.py:"), HasSubstr("cut off")));
  EXPECT_THAT(Error(Method("y = = x")),
              AllOf(HasSubstr("net.py:2: = in place of a value"), HasSubstr("torch.jit.save")));
  EXPECT_THAT(Error(Method("y = x y")), HasSubstr("y in place of the end of the line"));
  EXPECT_THAT(Error(Method("y = \"abc")), HasSubstr("a text without its end"));
  EXPECT_THAT(Error(Method("y = 99999999999999999999")), HasSubstr("the number 99999999999999999999"));
  EXPECT_THAT(Error(Method("y = x)")), HasSubstr("a bracket that nothing opens"));
  EXPECT_THAT(Error(Method("y = x $ 1")), HasSubstr("the character $"));
  EXPECT_THAT(Error(Method("y = f(a=1, 2)")), HasSubstr("an argument with its name"));
  EXPECT_THAT(Error("def f(x: Tensor) -> Tensor:\nreturn x\n"), HasSubstr("in place of a block"));
  EXPECT_THAT(Error("class A(Module):\n  a : int\nclass A(Module):\n  a : int\n"), HasSubstr("a second class A"));
}

TEST(ParseScriptTest, BoundsWhatIsNested) {
  for (const char* opening : {"(", "[", "{", "-", "f("}) {
    EXPECT_THAT(Error(Method(absl::StrCat("y = ", Repeated(opening, 100000)))), testing::Not("")) << opening;
    EXPECT_THAT(Error(Method(absl::StrCat("y = ", Repeated(opening, 200), "x", Repeated(")", 200)))), testing::Not(""));
  }
  EXPECT_THAT(Error(Method(absl::StrCat("y = x", Repeated(".a", 1000)))), HasSubstr("nested more than 100 deep"));
  // Brackets do not begin to count anew.
  const std::string in_brackets =
      absl::StrCat(Repeated("(", 60), "x", Repeated(absl::StrCat(Repeated(".a", 40), ")"), 60));
  EXPECT_THAT(Error(Method(absl::StrCat("y = ", in_brackets))), HasSubstr("nested more than 100 deep"));
  EXPECT_EQ(Error(Method(absl::StrCat("y = x", Repeated(".a", 90)))), "");
  EXPECT_THAT(Error(Method(absl::StrCat("y = [", Repeated("1, ", 300000), "]"))), HasSubstr("more than 500000 words"));
  std::string blocks;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&blocks, std::string(static_cast<size_t>(i), ' '), "a:\n");
  EXPECT_THAT(Error(blocks), HasSubstr("nested too deeply"));
}

TEST(ParseScriptTest, EveryCutAndAnyChangedByteIsAnErrorOrHarmless) {
  const std::string whole = kNet;
  std::mt19937_64 random(TestSeed());
  for (size_t i = 0; i < whole.size(); ++i) {
    ParseScript(whole.substr(0, i), "net.py").status().IgnoreError();
    std::string changed = whole;
    changed[i] = static_cast<char>(random());
    const auto file = ParseScript(changed, "net.py");
    EXPECT_TRUE(file.ok() || absl::IsDataLoss(file.status())) << file.status();
  }
}

}  // namespace
}  // namespace adjoin
