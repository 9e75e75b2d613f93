#include "verify/against.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/printable_list.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/builtin_serial_functions.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "planner/auto/auto_plan.h"
#include "planner/plan/plan_warnings.h"
#include "planner/plan/planner.h"
#include "planner/spec/sample_shape.h"
#include "planner/time/cost_model.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/torch_dtype.h"
#include "verify/against_loss.h"
#include "verify/bare_job.h"
#include "verify/partitioned_run.h"
#include "verify/recut.h"
#include "verify/sample_file.h"
#include "verify/serial_model.h"
#include "verify/trained_data.h"
#include "worker/model/model_differences.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

constexpr char kPredictProgram[] = "predict";
constexpr char kOutput[] = "output";
constexpr int64_t kMostSamplesOfFile = int64_t{1} << 20;
constexpr double kExactWhole = 9007199254740992;  // 2^53

bool IsRealType(CellType type) {
  return type == CellType::kFloat16 || type == CellType::kFloat32 || type == CellType::kFloat64;
}

// What the job's network is run on.
std::string DatasetOf(const JobSpec& spec) {
  if (spec.kind() == PREDICT) return spec.predict().dataset();
  return spec.kind() == TRAIN ? spec.train().dataset() : spec.evaluate().dataset();
}

// The layers whose outputs `output` and `output.<i>` are.
std::vector<std::string> OutputsOf(const JobSpec& spec) {
  if (spec.has_predict()) return {spec.predict().input().begin(), spec.predict().input().end()};
  std::vector<std::string> outputs;
  for (const Loss& loss : spec.loss()) {
    if (std::find(outputs.begin(), outputs.end(), loss.input()) == outputs.end()) outputs.push_back(loss.input());
  }
  if (outputs.empty() && spec.layer_size() > 0) outputs.push_back(spec.layer(spec.layer_size() - 1).name());
  return outputs;
}

using SampleByName = std::map<std::string, SampleArray>;

// The job that writes its outputs in float64 for one batch, and nothing else of the job.
absl::StatusOr<JobSpec> EvaluationJob(const JobSpec& spec, int64_t batch, const SampleByName& sample) {
  JobSpec job = BareJob(spec);
  job.set_kind(PREDICT);
  job.set_output_dir(spec.output_dir().empty() ? "verify" : spec.output_dir());
  job.mutable_weights()->set_init_from("weights");
  Predict* predict = job.mutable_predict();
  predict->set_dataset(DatasetOf(spec));
  for (const std::string& output : OutputsOf(spec)) predict->add_input(output);
  predict->set_format("npy");
  predict->set_batch(static_cast<uint32_t>(batch));
  for (Dataset& dataset : *job.mutable_dataset()) {
    for (Field& field : *dataset.mutable_field()) {
      // An extent that differs from file to file is the sample's.
      const auto given = sample.find(absl::StrCat(kSampleInput, field.name()));
      for (int dim = 0; given != sample.end() && dim < field.shape_size(); ++dim) {
        const at::Tensor& values = given->second.values;
        if (IsVaryingExtent(field.shape(dim)) && values.dim() == int64_t{field.shape_size()} + 1) {
          field.set_shape(dim, values.size(dim + 1));
        }
      }
    }
  }
  for (const LayoutSpec& layout : spec.layout()) *job.add_layout() = layout;
  return job;
}

// The batch is dim 0 of all arrays.
absl::StatusOr<int64_t> BatchOf(const std::string& file, const SampleByName& sample) {
  for (const auto& [name, array] : sample) {
    if (name.rfind(kSampleInput, 0) != 0) continue;
    if (array.values.dim() == 0) return BadSampleArray(file, name, "is a scalar; its dim 0 should be the batch");
    if (array.values.size(0) <= kMostSamplesOfFile) return array.values.size(0);
    return BadSampleArray(
        file, name,
        absl::StrCat("has a batch of ", array.values.size(0), "; it may have at most ", kMostSamplesOfFile));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": has no input; right would be an array input.<field> for each field that the model reads"));
}

