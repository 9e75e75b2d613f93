#include "coordinator/services/spec_planning.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxPlanBytes = 256 << 20;

absl::StatusOr<ParsedSpec> Parse(const std::string& source, const std::string& file, const JobSpec& spec) {
  if (!source.empty()) return ParseSpec(source, file.empty() ? "spec" : file);
  if (spec.ByteSizeLong() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the spec has ", spec.ByteSizeLong(), " bytes; at most ", kMaxSpecBytes, " are allowed"));
  }
  return ParsedSpec{spec, SpecLocations()};
}

absl::StatusOr<Plan> BuildPlan(const ParsedSpec& parsed, const std::vector<DatasetSize>& sizes,
                               const LayerRules& rules) {
  DatasetSizes by_name;
  for (const DatasetSize& size : sizes) by_name[size.name()] = size.samples();
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, by_name, rules, &parsed.locations));
  ReadHalosFromFiles(&plan);
  ADJOIN_RETURN_IF_ERROR(CheckPlanSize(plan.ByteSizeLong(), parsed.spec));
  return plan;
}

absl::StatusOr<PlannedJob> MakePlan(const ParsedSpec& parsed, const std::vector<DatasetSize>& sizes,
                                    const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, BuildPlan(parsed, sizes, rules));
  return PlannedJob{plan.SerializeAsString(), Planner::Hash(plan)};
}

// What a file of weights has to hold.
std::vector<ModelTensor> ModelOf(const Plan& plan) {
  std::vector<ModelTensor> model;
  for (const ParameterPlan& parameter : plan.parameter()) {
    ModelTensor& tensor = model.emplace_back();
    tensor.set_name(parameter.name());
    *tensor.mutable_shape() = parameter.stored_shape().empty() ? parameter.home().shape() : parameter.stored_shape();
  }
  return model;
}

}  // namespace

absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec) {
  if (bytes <= kMaxPlanBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the job's plan has ", bytes, " bytes, for ", spec.layer_size(),
                                                 " layers on ", spec.ranks(), " ranks; at most ", kMaxPlanBytes,
                                                 " are possible: take fewer ranks, or fewer layers"));
}

absl::StatusOr<NewJob> ReadSubmission(const SubmitRequest& request, const LayerRules& rules) {
  if (request.idempotency_key().size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the idempotency key has ", request.idempotency_key().size(),
                                                   " bytes; at most ", kMaxKeyBytes, " are allowed"));
  }
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, Parse(request.spec_source(), request.spec_file(), request.spec()));
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, BuildPlan(parsed, {}, rules));
  auto shared = std::make_shared<const ParsedSpec>(std::move(parsed));
  NewJob job;
  job.spec = shared->spec;
  if (job.spec.has_weights()) job.model = ModelOf(plan);
  job.source = request.spec_source();
  job.file = request.spec_file();
  job.priority = request.priority();
  job.idempotency_key = request.idempotency_key();
  job.plan_function = [shared, &rules](const std::vector<DatasetSize>& sizes) {
    return MakePlan(*shared, sizes, rules);
  };
  job.place_of = [shared](const std::string& field) { return shared->locations.At(field); };
  return job;
}

CoordinationService::SpecFunctions FunctionsOf(const StoredSubmission& submission, const LayerRules& rules) {
  auto shared = std::make_shared<const StoredSubmission>(submission);
  const auto parse = [shared] { return Parse(shared->source(), shared->file(), shared->spec()); };
  return {[parse, &rules](const std::vector<DatasetSize>& sizes) -> absl::StatusOr<PlannedJob> {
            ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, parse());
            return MakePlan(parsed, sizes, rules);
          },
          [parse](const std::string& field) {
            const absl::StatusOr<ParsedSpec> parsed = parse();
            return parsed.ok() ? parsed->locations.At(field) : std::string();
          }};
}

}  // namespace adjoin
