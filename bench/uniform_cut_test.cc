// The examples, cut in one way throughout: each is planned, and its first layers are cut as asked.
#include "bench/uniform_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

absl::StatusOr<JobSpec> Read(const std::string& path) {
  std::ifstream file(path);
  if (!file.good()) return absl::NotFoundError(path);
  std::stringstream text;
  text << file.rdbuf();
  auto parsed = ParseSpec(text.str(), path);
  if (!parsed.ok()) return parsed.status();
  return std::move(parsed->spec);
}

class Example : public testing::TestWithParam<const char*> {};

TEST_P(Example, IsPlannedInEveryUniformCut) {
  const auto spec = Read(absl::StrCat("examples/", GetParam(), ".textproto"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  JobSpec short_job = *spec;
  const absl::Status made = MakeMeasurable(3, BuiltinLayerRules(), &short_job);
  ASSERT_TRUE(made.ok()) << made;
  const auto as_written = Planner::Build(short_job, {}, BuiltinLayerRules());
  ASSERT_TRUE(as_written.ok()) << as_written.status();
  const JobSpec uncut = Uncut(short_job);
  EXPECT_EQ(uncut.layout_size(), 0);
  const auto serial = Planner::Build(uncut, {}, BuiltinLayerRules());
  ASSERT_TRUE(serial.ok()) << serial.status();
  int planned = 0;
  for (const int dim : {0, 2, 3, 4}) {
    const auto cut = CutUniformly(uncut, dim, 4, BuiltinLayerRules());
    if (!cut.ok()) continue;
    const auto plan = Planner::Build(*cut, {}, BuiltinLayerRules());
    EXPECT_TRUE(plan.ok()) << "dim " << dim << ": " << plan.status();
    if (!plan.ok()) continue;
    ++planned;
    const LayoutPlan& first = plan->program(0).value(0).layout();
    ASSERT_EQ(first.rank_size(), 4);
    EXPECT_NE(std::find(first.placement().begin(), first.placement().end(), absl::StrCat("S(", dim, ")")),
              first.placement().end());
  }
  EXPECT_GE(planned, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Example,
                         testing::Values("mnist/lenet5-spatial", "mnist/lenet5-hybrid", "unet/unet2d", "unet/unet3d",
                                         "residual-unet/residual-unet", "resnet18/resnet18", "vit/vit",
                                         "wavenet/wavenet", "swin3d/swin3d", "brain/brain-train",
                                         "deep-prior/deep-prior"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace adjoin
