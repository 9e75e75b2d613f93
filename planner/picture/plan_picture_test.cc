// Pictures of whole plans: of the examples, of many ranks and layers, and with names that are no friends.
#include "planner/picture/plan_picture.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/amount_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/picture/drawing.h"
#include "planner/picture/row_folding.h"
#include "planner/picture/row_lanes.h"
#include "planner/plan/gradient_buckets.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Plan PlanOf(const std::string& text) {
  auto parsed = ParseSpec(text, "job.textproto");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  auto plan = Planner::Build(parsed->spec, {}, BuiltinLayerRules(), &parsed->locations);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

Plan PlanOfFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return PlanOf(text.str());
}

PicturePage PageOf(const Plan& plan) {
  auto page = PicturePageOf(plan, MakePlanReport(plan));
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? *std::move(page) : PicturePage();
}

// Why the text is no well-formed XML; "" where it is. Tags, attributes and entities, as our own files have them.
std::string WhatIsWrong(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
        known = known || xml.compare(at, std::string(entity).size(), entity) == 0;
      }
      if (!known) return "an ampersand: " + xml.substr(at, 40);
    }
    if (xml[at] != '<') {
      if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return "a control character";
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "no end: " + xml.substr(at, 40);
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag == "!DOCTYPE html") continue;
    if (tag.find('<') != std::string::npos) return "a tag in a tag: " + tag;
    int quotes = 0;
    for (const char c : tag) quotes += c == '"';
    if (quotes % 2 != 0) return "an odd quote: " + tag;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closed but not open: " + tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  return open.empty() ? "" : "open: " + open.back();
}

// Texts must not lie over each other, and nothing over the edge.
void ExpectReadable(const Drawing& drawing) {
  std::vector<Drawing::Shape> texts;
  for (const Drawing::Shape& shape : drawing.shapes()) {
    if (shape.kind == Drawing::Kind::kText) texts.push_back(shape);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const Drawing::Bounds a = Drawing::BoundsOf(texts[i]);
    EXPECT_GE(SizeOf(texts[i].text_style), 11);
    EXPECT_GE(a.left, 0) << texts[i].text;
    EXPECT_LE(a.right, 860) << texts[i].text;
    for (size_t j = 0; j < i; ++j) {
      const Drawing::Bounds b = Drawing::BoundsOf(texts[j]);
      const bool apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
      EXPECT_TRUE(apart) << "\"" << texts[i].text << "\" is over \"" << texts[j].text << "\" at " << a.left << ","
                         << a.top;
    }
  }
}

void ExpectGoodPictures(const Plan& plan) {
  const PlanReport report = MakePlanReport(plan);
  const auto svg = PlanSvg(plan, report), html = PlanHtml(plan, report);
  ASSERT_TRUE(svg.ok()) << svg.status();
  ASSERT_TRUE(html.ok()) << html.status();
  EXPECT_EQ(WhatIsWrong(*svg), "");
  EXPECT_EQ(WhatIsWrong(*html), "");
  EXPECT_EQ(*svg, *PlanSvg(plan, report)) << "equal plans, equal bytes";
  EXPECT_EQ(*html, *PlanHtml(plan, report));
  const std::string without_namespace = absl::StrReplaceAll(*svg, {{"http://www.w3.org/2000/svg", ""}});
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "<script", "<image", "<foreignObject"}) {
    EXPECT_THAT(without_namespace, Not(HasSubstr(outside)));
    EXPECT_THAT(*html, Not(HasSubstr(outside)));
  }
  ExpectReadable(DrawPage(PageOf(plan)));
}

class Examples : public testing::TestWithParam<std::string> {};

TEST_P(Examples, AreReadable) { ExpectGoodPictures(PlanOfFile(GetParam())); }

INSTANTIATE_TEST_SUITE_P(
    All, Examples,
    testing::Values("examples/mnist/lenet5-hybrid.textproto", "examples/mnist/lenet5-spatial.textproto",
                    "examples/mnist/lenet5-two-stage.textproto", "examples/mnist/lenet5-sync-sgd.textproto",
                    "examples/unet/unet2d.textproto", "examples/unet/unet3d.textproto",
                    "examples/resnet18/resnet18.textproto", "examples/vit/vit.textproto",
                    "examples/wavenet/wavenet.textproto", "examples/swin3d/swin3d.textproto",
                    "examples/brain/brain-predict.textproto", "examples/brain/brain-evaluate.textproto",
                    "examples/networks/resnet152.textproto", "examples/networks/densenet121.textproto",
                    "examples/networks/unet-plus-plus.textproto"),
    [](const auto& info) {
      std::string name = info.param.substr(info.param.rfind('/') + 1);
      for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
      return name;
    });

