#include "planner/plan/planner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/shared_weights_check.h"
#include "planner/checks/spec_check.h"
#include "planner/plan/extent_plan.h"
#include "planner/plan/gradient_buckets.h"
#include "planner/plan/halos_apart.h"
#include "planner/plan/job_context.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/pipeline_stages.h"
#include "planner/plan/program_builder.h"
#include "planner/plan/program_requests.h"
#include "planner/spec/whole_volumes.h"

namespace adjoin {
namespace {

constexpr uint32_t kPlanVersion = 1;

// Adds the operators that a parameter has apart from all programs.
absl::Status AddParameterOperators(const JobSpec& spec, OperatorIds& ids, ParameterPlan& parameter) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout dual, home.Dual());
  if (spec.kind() == TRAIN && !parameter.frozen() && dual != home) {
    const OperatorRequest request = {.name = absl::StrCat("sync.", parameter.name()), .from = dual, .to = home};
    ADJOIN_ASSIGN_OR_RETURN(CountedOperator sync, CountOperator(request, spec.ranks()));
    if (!sync.traffic.is_identity) {
      ADJOIN_RETURN_IF_ERROR(ids.Take(sync.plan, spec.ranks()));
      *parameter.mutable_sync() = std::move(sync.plan);
    }
  }
  const Layout whole = Layout::Owner(home.shape(), home.dtype(), 0);
  const OperatorRequest request = {.name = absl::StrCat("collect.", parameter.name()), .from = home, .to = whole};
  ADJOIN_ASSIGN_OR_RETURN(OperatorPlan collect, MakeOperator(request, spec.ranks()));
  ADJOIN_RETURN_IF_ERROR(ids.Take(collect, spec.ranks()));
  *parameter.mutable_collect() = std::move(collect);
  return absl::OkStatus();
}

// Adds the bytes of the sums of gradients, once per step, to the programs that train.
absl::Status AddBytesOfSums(Plan& plan) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan));
  for (const GradientSum& sum : sums) {
    ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TrafficOf(sum.movement));
    for (ProgramPlan& program : *plan.mutable_program()) {
      if (program.training()) AddBytes(traffic.forward, 1, *program.mutable_bytes_per_step());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSomethingTrains(const JobSpec& spec, const Plan& plan) {
  bool frozen = false;
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (!parameter.frozen()) return absl::OkStatus();
    frozen = frozen || !parameter.buffer();
  }
  if (!frozen) return InvalidSpec("no layer has parameters: there is nothing to train");
  return AtField("layer[0].frozen", InvalidSpec("all layers with parameters are frozen: there is nothing to train"));
}

absl::Status CheckPipeline(const JobSpec& spec, const Plan& plan) {
  const uint32_t in_flight = spec.train().microbatches_in_flight();
  if (in_flight <= 1) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const PipelineStages stages, PipelineStages::Of(plan));
  const std::vector<int64_t>& kept = stages.in_flight();
  if (std::any_of(kept.begin(), kept.end(), [](int64_t count) { return count > 1; })) return absl::OkStatus();
  return AtField("train.microbatches_in_flight",
                 InvalidSpec("train.microbatches_in_flight is ", in_flight,
                             ", but no rank has layers that come before all those of other ranks; right would be layers"
                             " on ranks of their own (layout { rank: ... }), one set of ranks after the other, with a"
                             " layer between two sets that is not recomputed; or microbatches_in_flight: 1"));
}

// Returns whether the parts of an explicit cut sum to `extent`.
bool IsCut(const JobSpec& spec, int64_t extent) {
  for (const LayoutSpec& layout : spec.layout()) {
    for (const Cut& cut : layout.cut()) {
      int64_t left = extent;
      for (const int64_t size : cut.size()) {
        if (left >= 0 && size >= 0) left -= std::min(size, left + 1);
      }
      if (left == 0) return true;
    }
  }
  return false;
}

