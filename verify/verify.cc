#include "verify/verify.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/builtin_serial_functions.h"
#include "planner/plan/plan_warnings.h"
#include "planner/plan/planner.h"
#include "verify/bare_job.h"
#include "verify/partitioned_run.h"
#include "verify/recut.h"
#include "verify/serial_model.h"

namespace adjoin {
namespace {

// `options` with nothing absent.
struct Settings {
  std::vector<uint32_t> ranks;
  double tolerance = 0;
  uint32_t steps = 1;
  const LayerRules* rules;
  const LayerRegistry* layers;
  const SerialFunctions* functions;
};

constexpr int64_t kMostSamples = int64_t{1} << 20;

absl::StatusOr<Settings> SettingsOf(const JobSpec& spec, const VerifyOptions& options, const LayerRegistry* layers,
                                    const SerialFunctions* functions) {
  Settings settings;
  settings.ranks = options.ranks;
  if (settings.ranks.empty()) settings.ranks.assign(spec.verify().ranks().begin(), spec.verify().ranks().end());
  if (settings.ranks.empty()) settings.ranks = {spec.ranks()};
  for (uint32_t ranks : settings.ranks) {
    if (ranks >= 1 && ranks <= Planner::kMaxRanks) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cannot verify on ", ranks, " ranks; a job has from 1 to ", Planner::kMaxRanks));
  }
  const double of_spec = spec.verify().tolerance() != 0 ? spec.verify().tolerance() : kDefaultTolerance;
  settings.tolerance = options.tolerance.value_or(of_spec);
  if (!(settings.tolerance > 0) || !std::isfinite(settings.tolerance)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tolerance is ", settings.tolerance, "; it must be a finite number above 0, such as 1e-10"));
  }
  settings.steps = options.steps.value_or(std::max(1u, spec.verify().steps()));
  if (settings.steps < 1) return absl::InvalidArgumentError("the number of steps is 0; it must be at least 1");
  if (options.batch.has_value() && (*options.batch < 1 || *options.batch > kMostSamples)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch is ", *options.batch, "; it must be from 1 to ", kMostSamples));
  }
  settings.rules = options.rules != nullptr ? options.rules : &BuiltinLayerRules();
  settings.layers = layers;
  settings.functions = functions;
  return settings;
}

// Whether a layout is that of a layer's input or output, and so of samples.
bool HoldsSamples(const JobSpec& spec, const std::string& layout) {
  return std::any_of(spec.layer().begin(), spec.layer().end(), [&](const Layer& layer) {
    // In layers that attend, w cuts the tensor, not a weight.
    const bool attends = layer.has_attention() || layer.has_window_attention() || layer.has_transformer();
    return (attends && layer.w() == layout) || layer.y() == layout ||
           std::find(layer.x().begin(), layer.x().end(), layout) != layer.x().end();
  });
}

int64_t PartsOfBatch(const LayoutSpec& layout) {
  if (!layout.partition().empty()) return layout.partition(0);
  int64_t parts = 1;
  for (int axis = 0; axis < layout.sbp_size(); ++axis) {
    if (layout.sbp(axis) == "S(0)") parts *= layout.mesh(axis).size();
  }
  return parts;
}

// What goes through the network at once; explicit cuts of the batch sum to it.
int64_t OwnBatch(const JobSpec& spec) {
  return spec.train().batch() / std::max<int64_t>(1, spec.train().microbatches());
}

// The job's model and optimizer with this batch in float64, and nothing else of the job: no files, no checkpoints.
JobSpec SmallJob(const JobSpec& spec, int64_t batch) {
  JobSpec job = BareJob(spec);
  job.set_kind(spec.kind());
  *job.mutable_loss() = spec.loss();
  if (spec.has_predict()) *job.mutable_predict() = spec.predict();
  job.set_output_dir(spec.output_dir());

  Train* train = job.mutable_train();
  train->set_dataset(spec.train().dataset());
  train->set_batch(static_cast<uint32_t>(batch));
  if (spec.train().has_epochs()) train->set_epochs(spec.train().epochs());
  if (spec.train().has_steps()) train->set_steps(spec.train().steps());
  *train->mutable_optimizer() = spec.train().optimizer();

  for (const LayoutSpec& layout : spec.layout()) {
    LayoutSpec* small = job.add_layout();
    *small = layout;
    if (batch == OwnBatch(spec) || !HoldsSamples(spec, layout.name())) continue;
    small->clear_cut();
    for (const Cut& cut : layout.cut()) {
      if (cut.dim() != 0) *small->add_cut() = cut;
    }
  }
  return job;
}

// Small, but with two samples for each part of the batch; the job's own where its cuts fit no other.
int64_t BatchOf(const JobSpec& spec, const Settings& settings) {
  const int64_t own = OwnBatch(spec);
  int64_t parts = 1;
  for (uint32_t number : settings.ranks) {
    const JobSpec recut = Recut(spec, number);
    for (const LayoutSpec& layout : recut.layout()) {
      if (!HoldsSamples(recut, layout.name())) continue;
      parts = std::max(parts, PartsOfBatch(layout));
      for (const Cut& cut : layout.cut()) {
        if (cut.dim() == 0) return own;
      }
    }
  }
  const int64_t small = std::max<int64_t>(2, std::min<int64_t>(own, 2 * parts));
  // After `permute`, or in a layer that makes of several samples one, other cuts may be of the batch.
  for (uint32_t number : settings.ranks) {
    const auto fits = [&](int64_t batch) {
      return Planner::Build(Recut(SmallJob(spec, batch), number), {}, *settings.rules).ok();
    };
    if (!fits(small) && fits(own)) return own;
  }
  return small;
}

absl::Status RunOn(const JobSpec& job, const Settings& settings, const VerifyOptions& options,
                   const std::vector<SerialStep>& serial, const NamedTensors& parameters, RanksResult& result) {
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(Recut(job, result.ranks), {}, *settings.rules));
  if (options.plan_edit) options.plan_edit(plan);
  PartitionedInput input;
  input.parameters = parameters;
  input.layers = settings.layers;
  for (const SerialStep& step : serial) input.fields.push_back(step.fields);
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<RankSteps> ranks, RunPartitioned(plan, input));
  ADJOIN_ASSIGN_OR_RETURN(result.comparison, Compare(plan, serial, parameters, ranks));
  result.first = FirstDeviation(plan, result.comparison, settings.tolerance);
  ADJOIN_ASSIGN_OR_RETURN(result.operators, CheckAdjoints(plan, options.seed));
  return absl::OkStatus();
}

}  // namespace

