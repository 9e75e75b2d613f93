// The jobs of examples/networks: each is planned on one rank, and on eight with the batch cut, and has as many trained
// parameters as the network has elsewhere.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "verify/recut.h"

namespace adjoin {
namespace {

struct Network {
  std::string job;
  int64_t parameters = 0;
  bool counts_norms = true;  // false: the number is that of the parameters outside of batch norms
};

void PrintTo(const Network& network, std::ostream* out) { *out << network.job; }

// The numbers of torchvision's models, of the papers, and of the authors' programs.
std::vector<Network> Networks() {
  return {
      {"resnet50", 25557032},
      {"resnet152", 60192808},
      // 46,198,976 without the last layer; MedicalNet's, with one channel instead of three, has 46,155,072.
      {"resnet50-3d", 46198976 + 2048 * 400 + 400},
      {"densenet121", 7978856},
      // Table 2 of arXiv 2106.04560: 1,843 million, which is without the last layer.
      {"vit48", 1842775680 + 1664 * 1000 + 1000},
      {"unet3d-4", 19069955, /*counts_norms=*/false},
      {"unet3d-5", 0},
      {"unet3d-6", 0},
      {"unet3d-7", 0},
      {"unet-plus-plus", 9041601},
      // Seven convolutions, and three linear layers on 256 x 4 x 4 x 4.
      {"cosmoflow", 27 * (4 * 16 + 16 * 32 + 32 * 64 + 64 * 128 + 128 * 256 + 2 * 256 * 256) + 240 + 3 * 256 +
                        16384 * 2048 + 2048 + 2048 * 256 + 256 + 256 * 4 + 4},
      {"deepcam", 56454720},
  };
}

absl::StatusOr<JobSpec> Read(const std::string& job) {
  const std::string path = absl::StrCat("examples/networks/", job, ".textproto");
  std::ifstream file(path);
  if (!file.good()) return absl::NotFoundError(path);
  std::stringstream text;
  text << file.rdbuf();
  auto parsed = ParseSpec(text.str(), path);
  if (!parsed.ok()) return parsed.status();
  return std::move(parsed->spec);
}

int64_t ParametersOf(const Plan& plan, bool with_norms) {
  int64_t sum = 0;
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.buffer() || (!with_norms && absl::StrContains(parameter.name(), ".bn"))) continue;
    int64_t cells = 1;
    for (const int64_t extent : parameter.home().shape()) cells *= extent;
    sum += cells;
  }
  return sum;
}

class NetworkJob : public testing::TestWithParam<Network> {};

TEST_P(NetworkJob, HasNoLayoutsAndAllParameters) {
  const auto spec = Read(GetParam().job);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->layout_size(), 0);
  const auto plan = Planner::Build(*spec, {{"train", 1024}}, BuiltinLayerRules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  if (GetParam().parameters == 0) return;
  EXPECT_EQ(ParametersOf(*plan, GetParam().counts_norms), GetParam().parameters);
}

TEST_P(NetworkJob, IsPlannedWithTheBatchCutInEight) {
  const auto spec = Read(GetParam().job);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto plan = Planner::Build(Recut(*spec, 8), {{"train", 1024}}, BuiltinLayerRules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ProgramPlan& program = plan->program(0);
  for (const ValuePlan& value : program.value()) {
    EXPECT_EQ(value.layout().rank_size(), 8) << value.name();
    ASSERT_FALSE(value.layout().placement().empty()) << value.name();
    EXPECT_EQ(value.layout().placement(0), "S(0)") << value.name();
  }
}

// The encoder's and the decoder's convolutions of 3 x 3 x 3 with biases, norms with two parameters per channel,
// transposed convolutions of 2 x 2 x 2 without biases, and four classes.
TEST(NetworkJobs, UNetsHaveTheirLevels) {
  for (const int levels : {5, 6, 7}) {
    std::vector<int64_t> widths;
    for (int level = 0; level < levels; ++level) widths.push_back(level < 4 ? int64_t{32} << level : 320);
    int64_t expected = widths[0] * 4 + 4;
    const auto unit = [&](int64_t in, int64_t out) { expected += 27 * in * out + 3 * out; };
    for (int level = 0; level < levels; ++level) {
      unit(level == 0 ? 4 : widths[level - 1], widths[level]);
      unit(widths[level], widths[level]);
      if (level == 0) continue;
      expected += 8 * widths[level] * widths[level - 1];
      unit(2 * widths[level - 1], widths[level - 1]);
      unit(widths[level - 1], widths[level - 1]);
    }
    const auto spec = Read(absl::StrCat("unet3d-", levels));
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto plan = Planner::Build(*spec, {{"train", 1024}}, BuiltinLayerRules());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(ParametersOf(*plan, /*with_norms=*/true), expected) << levels << " levels";
  }
}

INSTANTIATE_TEST_SUITE_P(All, NetworkJob, testing::ValuesIn(Networks()), [](const auto& info) {
  std::string name = info.param.job;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace adjoin