absl::StatusOr<const ProgramPlan*> ProgramOf(const Plan& plan) {
  if (const ProgramPlan* program = FindProgram(plan, kPredictProgram)) return program;
  return absl::InternalError(absl::StrCat("the plan has no program \"", kPredictProgram, "\""));
}

// One number a sample is [batch, 1] in a job.
at::Tensor WithNumbersAsDim(const at::Tensor& values, const std::vector<int64_t>& shape) {
  return values.dim() == 1 && shape.size() == 2 && shape[1] == 1 ? values.unsqueeze(1) : values;
}

absl::StatusOr<at::Tensor> FieldTensor(const std::string& file, const std::string& name, const SampleArray& array,
                                       const Field& field, const std::vector<int64_t>& shape) {
  const at::Tensor values = WithNumbersAsDim(array.values, shape);
  if (values.sizes() != at::IntArrayRef(shape)) {
    return BadSampleArray(
        file, name,
        absl::StrCat("is ", ShapeText(array.values.sizes()), "; the model reads ", ShapeText(shape), ", batch first"));
  }
  const bool whole = field.dtype() == "int64";
  if (whole == IsRealType(array.type)) {
    return BadSampleArray(file, name,
                          absl::StrCat("is of type ", ToString(array.type), "; field \"", field.name(), "\" has ",
                                       whole ? "whole numbers, such as int64" : "float32 or float64"));
  }
  if (!whole) return values;
  if (values.abs().max().item<double>() >= kExactWhole) {
    return BadSampleArray(file, name, "holds a whole number of 2^53 or more, which cannot be read exactly");
  }
  return values.to(at::kLong);
}

// Which layer's output each array of the sample is, in the order of the network.
class Sample {
 public:
  Sample(std::string file, SampleByName arrays) : file_(std::move(file)), arrays_(std::move(arrays)) {}

  // Finds the fields and outputs of `program`.
  absl::Status Match(const JobSpec& job, const ProgramPlan& program, const LossSample& loss,
                     std::optional<double> tolerance) {
    std::set<std::string> known;
    const Dataset& dataset = TrainedData(job);
    for (const ValuePlan& value : program.value()) {
      if (value.field().empty()) continue;
      const std::string name = absl::StrCat(kSampleInput, value.field());
      if (!known.insert(name).second) continue;
      const auto array = arrays_.find(name);
      if (array == arrays_.end()) {
        return BadSampleArray(file_, name, absl::StrCat("is missing: the model reads field \"", value.field(), "\""));
      }
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
      ADJOIN_ASSIGN_OR_RETURN(fields_[value.field()], FieldTensor(file_, name, array->second,
                                                                  *FieldOf(dataset, value.field()), layout.shape()));
    }
    const auto& outputs = job.predict().input();
    for (const LayerPlan& layer : program.layer()) {
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(program.value(layer.output()).layout()));
      std::vector<std::string> names = {absl::StrCat(kOutput, ".", layer.name())};
      for (int i = 0; i < outputs.size(); ++i) {
        if (outputs[i] != layer.name()) continue;
        names.push_back(absl::StrCat(kOutput, ".", i));
        if (outputs.size() == 1) names.push_back(kOutput);
      }
      for (const std::string& name : names) {
        if (!known.insert(name).second) continue;
        ADJOIN_RETURN_IF_ERROR(MatchOutput(name, layer.name(), layout.shape(), tolerance));
      }
    }
    for (const auto& entry : arrays_) {
      if (known.count(entry.first) > 0) continue;
      known.insert(loss.known().begin(), loss.known().end());
      const bool of_loss = entry.first == "loss" || entry.first.rfind("grad.", 0) == 0;
      return BadSampleArray(file_, entry.first,
                            absl::StrCat(of_loss && loss.known().empty() ? "is compared only of a job with a loss"
                                                                         : "is not known for this job",
                                         "; known are: ", PrintableList({known.begin(), known.end()})));
    }
    if (!outputs_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": has no output to compare; right would be \"output\", what layer \"",
                     outputs[outputs.size() - 1], "\" returns, or output.<layer>"));
  }

  const NamedTensors& fields() const { return fields_; }
  // Without differences.
  const std::vector<SampleDifference>& outputs() const { return outputs_; }
  const at::Tensor& values(const SampleDifference& output) const { return arrays_.at(output.array).values; }

 private:
  absl::Status MatchOutput(const std::string& name, const std::string& layer, const std::vector<int64_t>& shape,
                           std::optional<double> tolerance) {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) return absl::OkStatus();
    SampleArray& array = found->second;
    array.values = WithNumbersAsDim(array.values, shape);
    if (array.type != CellType::kFloat32 && array.type != CellType::kFloat64) {
      return BadSampleArray(file_, name,
                            absl::StrCat("is of type ", ToString(array.type), "; right would be float32 or float64"));
    }
    if (array.values.sizes() != at::IntArrayRef(shape)) {
      return BadSampleArray(
          file_, name,
          absl::StrCat("is ", ShapeText(array.values.sizes()), "; layer \"", layer, "\" returns ", ShapeText(shape)));
    }
    const double of_type = array.type == CellType::kFloat64 ? kDefaultTolerance : 1e-4;
    outputs_.push_back({name, layer, tolerance.value_or(of_type), {}});
    return absl::OkStatus();
  }

  const std::string file_;
  SampleByName arrays_;
  NamedTensors fields_;
  std::vector<SampleDifference> outputs_;
};

