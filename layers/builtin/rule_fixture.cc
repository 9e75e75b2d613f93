#include "layers/builtin/rule_fixture.h"

#include <numeric>
#include <utility>

#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/named_layouts.h"
#include "planner/plan/operator_plan.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

constexpr uint32_t kRanks = 32;

}  // namespace

Layout Cut(const std::vector<int64_t>& shape, const std::vector<int64_t>& partition, Layout::Cuts cuts,
           int first_rank) {
  std::vector<int> ranks(VolumeOf(partition));
  std::iota(ranks.begin(), ranks.end(), first_rank);
  return Layout::Partition(shape, DType::kFloat32, partition, std::move(ranks), std::move(cuts)).value();
}

absl::StatusOr<LayerOutcome> ApplyRule(const std::string& layer, const std::vector<Layout>& inputs,
                                       const std::string& job, bool training) {
  JobSpec spec;
  const bool named = absl::StrContains(layer, "name:");
  const std::string text =
      absl::StrCat("ranks: ", kRanks, " ", job, " layer { ", named ? "" : "name: 'l' ", layer, " }");
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) {
    return absl::InvalidArgumentError(absl::StrCat("not the text of a job: ", text));
  }
  const NamedLayouts layouts = NamedLayouts::Create(spec).value();
  const LayerRule* rule = BuiltinLayerRules().Find(KindOf(spec.layer(0)));
  if (rule == nullptr) return absl::InvalidArgumentError(absl::StrCat("no rule of ", KindOf(spec.layer(0))));
  return (*rule)({spec.layer(0), inputs, layouts, DType::kFloat32, training});
}

std::string ErrorOf(const absl::StatusOr<LayerOutcome>& outcome) {
  return outcome.ok() ? "" : std::string(outcome.status().message());
}

std::vector<std::string> RolesOf(const std::vector<MovementNeed>& movements) {
  std::vector<std::string> roles;
  for (const MovementNeed& need : movements) {
    const OperatorPlan op =
        MakeOperator({.name = need.role, .from = need.from, .to = need.to, .readings = need.readings}, kRanks).value();
    if (!IsIdentity(op).value()) roles.push_back(need.role);
  }
  return roles;
}

}  // namespace adjoin
