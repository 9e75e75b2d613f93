// Random networks on random layouts, and damaged jobs: the planner plans or refuses them with a reason.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

class RandomJob {
 public:
  explicit RandomJob(uint32_t seed) : random_(seed) {}

  int Pick(int from, int to) { return from + static_cast<int>(random_() % (to - from + 1)); }

  // A layout for tensors of `dims` dims; returns its name.
  std::string Layout(int dims, bool channels) {
    std::vector<int> parts(dims, 1);
    int product = 1;
    for (int dim = 0; dim < dims; ++dim) {
      if (dim == 1 && !channels) continue;
      const int wanted = Pick(1, 3);
      if (product * wanted <= ranks_) product *= parts[dim] = wanted;
    }
    std::vector<int> ranks(ranks_);
    for (int i = 0; i < ranks_; ++i) ranks[i] = i;
    std::shuffle(ranks.begin(), ranks.end(), random_);
    ranks.resize(product);
    const std::string name = absl::StrCat("p", count_++);
    absl::StrAppend(&layouts_, "layout { name: '", name, "' partition: [", absl::StrJoin(parts, ","), "] rank: [",
                    absl::StrJoin(ranks, ","), "] }\n");
    return name;
  }

  std::string Text() {
    ranks_ = Pick(1, 6);
    const int spatial = Pick(1, 3);
    std::string layers;
    std::string from = absl::StrCat("input: 'image' x: '", Layout(spatial + 2, false), "' ");
    for (int i = Pick(1, 3); i > 0; --i) {
      const std::string kernel = absl::StrCat("kernel: ", Pick(1, 3));
      const std::string window =
          absl::StrCat("window { ", kernel, " stride: ", Pick(1, 2), " pad_lo: ", Pick(0, 1), " }");
      const std::string same = absl::StrCat("window { ", kernel, " dilation: ", Pick(1, 2), " padding: 'same' }");
      const std::string y = Pick(0, 2) == 0 ? absl::StrCat("y: '", Layout(spatial + 2, false), "' ") : "";
      const std::string x =
          Pick(0, 2) == 0 && from.empty() ? absl::StrCat("x: '", Layout(spatial + 2, false), "' ") : "";
      const char* homes[] = {"", "home: OWNER ", "home: REPLICATED ", "home: SHARDED "};
      absl::StrAppend(&layers, "layer { name: 'l", i, "' ", from, x, y);
      const int kind = Pick(0, 4);
      absl::StrAppend(&layers, kind < 2 ? absl::StrCat(homes[Pick(0, 3)], "conv { out_channels: ", Pick(1, 3), " ",
                                                       Pick(0, 2) == 0 ? same : window, " } }\n")
                               : kind == 2
                                   ? absl::StrCat("upsample { mode: '", Pick(0, 1) == 0 ? "area" : "nearest-exact",
                                                  "' scale: 1.", Pick(1, 9), " } }\n")
                                   : absl::StrCat("pool { mode: 'max' ceil_mode: ", Pick(0, 1), " ", window, " } }\n"));
      from.clear();
      if (Pick(0, 3) > 0) continue;
      // Rows that broadcast, and elements in another order.
      absl::StrAppend(&layers, "layer { name: 'g", i, "' ", Pick(0, 1) == 0 ? x : "",
                      "pool { mode: 'avg' adaptive_size: 1 } }\nlayer { name: 'b", i, "' input: ['g", i, "', 'l", i,
                      "'] ", Pick(0, 1) == 0 ? y : "", Pick(0, 1) == 0 ? "add {} }\n" : "multiply {} }\n");
    }
    if (Pick(0, 3) == 0) {
      absl::StrAppend(&layers, "layer { name: 'm' y: '", Layout(spatial + 2, true), "' repartition {} }\n");
    }
    if (Pick(0, 2) == 0) {
      absl::StrAppend(&layers, "layer { name: 'r' ", Pick(0, 1) == 0 ? absl::StrCat("y: '", Layout(3, true), "' ") : "",
                      "reshape { arg: [-1, ", Pick(1, 2), "] } }\n");
    }
    absl::StrAppend(&layers, "layer { name: 'f' flatten {} }\n");
    const bool blocks = Pick(0, 2) > 0;
    absl::StrAppend(&layers, "layer { name: 'fc' ",
                    blocks ? absl::StrCat("w: '", Layout(2, true), "' ") : absl::StrCat("x: '", Layout(2, false), "' "),
                    Pick(0, 1) == 0 ? absl::StrCat("y: '", Layout(2, true), "' ") : "",
                    "linear { out_features: ", Pick(1, 4), " } }\n");
    std::vector<int> shape = {Pick(1, 2)};
    for (int i = 0; i < spatial; ++i) shape.push_back(Pick(2, 7));
    return JobText(ranks_, layouts_ + layers, absl::StrCat("[", absl::StrJoin(shape, ","), "]"), "fc");
  }

