#include "planner/plan/planner.h"

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
#include "layers/attention/block_expansion.h"
#include "layers/rules/compute_type.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/named_layouts.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/checks/shared_weights_check.h"
#include "planner/checks/spec_check.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/program_builder.h"
#include "planner/spec/sample_shape.h"

namespace adjoin {
namespace {

constexpr uint32_t kPlanVersion = 1;

// Returns the number of samples that an epoch uses; absent where the size of the data set is not known.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const JobSpec& spec, const std::string& name,
                                                 const DatasetSizes& sizes) {
  const auto known = sizes.find(name);
  if (known == sizes.end()) return std::optional<int64_t>();
  int index = 0;
  while (spec.dataset(index).name() != name) ++index;
  if (known->second.samples < 1)
    return AtField(absl::StrCat("dataset[", index, "]"), InvalidSpec("its files hold no samples"));
  return std::optional<int64_t>(SampleCount(spec.dataset(index), known->second.samples));
}

// Adds the program `request.name` for a data set that is evaluated or predicted, and its tail for the samples left
// over.
absl::Status AddForward(const JobSpec& spec, const DatasetSizes& sizes, const std::string& dataset, int64_t batch,
                        ProgramRequest request, std::vector<ProgramRequest>& programs) {
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, dataset, sizes));
  request.dataset = FindDataset(spec, dataset);
  request.batch = samples.has_value() ? std::min(batch, *samples) : batch;
  const int64_t left_over = samples.has_value() ? *samples % request.batch : 0;
  programs.push_back(request);
  if (left_over == 0) return absl::OkStatus();
  request.name += "_tail";
  request.batch = left_over;
  programs.push_back(std::move(request));
  return absl::OkStatus();
}

absl::Status AddTraining(const JobSpec& spec, const DatasetSizes& sizes, std::vector<ProgramRequest>& programs) {
  const Train& train = spec.train();
  const int64_t batch = train.batch();
  const int64_t parts = std::max<int64_t>(1, train.microbatches());
  if (batch % parts != 0) {
    return AtField("train.microbatches",
                   InvalidSpec("train.microbatches is ", parts, ", which does not divide train.batch, ", batch));
  }
  const int64_t part = batch / parts;
  const Dataset* dataset = FindDataset(spec, train.dataset());
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, train.dataset(), sizes));
  programs.push_back({.name = "train", .training = true, .dataset = dataset, .batch = part});
  if (samples.has_value() && train.drop_last() && *samples < batch) {
    return AtField("train.drop_last",
                   InvalidSpec("train.drop_last leaves nothing to train on: data set \"", train.dataset(), "\" has ",
                               *samples, " samples, less than a batch of ", batch));
  }
  const int64_t left_over = samples.has_value() && !train.drop_last() ? *samples % batch % part : 0;
  if (left_over > 0) {
    programs.push_back({.name = "train_tail", .training = true, .dataset = dataset, .batch = left_over});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProgramRequest>> Programs(const JobSpec& spec, const DatasetSizes& sizes) {
  std::vector<ProgramRequest> programs;
  if (spec.kind() == TRAIN) ADJOIN_RETURN_IF_ERROR(AddTraining(spec, sizes, programs));
  const int64_t judged =
      spec.evaluate().batch() > 0 ? spec.evaluate().batch() : std::max<int64_t>(1, spec.train().batch());
  if (spec.kind() == TRAIN && !spec.train().validate_on().empty()) {
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.train().validate_on(), judged, {"validate"}, programs));
  }
  if (spec.kind() != PREDICT && spec.has_evaluate()) {
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.evaluate().dataset(), judged, {"evaluate"}, programs));
  }
  if (spec.kind() == PREDICT) {
    ProgramRequest predict = {"predict"};
    predict.with_losses = false;
    predict.with_outputs = true;
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.predict().dataset(),
                                      std::max<int64_t>(1, spec.predict().batch()), std::move(predict), programs));
  }
  return programs;
}

// Adds the operators that a parameter has apart from all programs.
absl::Status AddParameterOperators(const JobSpec& spec, OperatorIds& ids, ParameterPlan& parameter) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout dual, home.Dual());
  if (spec.kind() == TRAIN && !parameter.frozen() && dual != home) {
    const OperatorRequest request = {.name = absl::StrCat("sync.", parameter.name()), .from = dual, .to = home};
    ADJOIN_ASSIGN_OR_RETURN(OperatorPlan sync, MakeOperator(request, spec.ranks()));
    ADJOIN_ASSIGN_OR_RETURN(const bool idle, IsIdentity(sync));
    if (!idle) {
      ADJOIN_RETURN_IF_ERROR(ids.Take(sync));
      *parameter.mutable_sync() = std::move(sync);
    }
  }
  const Layout whole = Layout::Owner(home.shape(), home.dtype(), 0);
  const OperatorRequest request = {.name = absl::StrCat("collect.", parameter.name()), .from = home, .to = whole};
  ADJOIN_ASSIGN_OR_RETURN(OperatorPlan collect, MakeOperator(request, spec.ranks()));
  ADJOIN_RETURN_IF_ERROR(ids.Take(collect));
  *parameter.mutable_collect() = std::move(collect);
  return absl::OkStatus();
}

// Adds the bytes of the gradients' sums, once per step, to the programs that train.
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

// `user`: the job as written; `expanded`: the same job without blocks.
absl::StatusOr<Plan> BuildExpanded(const JobSpec& user, const ExpandedSpec& expanded, const DatasetSizes& sizes,
                                   const LayerRules& rules) {
  const JobSpec& spec = expanded.spec;
  ADJOIN_RETURN_IF_ERROR(CheckSharedWeights(spec));
  ADJOIN_ASSIGN_OR_RETURN(const NamedLayouts layouts, NamedLayouts::Create(spec));
  ADJOIN_ASSIGN_OR_RETURN(const NumberTypes types, NumberTypesOf(spec));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ProgramRequest> programs, Programs(spec, sizes));
  Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_spec() = user;
  const PlanContext context = {
      .spec = spec,
      .layouts = layouts,
      .rules = rules,
      .dtype = types.compute,
      .parameter_dtype = types.parameters,
      .complete_layer = [&expanded](int index, const PlanContext::ShapeOf& shape_of, Layer* layer) {
        return expanded.CompleteLayer(index, shape_of, layer);
      }};
  OperatorIds ids;
  for (const ProgramRequest& program : programs) {
    const absl::Status status = ProgramBuilder(context, program, &ids, &plan).Build();
    if (!status.ok()) {
      const std::string of_batch = OfBatch(spec, program, plan.program_size() == 0);
      return AtField(FieldOf(status), absl::Status(status.code(), absl::StrCat(status.message(), of_batch)));
    }
  }
  if (spec.kind() == TRAIN) ADJOIN_RETURN_IF_ERROR(CheckSomethingTrains(spec, plan));
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
    const SizeInFiles& in_files = sizes.at(dataset.name());
    size->set_in_files(in_files.samples);
    if (in_files.extents != 0) size->set_extents(in_files.extents);
  }
  return plan;
}

absl::StatusOr<Plan> BuildUnlocated(const JobSpec& spec, const DatasetSizes& sizes, const LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(CheckSpec(spec, rules, Planner::kMaxRanks));
  ADJOIN_ASSIGN_OR_RETURN(const ExpandedSpec expanded, ExpandBlocks(spec));
  absl::StatusOr<Plan> plan = BuildExpanded(spec, expanded, sizes, rules);
  if (!plan.ok()) return expanded.AtUsersLayer(spec, plan.status());
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