TEST(PlanPicture, AUNetsSkipsLieWithinEachOther) {
  const PicturePage page = PageOf(PlanOfFile("examples/unet/unet3d.textproto"));
  const RowLanes lanes = LanesOf(page.rows);
  // Two skips; and the head is read by the softmax and by a loss.
  std::vector<const RowLanes::Lane*> skips;
  for (const RowLanes::Lane& lane : lanes.lane) {
    if (lane.to.back() - lane.from > 3) skips.push_back(&lane);
  }
  ASSERT_EQ(skips.size(), 2u);
  const RowLanes::Lane &inner = *skips[0], &outer = *skips[1];
  EXPECT_EQ(page.rows[inner.from].layers.back(), "down2.relu2");
  EXPECT_EQ(page.rows[inner.to.back()].layers.front(), "skip2");
  EXPECT_EQ(page.rows[outer.from].layers.back(), "down1.relu2");
  EXPECT_EQ(page.rows[outer.to.back()].layers.front(), "skip1");
  EXPECT_LT(outer.from, inner.from);
  EXPECT_GT(outer.to.back(), inner.to.back());
  EXPECT_LT(inner.lane, outer.lane);
}

TEST(PlanPicture, EveryLayerAndMovementIsInARow) {
  const Plan plan = PlanOf(kLeNet);
  const PlanReport report = MakePlanReport(plan);
  const PicturePage page = PageOf(plan);
  std::vector<std::string> layers, movements;
  int peaks = 0;
  for (const PictureRow& row : page.rows) {
    layers.insert(layers.end(), row.layers.begin(), row.layers.end());
    for (const auto* list : {&row.before, &row.inside, &row.after}) {
      for (const MovementRow& movement : *list) movements.push_back(movement.name);
    }
    peaks += row.peak ? 1 : 0;
  }
  std::vector<std::string> expected_layers, expected_movements;
  for (const LayerPlan& layer : plan.program(0).layer()) expected_layers.push_back(layer.name());
  for (int op = 0; op < plan.program(0).op_size(); ++op) {
    if (op != static_cast<int>(plan.program(0).report_op()))
      expected_movements.push_back(plan.program(0).op(op).name());
  }
  EXPECT_EQ(layers, expected_layers);
  EXPECT_THAT(movements, testing::UnorderedElementsAreArray(expected_movements));
  EXPECT_EQ(peaks, 1) << report.memory().during();
  EXPECT_THAT(page.rows[1].layers, ElementsAre("conv1", "relu1"));
  EXPECT_EQ(page.rows[1].before[0].facts.kind, "halo exchange");
}

TEST(PlanPicture, BytesAreTheBusiestRanks) {
  const Plan plan = PlanOf(kLeNet);
  for (const PictureRow& row : PageOf(plan).rows) {
    for (const MovementRow& movement : row.before) {
      for (const OperatorPlan& op : plan.program(0).op()) {
        if (op.name() != movement.name) continue;
        int64_t most = 0;
        for (int rank = 0; rank < op.bytes_forward_size(); ++rank) {
          most = std::max(most, op.bytes_forward(rank) + (op.differentiable() ? op.bytes_adjoint(rank) : 0));
        }
        EXPECT_EQ(movement.facts.bytes, most) << op.name();
      }
    }
  }
}

// A picture shows the sums that are made: what `adjoin plan` lists.
TEST(PlanPicture, GradientsAreInTheSumsThatThePlanHas) {
  const Plan plan = PlanOfFile("examples/mnist/lenet5-hybrid.textproto");
  const auto sums = GradientSums(plan);
  ASSERT_TRUE(sums.ok()) << sums.status();
  std::map<std::string, ParameterRow> shown;
  for (const PictureRow& row : PageOf(plan).rows) {
    for (const ParameterRow& parameter : row.parameters) shown.emplace(parameter.name, parameter);
  }
  bool has_bucket = false;
  for (const GradientSum& sum : *sums) {
    const auto facts = FactsOf(sum.movement);
    ASSERT_TRUE(facts.ok()) << facts.status();
    int64_t bytes = 0, filling = 0;
    for (const int index : sum.parameters) {
      const ParameterRow& parameter = shown[plan.parameter(index).name()];
      SCOPED_TRACE(absl::StrCat(plan.parameter(index).name(), ": ", parameter.gradient));
      bytes += parameter.bytes;
      filling += 2 * sum.rows * static_cast<int64_t>(sizeof(float));
      EXPECT_THAT(parameter.gradient, HasSubstr(absl::StrCat(" in ", facts->messages, " message")));
      const bool with_others = sum.parameters.size() > 1;
      has_bucket = has_bucket || with_others;
      EXPECT_EQ(absl::StrContains(parameter.gradient, absl::StrCat(" with ", sum.parameters.size() - 1, " other")),
                with_others);
      EXPECT_EQ(absl::StrContains(parameter.gradient, absl::StrCat(" of ", BytesText(facts->bytes))), with_others);
    }
    EXPECT_LE(bytes, facts->bytes + filling);
    EXPECT_GE(bytes + filling, facts->bytes);
  }
  EXPECT_TRUE(has_bucket);
}

