#include "coordinator/spec_planning.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/planner.h"
#include "layers/plan/spec_parser.h"

namespace adjoin {
namespace {

absl::StatusOr<ParsedSpec> Parse(const SubmitRequest& request) {
  if (!request.spec_source().empty()) {
    return ParseSpec(request.spec_source(), request.spec_file().empty() ? "spec" : request.spec_file());
  }
  if (request.spec().ByteSizeLong() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the spec has ", request.spec().ByteSizeLong(), " bytes; at most ", kMaxSpecBytes, " are allowed"));
  }
  return ParsedSpec{request.spec(), SpecLocations()};
}

absl::StatusOr<PlannedJob> MakePlan(const ParsedSpec& parsed, const std::vector<DatasetSize>& sizes,
                                    const LayerRules& rules) {
  DatasetSizes by_name;
  for (const DatasetSize& size : sizes) by_name[size.name()] = size.samples();
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, by_name, rules, &parsed.locations));
  return PlannedJob{plan.SerializeAsString(), Planner::Hash(plan)};
}

}  // namespace

absl::StatusOr<Submission> ReadSubmission(const SubmitRequest& request, const LayerRules& rules) {
  if (request.priority() != 0) return absl::UnimplementedError("priorities are not supported yet: leave it 0");
  if (!request.idempotency_key().empty()) {
    return absl::UnimplementedError("idempotency keys are not supported yet: leave it empty");
  }
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, Parse(request));
  ADJOIN_RETURN_IF_ERROR(MakePlan(parsed, {}, rules).status());
  auto shared = std::make_shared<const ParsedSpec>(std::move(parsed));
  return Submission{shared->spec,
                    [shared, &rules](const std::vector<DatasetSize>& sizes) { return MakePlan(*shared, sizes, rules); },
                    [shared](const std::string& field) { return shared->locations.At(field); }};
}

}  // namespace adjoin