absl::StatusOr<std::string> WeightsFile(const JobSpec& spec, const AgainstOptions& options) {
  if (!options.weights.empty()) return options.weights;
  const std::string& file = spec.weights().init_from();
  if (file.empty()) {
    return absl::InvalidArgumentError(
        "the job names no file of weights (weights.init_from); name the model's with --weights FILE.safetensors");
  }
  if (!options.data_root.empty()) return absl::StrCat(options.data_root, "/", file);
  return absl::InvalidArgumentError(
      absl::StrCat("weights.init_from is \"", PrintableText(file, 200),
                   "\", relative to a folder that is not given; right would be --data-root DIR, or the file itself with"
                   " --weights FILE.safetensors"));
}

// The plan's parameters, whole, in float64 where they are no whole numbers.
absl::StatusOr<NamedTensors> ReadWeights(const std::string& path, const JobSpec& spec, const Plan& plan) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> file, SafetensorsReader::Open(path, path));
  std::vector<NamedShape> model;
  for (const ParameterPlan& parameter : plan.parameter()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
    const auto& stored = parameter.stored_shape();
    model.push_back(
        {parameter.name(), stored.empty() ? home.shape() : std::vector<int64_t>(stored.begin(), stored.end())});
  }
  const ModelDifferences differences = CompareModel(file->entries(), model);
  const bool extra_matters = !spec.weights().has_strict() || spec.weights().strict();
  if (!differences.missing.empty() || !differences.misshaped.empty() || (extra_matters && !differences.extra.empty())) {
    ADJOIN_RETURN_IF_ERROR(CheckDifferences(path, differences, /*strict=*/true));
  }
  NamedTensors weights;
  for (const NamedShape& parameter : model) {
    const SafetensorsEntry* entry = file->Find(parameter.name);
    std::vector<Interval> whole;
    for (const int64_t extent : entry->shape) whole.push_back({0, extent});
    at::Tensor values = at::empty(entry->shape, ScalarTypeOf(entry->dtype));
    ADJOIN_RETURN_IF_ERROR(file->ReadBox(*entry, Box(whole), values.data_ptr()));
    weights[parameter.name] = values.is_floating_point() ? values.to(at::kDouble) : values;
  }
  return weights;
}

