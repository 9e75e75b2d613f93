// A job spec, as text format or JSON: parsed, printed and parsed again, and planned.
#include <cstddef>
#include <cstdint>

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "tests/fuzz/check.h"

namespace adjoin {
namespace {

// Larger jobs take the same ways through the planner, for longer.
constexpr uint32_t kMaxRanks = 64;
constexpr int kMaxLayers = 64;

void Plans(const ParsedSpec& parsed) {
  if (parsed.spec.ranks() > kMaxRanks || parsed.spec.layer_size() > kMaxLayers) return;
  DatasetSizes sizes;
  for (const Dataset& dataset : parsed.spec.dataset()) sizes[dataset.name()] = 100;
  absl::StatusOr<Plan> plan = Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations);
  if (!plan.ok()) {
    FuzzCheck(!plan.status().message().empty(), "a refusal has a reason");
    return;
  }
  FuzzCheck(!Planner::Explain(*plan).empty(), "a plan can be explained");
  absl::StatusOr<Plan> again = Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations);
  FuzzCheck(again.ok() && Planner::Hash(*again) == Planner::Hash(*plan), "the same job has the same plan");
}

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<adjoin::ParsedSpec> parsed = adjoin::ParseSpec(text, "job.textproto");
  if (!parsed.ok()) {
    adjoin::FuzzCheck(parsed.status().code() == absl::StatusCode::kInvalidArgument, parsed.status().ToString());
    return 0;
  }
  adjoin::JobSpec copy;
  adjoin::FuzzCheck(copy.ParseFromString(parsed->spec.SerializeAsString()), "what was parsed can be sent");
  adjoin::Plans(*parsed);
  return 0;
}