// Returns what is added to the refusal of a program: its batch, and what would make it another one. The first program
// is refused for what does not depend on the batch, but where cuts are of the batch that the job names, and that is
// divided, or more than there are samples.
std::string OfBatch(const JobSpec& spec, const ProgramRequest& program, bool first) {
  const Train& train = spec.train();
  const bool trains = program.name.rfind("train", 0) == 0, predicts = program.name.rfind("predict", 0) == 0;
  const int64_t judged = spec.evaluate().batch() > 0 ? spec.evaluate().batch() : train.batch();
  const int64_t named = trains ? train.batch() : predicts ? spec.predict().batch() : judged;
  if (first && (program.batch >= named || !IsCut(spec, named))) return "";
  const bool divided = train.microbatches() > 1 && program.name == "train";
  const bool left_over = program.name.find("_tail") != std::string::npos;
  const bool validates = program.name.rfind("validate", 0) == 0;
  const std::string field = predicts ? "predict.batch" : "evaluate.batch";
  const std::string advice =
      divided               ? "an explicit cut of the batch is one of a micro-batch"
      : trains && left_over ? "the last one of an epoch, which train.drop_last: true leaves out"
      : left_over ? absl::StrCat("the samples that are left over, none where ", field, " divides their number")
      : program.batch < named ? absl::StrCat("data set \"", program.dataset->name(), "\" has no more samples")
                              : absl::StrCat(field, " sets it", validates ? ", also for validation" : "");
  return absl::StrCat(" (program \"", program.name, "\", a ", divided ? "micro-batch" : "batch", " of ", program.batch,
                      ": ", advice, "; a layout without an explicit cut fits every batch)");
}

// `user`: the job as written; `job`: the same job without blocks of layers.
absl::StatusOr<Plan> BuildExpanded(const JobSpec& user, const JobContext& job, const DatasetSizes& sizes) {
  const JobSpec& spec = job.spec();
  ADJOIN_RETURN_IF_ERROR(CheckSharedWeights(spec));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ProgramRequest> programs, ProgramRequests(spec, sizes));
  Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_spec() = user;
  const PlanContext context = job.context();
  OperatorIds ids;
  for (const ProgramRequest& program : programs) {
    if (HasWholeVolumes(*program.dataset)) {
      ADJOIN_RETURN_IF_ERROR(BuildForSomeExtents(context, program, &ids, &plan));
      continue;
    }
    const absl::Status status = ProgramBuilder(context, program, &ids, &plan).Build();
    if (!status.ok()) {
      const std::string of_batch = OfBatch(spec, program, plan.program_size() == 0);
      return AtField(FieldOf(status), absl::Status(status.code(), absl::StrCat(status.message(), of_batch)));
    }
  }
  for (ProgramPlan& program : *plan.mutable_program()) ADJOIN_RETURN_IF_ERROR(KeepHalosApart(plan, &program));
  if (spec.kind() == TRAIN) {
    ADJOIN_RETURN_IF_ERROR(CheckSomethingTrains(spec, plan));
    ADJOIN_RETURN_IF_ERROR(CheckPipeline(spec, plan));
  }
  for (ParameterPlan& parameter : *plan.mutable_parameter()) {
    ADJOIN_RETURN_IF_ERROR(AddParameterOperators(spec, ids, parameter));
  }
  ADJOIN_RETURN_IF_ERROR(AddBytesOfSums(plan));
  for (const Dataset& dataset : spec.dataset()) {
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, dataset.name(), sizes));
    if (!samples.has_value()) continue;
    DatasetSize* size = plan.add_dataset();
    size->set_name(dataset.name());
    size->set_samples(*samples);
    const SizeInFiles& in_files = sizes.at(dataset.name());
    size->set_in_files(in_files.samples);
    if (in_files.extents != 0) size->set_extents(in_files.extents);
  }
  return plan;
}

absl::StatusOr<Plan> BuildUnlocated(const JobSpec& spec, const DatasetSizes& sizes, const LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(CheckSpec(spec, rules, Planner::kMaxRanks));
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<JobContext> job, JobContext::Create(spec, rules));
  absl::StatusOr<Plan> plan = BuildExpanded(spec, *job, sizes);
  if (!plan.ok()) return job->AtUsersLayer(spec, plan.status());
  return plan;
}

}  // namespace

absl::StatusOr<Plan> Planner::Build(const JobSpec& spec, const DatasetSizes& sizes, const LayerRules& rules,
                                    const SpecLocations* locations) {
  absl::StatusOr<Plan> plan = BuildUnlocated(spec, sizes, rules);
  if (!plan.ok()) return Located(plan.status(), spec, locations);
  return plan;
}

std::string Planner::Hash(const Plan& plan) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    plan.SerializeToCodedStream(&coded);
  }
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace adjoin