bool RanksResult::deviates() const {
  return !failure.ok() || first.has_value() ||
         std::any_of(operators.begin(), operators.end(), [](const AdjointResult& op) { return !op.holds(); });
}

bool VerifyResult::deviates() const {
  return std::any_of(runs.begin(), runs.end(), [](const RanksResult& run) { return run.deviates(); });
}

absl::StatusOr<VerifyResult> Verify(const ParsedSpec& parsed, const VerifyOptions& options) {
  const LayerRegistry builtin_layers = BuiltinLayers();
  const SerialFunctions builtin_functions = BuiltinSerialFunctions();
  ADJOIN_ASSIGN_OR_RETURN(const Settings settings,
                          SettingsOf(parsed.spec, options, options.layers != nullptr ? options.layers : &builtin_layers,
                                     options.functions != nullptr ? options.functions : &builtin_functions));
  // As the user wrote it: errors are of its lines.
  ADJOIN_ASSIGN_OR_RETURN(const Plan written, Planner::Build(parsed.spec, {}, *settings.rules, &parsed.locations));

  VerifyResult result;
  result.warnings = PlanWarnings(written);
  result.job = parsed.spec.name();
  result.batch = options.batch.has_value() ? *options.batch : BatchOf(parsed.spec, settings);
  result.steps = settings.steps;
  result.tolerance = settings.tolerance;
  result.seed = options.seed;
  const JobSpec job = SmallJob(parsed.spec, result.batch);
  ADJOIN_ASSIGN_OR_RETURN(auto model, SerialModel::Create(job, {result.batch, options.seed, settings.functions,
                                                                settings.rules, settings.layers}));
  std::vector<SerialStep> serial;
  for (uint32_t step = 0; step < settings.steps; ++step) {
    ADJOIN_ASSIGN_OR_RETURN(SerialStep done, model->RunStep());
    serial.push_back(std::move(done));
  }
  result.own_layers = model->own_layers();
  for (uint32_t ranks : settings.ranks) {
    RanksResult run;
    run.ranks = ranks;
    run.recut = ranks != parsed.spec.ranks();
    run.failure = RunOn(job, settings, options, serial, model->InitialParameters(), run);
    result.runs.push_back(std::move(run));
  }
  return result;
}

}  // namespace adjoin