 private:
  std::mt19937 random_;
  int ranks_ = 1;
  int count_ = 0;
  std::string layouts_;
};

// A redistribution without copies sends at least the cells that each rank needs and does not hold.
int64_t CellsFromElsewhere(const OperatorPlan& op, uint32_t ranks) {
  const OperatorEnds ends = DistributionsOf(op).value();
  int64_t cells = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (const Piece& piece : ends.to.View(rank).pieces) {
      cells += piece.box.Volume();
      for (const Piece& own : ends.from.View(rank).pieces) cells -= piece.box.Intersect(own.box).Volume();
    }
  }
  return cells;
}

void CheckPlan(const Plan& plan) {
  const uint32_t ranks = plan.spec().ranks();
  std::set<uint32_t> ids;
  for (const ProgramPlan& program : plan.program()) {
    ASSERT_EQ(program.bytes_per_step_size(), static_cast<int>(ranks));
    for (const ValuePlan& value : program.value()) {
      const auto layout = LayoutFromProto(value.layout());
      ASSERT_TRUE(layout.ok()) << value.name() << " " << layout.status();
      EXPECT_FALSE(layout->HasKind(Placement::Kind::kPartial)) << value.name();
      for (int rank : layout->mesh().ranks()) EXPECT_LT(rank, static_cast<int>(ranks));
    }
    for (const OperatorPlan& op : program.op()) {
      EXPECT_TRUE(ids.insert(op.id()).second) << op.name();
      ASSERT_TRUE(DistributionsOf(op).ok()) << op.name();
      const Layout from = LayoutFromProto(op.from()).value(), to = LayoutFromProto(op.to()).value();
      int64_t bytes = 0;
      for (int64_t of_rank : op.bytes_forward()) bytes += of_rank;
      const bool only_cut = !from.HasKind(Placement::Kind::kBroadcast) && !from.HasKind(Placement::Kind::kPartial) &&
                            !to.HasKind(Placement::Kind::kBroadcast);
      if (!only_cut) continue;
      EXPECT_EQ(bytes, CellsFromElsewhere(op, ranks) * SizeOf(from.dtype())) << op.name();
      if (!op.differentiable()) continue;
      for (int64_t of_rank : op.bytes_adjoint()) bytes -= of_rank;
      EXPECT_EQ(bytes, 0) << op.name() << ": what goes there comes back";
    }
  }
}

TEST(PlannerRandomTest, NetworksArePlannedOrRefusedWithAReason) {
  int planned = 0;
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 1500; ++seed) {
    const std::string text = RandomJob(seed).Text();
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed << "\n" << text);
    const auto parsed = ParseSpec(text, "job.textproto");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const auto plan = Planner::Build(parsed->spec, {{"train", 19}}, BuiltinLayerRules(), &parsed->locations);
    if (plan.ok()) {
      ++planned;
      CheckPlan(*plan);
      EXPECT_FALSE(Planner::Explain(*plan).empty());
    } else {
      EXPECT_EQ(plan.status().message().substr(0, 14), "job.textproto:") << plan.status();
      EXPECT_NE(plan.status().code(), absl::StatusCode::kInternal) << plan.status();
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(planned, 300);
}

TEST(PlannerRandomTest, DamagedJobsNeverCrash) {
  const std::string original = kLeNet;
  const std::vector<std::string> bits = {
      "0",       "1",        "7",     "-1", "4294967295", "2147483648", "[0]",         "[]",          "1e300", "nan",
      "\"row\"", "\"grid\"", "[1,2]", "}",  "{",          "x: \"col\"", "w: \"w2x2\"", "y: \"chan\"", "\"\""};
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed);
    std::mt19937 random(seed);
    std::string text = original;
    for (int edits = 1 + random() % 2; edits > 0; --edits) {
      // Words are replaced, removed, or joined by another one.
      size_t at = random() % text.size();
      while (at > 0 && text[at - 1] != ' ' && text[at - 1] != ',' && text[at - 1] != '[') --at;
      size_t end = at;
      while (end < text.size() && text[end] != ' ' && text[end] != ',' && text[end] != ']') ++end;
      text.replace(at, random() % 4 == 0 ? 0 : end - at, bits[random() % bits.size()] + " ");
    }
    const auto parsed = ParseSpec(text, "job.textproto");
    if (!parsed.ok()) continue;
    const auto plan =
        Planner::Build(parsed->spec, {{"train", 100}, {"test", 30}}, BuiltinLayerRules(), &parsed->locations);
    if (!plan.ok()) {
      EXPECT_FALSE(plan.status().message().empty());
      EXPECT_NE(plan.status().code(), absl::StatusCode::kInternal) << plan.status();
    }
  }
}

}  // namespace
}  // namespace adjoin