// A network of so many equal residual blocks.
std::string Residual(int blocks, int ranks) {
  std::string text = absl::StrCat("layout { name: \"g\" partition: [1, 1, ", ranks, ", 1] }\n",
                                  "layer { name: \"stem\" input: \"image\" x: \"g\" conv { out_channels: 4 window { "
                                  "kernel: 3 pad_lo: 1 } } }\n");
  std::string before = "stem";
  for (int i = 0; i < blocks; ++i) {
    absl::StrAppend(&text, "layer { name: \"b", i, ".conv\" input: \"", before,
                    "\" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }\nlayer { name: \"b", i,
                    ".add\" input: [\"b", i, ".conv\", \"", before, "\"] add {} }\n");
    before = absl::StrCat("b", i, ".add");
  }
  absl::StrAppend(
      &text, "layer { name: \"flat\" y: \"one\" repartition {} }\nlayer { name: \"f\" flatten { arg: 1 } }\n",
      "layer { name: \"head\" linear { out_features: 3 } }\nlayout { name: \"one\" partition: [1, 1, 1, 1] }\n");
  return JobText(ranks, text, absl::StrCat("[1, ", 4 * ranks, ", 8]"), "head");
}

TEST(PlanPicture, FoldsBlocksThatComeAgain) {
  const Plan plan = PlanOf(Residual(150, 4));
  const PicturePage page = PageOf(plan);
  EXPECT_GT(page.rows.size(), 300u);
  const std::vector<PictureRow> rows = FoldRows(page.rows);
  EXPECT_LT(rows.size(), 15u);
  size_t layers = 0;
  bool folded = false;
  for (const PictureRow& row : rows) {
    layers += row.layers.size();
    folded = folded || (row.kind == PictureRow::Kind::kFolded && absl::StrContains(row.title, "times more the 2 rows"));
  }
  EXPECT_TRUE(folded);
  EXPECT_EQ(layers, static_cast<size_t>(plan.program(0).layer_size())) << "none is lost";
  ExpectGoodPictures(plan);
}

TEST(PlanPicture, LeavesOutTheMiddleOfWhatIsTooLong) {
  const PicturePage page = PageOf(PlanOfFile("examples/networks/densenet121.textproto"));
  const std::vector<PictureRow> rows = FoldRows(page.rows, /*most=*/40);
  ASSERT_EQ(rows.size(), 40u);
  EXPECT_EQ(rows[30].kind, PictureRow::Kind::kLeftOut);
  EXPECT_THAT(rows[30].title, HasSubstr("rows are not drawn"));
  for (int row = 0; row < 40; ++row) {
    for (const int input : rows[row].inputs) EXPECT_LT(input, row);
  }
}

TEST(PlanPicture, ManyRanksAreReadable) {
  for (const int ranks : {17, 64, 2000}) ExpectGoodPictures(PlanOf(Residual(2, ranks)));
}

TEST(PlanPicture, NamesAreTextAndNeverMarkup) {
  Plan plan = PlanOf(kLeNet);
  const std::string hostile = "<script>alert(1)</script>\"'&]]>--><svg onload=x>\x1b[31m\x01\xe2\x80\xae";
  plan.mutable_spec()->set_name(hostile + std::string(5000, 'W'));
  for (ProgramPlan& program : *plan.mutable_program()) {
    program.set_dataset(hostile);
    for (LayerPlan& layer : *program.mutable_layer()) layer.set_name(hostile + layer.name());
    for (OperatorPlan& op : *program.mutable_op()) op.set_name(hostile + op.name());
    for (ValuePlan& value : *program.mutable_value()) value.set_name(hostile + std::string(3000, 'x'));
  }
  for (ParameterPlan& parameter : *plan.mutable_parameter()) parameter.set_name(hostile + std::string(300, 'y'));
  ExpectGoodPictures(plan);
  const PlanReport report = MakePlanReport(plan);
  EXPECT_THAT(*PlanHtml(plan, report), Not(HasSubstr("<svg onload")));
  EXPECT_THAT(*PlanSvg(plan, report), Not(HasSubstr("<svg onload")));
}

TEST(PlanPicture, OfNothingIsAnError) {
  EXPECT_THAT(std::string(PlanSvg(Plan(), PlanReport()).status().message()), HasSubstr("without programs"));
}

}  // namespace
}  // namespace adjoin
