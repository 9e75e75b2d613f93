#include "layers/plan/planner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "layers/plan/layout_proto.h"
#include "layers/plan/named_layouts.h"
#include "layers/plan/operator_plan.h"
#include "layers/plan/program_builder.h"
#include "layers/plan/spec_check.h"
#include "layers/plan/spec_error.h"

namespace adjoin {
namespace {

constexpr uint32_t kPlanVersion = 1;

// Samples that are used, where the number is known.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const JobSpec& spec, const std::string& name,
                                                 const DatasetSizes& sizes) {
  const auto known = sizes.find(name);
  if (known == sizes.end()) return std::optional<int64_t>();
  int index = 0;
  while (spec.dataset(index).name() != name) ++index;
  if (known->second < 1) return AtField(absl::StrCat("dataset[", index, "]"), InvalidSpec("its files hold no samples"));
  const Dataset& dataset = spec.dataset(index);
  return std::optional<int64_t>(dataset.has_limit() ? std::min(dataset.limit(), known->second) : known->second);
}

absl::StatusOr<std::vector<ProgramRequest>> Programs(const JobSpec& spec, const DatasetSizes& sizes) {
  const Train& train = spec.train();
  const int64_t batch = train.batch();
  const Dataset* dataset = FindDataset(spec, train.dataset());
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, train.dataset(), sizes));
  std::vector<ProgramRequest> programs = {{"train", true, dataset, batch}};
  if (samples.has_value() && train.drop_last() && *samples < batch) {
    return AtField("train.drop_last",
                   InvalidSpec("train.drop_last leaves nothing to train on: data set \"", train.dataset(), "\" has ",
                               *samples, " samples, less than a batch of ", batch));
  }
  if (samples.has_value() && !train.drop_last() && *samples % batch != 0) {
    programs.push_back({"train_tail", true, dataset, *samples % batch});
  }
  if (!spec.has_evaluate()) return programs;
  const Dataset* test = FindDataset(spec, spec.evaluate().dataset());
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> tests, SamplesOf(spec, spec.evaluate().dataset(), sizes));
  const int64_t test_batch = tests.has_value() ? std::min(batch, *tests) : batch;
  programs.push_back({"evaluate", false, test, test_batch});
  if (tests.has_value() && *tests % test_batch != 0) {
    programs.push_back({"evaluate_tail", false, test, *tests % test_batch});
  }
  return programs;
}

// The operators that a parameter has for itself, whichever program runs.
absl::Status AddParameterOperators(const JobSpec& spec, OperatorIds& ids, ParameterPlan& parameter) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout dual, home.Dual());
  if (!parameter.frozen() && dual != home) {
    ADJOIN_ASSIGN_OR_RETURN(OperatorPlan sync, MakeOperator({absl::StrCat("sync.", parameter.name()), dual, home}, spec.ranks()));
    ADJOIN_ASSIGN_OR_RETURN(const bool idle, IsIdentity(sync));
    if (!idle) {
      ADJOIN_RETURN_IF_ERROR(ids.Take(sync));
      *parameter.mutable_sync() = std::move(sync);
    }
  }
  const Layout whole = Layout::Owner(home.shape(), home.dtype(), 0);
  ADJOIN_ASSIGN_OR_RETURN(OperatorPlan collect,
                          MakeOperator({absl::StrCat("collect.", parameter.name()), home, whole}, spec.ranks()));
  ADJOIN_RETURN_IF_ERROR(ids.Take(collect));
  *parameter.mutable_collect() = std::move(collect);
  return absl::OkStatus();
}

// Gradients are summed once per step of a program that trains.
void CountSync(Plan& plan) {
  for (ProgramPlan& program : *plan.mutable_program()) {
    if (!program.training()) continue;
    for (const ParameterPlan& parameter : plan.parameter()) {
      for (int rank = 0; rank < parameter.sync().bytes_forward_size(); ++rank) {
        program.set_bytes_per_step(rank, program.bytes_per_step(rank) + parameter.sync().bytes_forward(rank));
      }
    }
  }
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

absl::StatusOr<Plan> BuildUnlocated(const JobSpec& spec, const DatasetSizes& sizes, const LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(CheckSpec(spec, rules, Planner::kMaxRanks));
  ADJOIN_ASSIGN_OR_RETURN(const NamedLayouts layouts, NamedLayouts::Create(spec));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, ComputeType(spec));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ProgramRequest> programs, Programs(spec, sizes));
  Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_spec() = spec;
  const PlanContext context{spec, layouts, rules, dtype};
  OperatorIds ids;
  for (const ProgramRequest& program : programs) {
    absl::Status status = ProgramBuilder(context, program, &ids, &plan).Build();
    // The first program says all that does not depend on the batch.
    if (!status.ok() && plan.program_size() > 0) {
      status = AtField(FieldOf(status),
                       absl::Status(status.code(), absl::StrCat(status.message(), " (program \"", program.name,
                                                                "\", a batch of ", program.batch, ")")));
    }
    ADJOIN_RETURN_IF_ERROR(status);
  }
  ADJOIN_RETURN_IF_ERROR(CheckSomethingTrains(spec, plan));
  for (ParameterPlan& parameter : *plan.mutable_parameter()) {
    ADJOIN_RETURN_IF_ERROR(AddParameterOperators(spec, ids, parameter));
  }
  CountSync(plan);
  for (const Dataset& dataset : spec.dataset()) {
    ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, dataset.name(), sizes));
    if (!samples.has_value()) continue;
    DatasetSize* size = plan.add_dataset();
    size->set_name(dataset.name());
    size->set_samples(*samples);
  }
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