// The evaluation job of `spec` with layouts that are chosen as for training with the sample's batch.
absl::StatusOr<JobSpec> JobWithChosenLayouts(JobSpec spec, int64_t batch, const SampleByName& sample, uint32_t ranks,
                                             const AutoLayoutOptions& layouts, const LayerRules& rules) {
  if (ranks != spec.ranks()) {
    const std::vector<double> weights = RecutWeights(spec, ranks);
    spec.mutable_rank_weight()->Assign(weights.begin(), weights.end());
  }
  if (spec.has_train()) {
    spec.mutable_train()->set_batch(static_cast<uint32_t>(batch));
    spec.mutable_train()->clear_microbatches();
    spec.mutable_train()->clear_microbatches_in_flight();
  }
  if (spec.has_evaluate()) spec.mutable_evaluate()->set_batch(static_cast<uint32_t>(batch));
  if (spec.has_predict()) spec.mutable_predict()->set_batch(static_cast<uint32_t>(batch));
  const AutoOptions search = {
      .ranks = ranks, .memory_bytes = static_cast<int64_t>(layouts.memory_bytes), .pin = layouts.pin, .explain = false};
  ADJOIN_ASSIGN_OR_RETURN(const AutoPlan chosen, PlanAutomatically(spec, {}, rules, CostModel::Default(), search));
  return EvaluationJob(chosen.spec, batch, sample);
}

absl::Status RunOn(const JobSpec& job, const NamedTensors& serial, const NamedTensors& weights, const Sample& sample,
                   const LayerRules& rules, const LayerRegistry& layers, const VerifyOptions& options,
                   AgainstRanks& run) {
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(job, {}, rules));
  if (options.plan_edit) options.plan_edit(plan);
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, ProgramOf(plan));
  PartitionedInput input;
  input.fields = {sample.fields()};
  input.parameters = weights;
  input.layers = &layers;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<NamedTensors> ranks, RunForward(plan, *program, input));
  for (const LayerPlan& layer : program->layer()) {
    const ValuePlan& value = program->value(layer.output());
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    std::vector<at::Tensor> parts;
    for (const NamedTensors& values : ranks) parts.push_back(values.at(value.name()));
    LayerComparison entry;
    entry.name = layer.name();
    entry.kind = KindOf(layer.spec());
    entry.output = CompareParts(serial.at(layer.name()), layout, parts, 1);
    run.layers.push_back(std::move(entry));
    for (const SampleDifference& output : sample.outputs()) {
      if (output.layer != layer.name()) continue;
      run.sample.push_back(output);
      run.sample.back().difference = CompareParts(sample.values(output), layout, parts, 0);
    }
  }
  return absl::OkStatus();
}

// The serial model's values as parts of one plan's layouts: only their positions matter.
absl::StatusOr<std::vector<SampleDifference>> CompareSerial(const Plan& plan, const NamedTensors& serial,
                                                            const Sample& sample) {
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, ProgramOf(plan));
  std::vector<SampleDifference> differences = sample.outputs();
  for (SampleDifference& output : differences) {
    for (const LayerPlan& layer : program->layer()) {
      if (layer.name() != output.layer) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(program->value(layer.output()).layout()));
      const at::Tensor& whole = serial.at(layer.name());
      if (whole.sizes() != at::IntArrayRef(layout.shape())) {
        return absl::InternalError(absl::StrCat("layer \"", layer.name(), "\" returns ", ShapeText(whole.sizes()),
                                                " serially and ", ShapeText(layout.shape()), " in the plan"));
      }
      std::vector<at::Tensor> parts;
      for (uint32_t rank = 0; rank < plan.spec().ranks(); ++rank) {
        parts.push_back(PartOnRank(whole, layout, static_cast<int>(rank)));
      }
      output.difference = CompareParts(sample.values(output), layout, parts, 0);
      output.difference.rank = -1;
    }
  }
  return differences;
}

template <typename T>
bool AnyDeviates(const std::vector<T>& all) {
  return std::any_of(all.begin(), all.end(), [](const T& one) { return one.deviates(); });
}

}  // namespace

bool AgainstRanks::deviates() const {
  return !failure.ok() || AnyDeviates(sample) || std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer.output.deviates(kDefaultTolerance);
  });
}

bool AgainstResult::deviates() const { return AnyDeviates(serial) || AnyDeviates(loss) || AnyDeviates(runs); }

