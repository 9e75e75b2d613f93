#include "planner/plan/extent_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/job_context.h"
#include "planner/plan/planner.h"
#include "planner/plan/program_requests.h"
#include "planner/spec/augment.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/spec_locations.h"
#include "planner/spec/whole_volumes.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

// Extents that networks are made for, the usual ones first; then every remainder of a division by 32, for networks that
// take only extents of a certain one.
std::vector<int64_t> UsualExtents() {
  std::vector<int64_t> extents = {128, 64, 256, 96, 32, 16, 512};
  for (int64_t extent = 129; extent < 160; ++extent) extents.push_back(extent);
  return extents;
}

// Returns the extents of the blocks that the job is trained on, where they are those of as many dims.
std::optional<std::vector<int64_t>> TrainedExtents(const JobSpec& spec, int spatial) {
  const Dataset* const trained = spec.kind() == TRAIN ? FindDataset(spec, spec.train().dataset()) : nullptr;
  if (trained == nullptr || trained->blocks().size_size() != spatial) return std::nullopt;
  return std::vector<int64_t>(trained->blocks().size().begin(), trained->blocks().size().end());
}

// Returns an error where a parameter of `own` is not as in `plan`.
absl::Status CheckParameters(const Plan& plan, const Plan& own) {
  for (const ParameterPlan& parameter : own.parameter()) {
    const auto known = std::find_if(plan.parameter().begin(), plan.parameter().end(),
                                    [&](const ParameterPlan& other) { return other.name() == parameter.name(); });
    if (known != plan.parameter().end() && known->home().SerializeAsString() == parameter.home().SerializeAsString()) {
      continue;
    }
    const std::string shape = ShapeText(parameter.home().shape());
    return InvalidSpec(
        "parameter \"", parameter.name(), "\" would be ", shape, " for them",
        known == plan.parameter().end() ? "" : absl::StrCat(", and ", ShapeText(known->home().shape()), " for others"),
        ": a network whose parameters depend on the extents takes volumes of one shape only; write it"
        " instead of -1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BuildForSomeExtents(const PlanContext& context, const ProgramRequest& request, OperatorIds* ids,
                                 Plan* plan) {
  const int spatial = SpatialDims(*request.dataset);
  std::vector<std::vector<int64_t>> tried;
  if (const auto trained = TrainedExtents(context.spec, spatial)) tried.push_back(*trained);
  for (int64_t extent : UsualExtents()) tried.emplace_back(spatial, extent);
  absl::Status first, with_extents;
  bool depends_on_extents = false;
  for (const std::vector<int64_t>& extents : tried) {
    const Dataset concrete = WithExtents(*request.dataset, extents);
    ProgramRequest own = request;
    own.dataset = &concrete;
    OperatorIds ids_of_this = *ids;
    Plan planned = *plan;
    const absl::Status status = ProgramBuilder(context, own, &ids_of_this, &planned).Build();
    if (status.ok()) {
      *ids = ids_of_this;
      *plan = std::move(planned);
      return absl::OkStatus();
    }
    depends_on_extents = depends_on_extents || (!first.ok() && status.message() != first.message());
    if (first.ok()) {
      first = status;
      with_extents =
          AtField(FieldOf(status),
                  absl::Status(status.code(),
                               absl::StrCat(status.message(), " (program \"", request.name, "\" for extents of ",
                                            ShapeText(extents),
                                            " in place of -1; those that were tried instead, 16"
                                            " to 512, do not fit either. A layout for volumes of different extents"
                                            " has no explicit cut of them)")));
    }
  }
  return depends_on_extents ? with_extents : first;
}

absl::StatusOr<Plan> PlanForExtents(const Plan& plan, const std::string& program, const std::vector<int64_t>& extents,
                                    const LayerRules& rules) {
  const JobSpec& user = plan.spec();
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<JobContext> job, JobContext::Create(user, rules));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ProgramRequest> requests, ProgramRequests(job->spec(), {}));
  const auto request = std::find_if(requests.begin(), requests.end(),
                                    [&](const ProgramRequest& other) { return other.name == program; });
  if (request == requests.end() || !HasWholeVolumes(*request->dataset)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job has no program \"", program, "\" for volumes of different extents"));
  }
  const Dataset concrete = WithExtents(*request->dataset, extents);
  request->dataset = &concrete;
  Plan own;
  *own.mutable_spec() = user;
  OperatorIds ids;
  const absl::Status built = ProgramBuilder(job->context(), *request, &ids, &own).Build();
  if (!built.ok()) return Located(job->AtUsersLayer(user, built), user, nullptr);
  ADJOIN_RETURN_IF_ERROR(CheckParameters(plan, own));
  ReadHalosFromFiles(&own);
  return own;
}

absl::StatusOr<Plan> PlanWithExtents(const Plan& plan, const std::string& dataset, const std::vector<int64_t>& extents,
                                     const LayerRules& rules) {
  Plan result = plan;
  std::map<std::string, uint32_t> parameters;
  for (int i = 0; i < plan.parameter_size(); ++i) parameters[plan.parameter(i).name()] = static_cast<uint32_t>(i);
  for (ProgramPlan& program : *result.mutable_program()) {
    if (program.dataset() != dataset) continue;
    ADJOIN_ASSIGN_OR_RETURN(Plan own, PlanForExtents(plan, program.name(), extents, rules));
    program = std::move(*own.mutable_program(0));
    for (LayerPlan& layer : *program.mutable_layer()) {
      for (ParameterUse& use : *layer.mutable_parameter()) {
        use.set_index(parameters.at(own.parameter(static_cast<int>(use.index())).name()));
      }
    }
  }
  for (Dataset& found : *result.mutable_spec()->mutable_dataset()) {
    if (found.name() == dataset) found = WithExtents(found, extents);
  }
  return result;
}

bool ExtentCheck::Concerns(const JobSpec& spec, const Dataset& dataset) {
  if (!HasWholeVolumes(dataset)) return false;
  if (spec.kind() == PREDICT) return spec.predict().dataset() == dataset.name();
  const bool validates = spec.kind() == TRAIN && spec.train().validate_on() == dataset.name();
  return validates || (spec.has_evaluate() && spec.evaluate().dataset() == dataset.name());
}

bool ExtentCheck::KnowsAllLayers(const JobSpec& spec, const LayerRules& rules) {
  return std::all_of(spec.layer().begin(), spec.layer().end(), [&](const Layer& layer) {
    return IsBlock(KindOf(layer)) || rules.Find(KindOf(layer)) != nullptr;
  });
}

absl::StatusOr<std::unique_ptr<ExtentCheck>> ExtentCheck::Create(const JobSpec& spec, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(spec, {}, rules));
  return std::unique_ptr<ExtentCheck>(new ExtentCheck(std::move(plan), rules));
}

absl::Status ExtentCheck::Check(const std::string& dataset, const std::string& file,
                                const std::vector<int64_t>& extents) {
  if (checked_.count({dataset, extents}) > 0) return absl::OkStatus();
  for (const ProgramPlan& program : plan_.program()) {
    if (program.dataset() != dataset) continue;
    const absl::Status status = PlanForExtents(plan_, program.name(), extents, rules_).status();
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat(file, " has the extents ", ShapeText(extents),
                                                    ", which the network does not take: ", status.message()));
  }
  checked_.insert({dataset, extents});
  return absl::OkStatus();
}

}  // namespace adjoin