absl::StatusOr<AgainstResult> VerifyAgainst(const ParsedSpec& parsed, const AgainstOptions& options) {
  const JobSpec& spec = parsed.spec;
  const LayerRules& rules = options.verify.rules != nullptr ? *options.verify.rules : BuiltinLayerRules();
  const LayerRegistry builtin_layers = BuiltinLayers();
  const LayerRegistry& layers = options.verify.layers != nullptr ? *options.verify.layers : builtin_layers;
  const SerialFunctions builtin_functions = BuiltinSerialFunctions();
  const SerialFunctions& functions =
      options.verify.functions != nullptr ? *options.verify.functions : builtin_functions;
  const std::optional<double> tolerance = options.verify.tolerance;
  if (tolerance.has_value() && !(*tolerance > 0 && std::isfinite(*tolerance))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tolerance is ", *tolerance, "; it must be a finite number above 0, such as 1e-4"));
  }
  std::vector<uint32_t> numbers = options.verify.ranks;
  if (numbers.empty()) numbers = {spec.ranks()};
  for (const uint32_t ranks : numbers) {
    if (ranks >= 1 && ranks <= Planner::kMaxRanks) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cannot verify on ", ranks, " ranks; a job has from 1 to ", Planner::kMaxRanks));
  }
  // As the user wrote it: errors are of its lines.
  ADJOIN_ASSIGN_OR_RETURN(const Plan written, Planner::Build(spec, {}, rules, &parsed.locations));
  AgainstResult result;
  result.job = spec.name();
  result.sample = options.sample;
  result.warnings = PlanWarnings(written);
  ADJOIN_ASSIGN_OR_RETURN(result.weights, WeightsFile(spec, options));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<SampleArray> arrays, ReadSampleFile(options.sample));
  SampleByName by_name;
  for (SampleArray& array : arrays) by_name[array.name] = std::move(array);
  ADJOIN_ASSIGN_OR_RETURN(result.batch, BatchOf(options.sample, by_name));
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, EvaluationJob(spec, result.batch, by_name));
  // On one rank, whatever the batch: shapes and names are those on any.
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, Planner::Build(Recut(job, 1), {}, rules));
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, ProgramOf(plan));
  const bool chosen = options.layouts.chosen;
  std::vector<absl::StatusOr<JobSpec>> cut_jobs;
  for (const uint32_t ranks : numbers) {
    cut_jobs.push_back(chosen ? JobWithChosenLayouts(spec, result.batch, by_name, ranks, options.layouts, rules)
                              : absl::StatusOr<JobSpec>(Recut(job, ranks)));
  }
  LossSample loss(options.sample, spec, written);
  loss.Take(by_name);
  Sample sample(options.sample, std::move(by_name));
  ADJOIN_RETURN_IF_ERROR(sample.Match(job, *program, loss, tolerance));
  ADJOIN_ASSIGN_OR_RETURN(const NamedTensors weights, ReadWeights(result.weights, spec, plan));

  SerialModelOptions model_options;
  model_options.batch = result.batch;
  model_options.functions = &functions;
  model_options.rules = &rules;
  model_options.layers = &layers;
  model_options.evaluation = true;
  ADJOIN_ASSIGN_OR_RETURN(const auto model, SerialModel::Create(job, model_options));
  ADJOIN_ASSIGN_OR_RETURN(const NamedTensors serial, model->Evaluate(sample.fields(), weights));
  ADJOIN_ASSIGN_OR_RETURN(result.serial, CompareSerial(plan, serial, sample));
  if (loss.given()) {
    ADJOIN_ASSIGN_OR_RETURN(result.loss, loss.Compare(job, weights, sample.fields(), model_options, tolerance));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    AgainstRanks run;
    run.ranks = numbers[i];
    run.chosen = chosen;
    run.recut = !chosen && run.ranks != spec.ranks();
    run.failure = cut_jobs[i].ok() ? RunOn(*cut_jobs[i], serial, weights, sample, rules, layers, options.verify, run)
                                   : cut_jobs[i].status();
    result.runs.push_back(std::move(run));
  }
  return result;
}

}  // namespace adjoin
