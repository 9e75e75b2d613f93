// MakePlanReport: the numbers of a plan.
#include "planner/plan/plan_report.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/amount_text.h"
#include "base/status_macros.h"
#include "layers/conv/edge_halo.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "planner/memory/memory_ledger.h"
#include "planner/memory/resident_size.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/gradient_buckets.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/pipeline_stages.h"
#include "planner/plan/plan_warnings.h"
#include "planner/plan/planner.h"
#include "planner/spec/whole_volumes.h"
#include "planner/time/step_time.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/traffic.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr int kLargest = 5;

// Numbers from 0 on; the largest 64-bit number where the sum does not fit.
int64_t Add(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

template <typename List>
int64_t Sum(const List& list) {
  int64_t sum = 0;
  for (const int64_t each : list) sum = Add(sum, each);
  return sum;
}

// `message`: WindowPlan or TransposedWindowPlan. Defaults that most layers have are left out.
template <typename Message>
std::string KernelText(const Message& message) {
  return absl::StrCat("kernel ", message.kernel(), " stride ", message.stride(),
                      message.dilation() > 1 ? absl::StrCat(" dilation ", message.dilation()) : "", " padding ",
                      message.pad_lo(), ",", message.pad_hi());
}

// Returns "kernel 5 stride 1 padding 2,2": which cells each output reads.
std::string ReadingText(const ReadingPlan& reading) {
  switch (reading.kind_case()) {
    case ReadingPlan::kWindow: {
      const std::string& boundary = reading.window().boundary();
      return absl::StrCat(KernelText(reading.window()), boundary == "zeros" ? "" : " ",
                          boundary == "zeros" ? "" : boundary, reading.window().ceil_mode() ? " ceil_mode" : "");
    }
    case ReadingPlan::kTransposed: {
      const int64_t padding = reading.transposed().output_padding();
      return absl::StrCat("transposed ", KernelText(reading.transposed()),
                          padding > 0 ? absl::StrCat(" output_padding ", padding) : "");
    }
    case ReadingPlan::kAdaptive: return absl::StrCat("adaptive to ", reading.adaptive().outputs());
    case ReadingPlan::kInterpolation: return absl::StrCat(reading.interpolation().mode(), " interpolation");
    case ReadingPlan::kEdge:  // WindowInDim knows the convolution's window
    case ReadingPlan::kSelection:
    case ReadingPlan::KIND_NOT_SET: break;
  }
  return "";
}

// Returns the window of a convolution whose halo in `dim` moves as edges of the parts.
std::string EdgeText(const Conv& conv, uint32_t dim) {
  const absl::StatusOr<Window> window = WindowOfConv(conv, static_cast<int>(dim));
  return window.ok() ? ReadingText(ToProto(static_cast<int>(dim), *window)) : "";
}

// Returns the window of the layer's halo in `dim`: of an input, or of a movement between the layer's steps.
std::string WindowInDim(const ProgramPlan& program, const LayerPlan& layer, uint32_t dim) {
  for (const InputReading& input : layer.reading()) {
    for (const ReadingPlan& reading : input.dim()) {
      if (reading.dim() == dim) return ReadingText(reading);
    }
  }
  for (const OperatorUse& use : layer.op()) {
    // Edges of one dim have halos in others; these are the same convolution's.
    const auto& readings = program.op(use.index()).reading();
    const bool edges = std::any_of(readings.begin(), readings.end(), [](const auto& each) { return each.has_edge(); });
    for (const ReadingPlan& reading : readings) {
      if (reading.dim() != dim) continue;
      return edges ? EdgeText(layer.spec().conv(), dim) : ReadingText(reading);
    }
  }
  return "";
}

// Returns the window once where all dims with a halo have the same one, else "dim 2: kernel ...; dim 3: kernel ...".
std::string WindowsText(const ProgramPlan& program, const LayerPlan& layer) {
  std::vector<std::string> windows, with_dims;
  for (const OutputWindow& halo : layer.halo()) {
    windows.push_back(WindowInDim(program, layer, halo.dim()));
    with_dims.push_back(absl::StrCat("dim ", halo.dim(), ": ", windows.back()));
  }
  const bool same =
      std::all_of(windows.begin(), windows.end(), [&](const std::string& window) { return window == windows.front(); });
  if (windows.empty()) return "";
  return same ? windows.front() : absl::StrJoin(with_dims, "; ");
}

TensorReport TensorOf(const std::string& name, const LayoutPlan& plan) {
  TensorReport report;
  report.set_name(name);
  *report.mutable_layout() = plan;
  const absl::StatusOr<Layout> layout = LayoutFromProto(plan);
  if (!layout.ok()) return report;  // not in a plan that the planner made
  for (const int rank : layout->mesh().ranks()) {
    const int64_t bytes = layout->BoxOf(rank).Volume() * SizeOf(layout->dtype());
    report.set_bytes(Add(report.bytes(), bytes));
    report.set_bytes_of_largest_part(std::max(report.bytes_of_largest_part(), bytes));
  }
  return report;
}

// Returns into how many parts the tensor is cut, its copies not counted.
int64_t PartsOf(const LayoutPlan& plan) {
  const absl::StatusOr<Layout> layout = LayoutFromProto(plan);
  int64_t parts = 1;
  for (int dim = 0; layout.ok() && dim < layout->dims(); ++dim) parts *= layout->Parts(dim);
  return parts;
}

MovementReport MovementOf(const OperatorPlan& op) {
  MovementReport report;
  report.set_name(op.name());
  report.set_algorithm(op.algorithm());
  *report.mutable_from() = op.from();
  *report.mutable_to() = op.to();
  report.set_bytes_forward(op.bytes_forward_sum());
  if (op.differentiable()) report.set_bytes_backward(op.bytes_adjoint_sum());
  return report;
}

LayerReport LayerOf(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer) {
  LayerReport report;
  report.set_name(layer.name());
  report.set_kind(KindOf(layer.spec()));
  for (const uint32_t input : layer.input()) {
    *report.add_input() = TensorOf(program.value(input).name(), program.value(input).layout());
  }
  *report.mutable_output() = TensorOf(layer.name(), program.value(layer.output()).layout());
  *report.mutable_halo() = layer.halo();
  report.set_window(WindowsText(program, layer));
  for (const OperatorUse& use : layer.op()) {
    const OperatorPlan& op = program.op(use.index());
    report.add_movement(op.name());
    report.set_bytes_forward(Add(report.bytes_forward(), op.bytes_forward_sum()));
    if (!program.training()) continue;
    report.set_bytes_backward(Add(report.bytes_backward(), op.bytes_adjoint_sum()));
  }
  report.set_flops_forward(layer.flops());
  for (const ParameterUse& use : layer.parameter()) report.add_parameter(plan.parameter(use.index()).name());
  return report;
}

ProgramReport ProgramOf(const Plan& plan, const ProgramPlan& program) {
  ProgramReport report;
  report.set_name(program.name());
  report.set_training(program.training());
  report.set_dataset(program.dataset());
  report.set_batch(program.batch());
  *report.mutable_bytes_sent() = program.bytes_per_step();
  report.set_bytes_sent_by_all(Sum(program.bytes_per_step()));
  for (const ValuePlan& value : program.value()) {
    if (value.field().empty()) continue;
    FieldReport& field = *report.add_field();
    *field.mutable_tensor() = TensorOf(value.field(), value.layout());
    if (value.has_read()) field.set_halo_of(value.read().name());
  }
  for (const LayerPlan& layer : program.layer()) {
    *report.add_layer() = LayerOf(plan, program, layer);
    report.set_flops_forward(report.flops_forward() + layer.flops());
  }
  for (const OperatorPlan& op : program.op()) *report.add_movement() = MovementOf(op);
  return report;
}

ParameterReport ParameterOf(const ParameterPlan& parameter) {
  ParameterReport report;
  *report.mutable_home() = TensorOf(parameter.name(), parameter.home());
  report.set_state(parameter.buffer() ? "not trained" : parameter.frozen() ? "frozen" : "trained");
  report.set_bytes_of_sum(parameter.sync().bytes_forward_sum());
  return report;
}

absl::Status AddSums(const Plan& plan, PlanReport& report) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan));
  for (const GradientSum& sum : sums) {
    ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TrafficOf(sum.movement));
    GradientSumReport& added = *report.add_gradient_sum();
    added.set_name(sum.movement.name());
    for (auto i = sum.parameters.rbegin(); i != sum.parameters.rend(); ++i) {
      added.add_parameter(plan.parameter(*i).name());
    }
    added.set_algorithm(traffic.forward.algorithm);
    added.set_bytes(traffic.forward.total_bytes);
    added.set_messages(traffic.forward.busiest.messages_sent);
  }
  return absl::OkStatus();
}

// Adds the largest tensors, and counts parts and parameters.
void Summarise(const Plan& plan, PlanReport& report) {
  std::vector<LargeTensor> tensors;
  const auto add = [&](const char* what, const TensorReport& tensor) {
    LargeTensor& large = tensors.emplace_back();
    large.set_what(what);
    *large.mutable_tensor() = tensor;
    report.set_parts(std::max(report.parts(), PartsOf(tensor.layout())));
  };
  if (report.program_size() > 0) {
    for (const FieldReport& field : report.program(0).field()) add("field", field.tensor());
    for (const LayerReport& layer : report.program(0).layer()) add("output", layer.output());
  }
  for (const ParameterReport& parameter : report.parameter()) {
    add("parameter", parameter.home());
    const absl::StatusOr<Layout> home = LayoutFromProto(parameter.home().layout());
    if (!home.ok()) continue;
    const int64_t elements = VolumeOf(home->shape());
    if (parameter.state() != "trained") {
      report.set_untrained(Add(report.untrained(), elements));
      continue;
    }
    report.set_parameters(Add(report.parameters(), elements));
    report.set_parameter_bytes(Add(report.parameter_bytes(), elements * SizeOf(home->dtype())));
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LargeTensor& a, const LargeTensor& b) { return a.tensor().bytes() > b.tensor().bytes(); });
  if (tensors.size() > kLargest) tensors.resize(kLargest);
  for (const LargeTensor& tensor : tensors) *report.add_largest() = tensor;
}

MemoryReport MemoryOf(const RankMemory& memory) {
  MemoryReport report;
  const auto of = [&memory](MemoryPart part) { return memory.of_part[static_cast<int>(part)]; };
  report.set_rank(memory.rank);
  report.set_bytes(memory.bytes);
  report.set_parameters(of(MemoryPart::kParameters));
  report.set_gradients(of(MemoryPart::kGradients));
  report.set_optimizer(of(MemoryPart::kOptimizer));
  report.set_data(of(MemoryPart::kFields));
  report.set_activations(of(MemoryPart::kActivations));
  report.set_kernels(of(MemoryPart::kWork));
  report.set_program(memory.program);
  report.set_during(memory.during);
  for (const RankMemory::Share& share : memory.largest) {
    if (share.bytes == 0) continue;
    LayerMemoryReport* layer = report.add_layer();
    layer->set_name(share.layer);
    layer->set_bytes(share.bytes);
  }
  return report;
}

// A job's limit is for tensors, as the prediction is.
void WarnOfLimit(const Plan& plan, PlanReport& report) {
  const uint64_t limit = plan.spec().resources().memory_bytes();
  if (limit == 0 || static_cast<uint64_t>(report.memory().bytes()) <= limit) return;
  if (!KnowsMemory(plan)) return;
  report.add_warning(absl::StrCat("rank ", report.memory().rank(), " needs about ", BytesText(report.memory().bytes()),
                                  " for tensors, and resources.memory_bytes allows ",
                                  BytesText(static_cast<int64_t>(limit)),
                                  "; use more ranks, micro-batches or recompute, or raise the limit"));
}

}  // namespace

// Planned for the extents of no file in particular.
bool KnowsMemory(const Plan& plan) {
  return std::none_of(plan.spec().dataset().begin(), plan.spec().dataset().end(), HasWholeVolumes);
}

absl::StatusOr<MemoryReport> MakeMemoryReport(const Plan& plan) {
  ADJOIN_ASSIGN_OR_RETURN(const RankMemory memory, PredictLargestMemory(plan));
  MemoryReport report = MemoryOf(memory);
  ADJOIN_ASSIGN_OR_RETURN(const ResidentSize size, PredictResidentSize(plan, memory));
  report.set_resident(size.total);
  report.set_process(size.program);
  return report;
}

std::string MemoryPartsText(const MemoryReport& memory) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* what, int64_t bytes) {
    if (bytes > 0) parts.push_back(absl::StrCat(what, " ", BytesText(bytes)));
  };
  add("parameters", memory.parameters());
  add("gradients", memory.gradients());
  add("optimizer", memory.optimizer());
  add("data", memory.data());
  add("activations", memory.activations());
  add("kernels", memory.kernels());
  add("the process itself", memory.process());
  return absl::StrJoin(parts, ", ");
}

void AddPipeline(const Plan& plan, PlanReport& report) {
  if (plan.spec().kind() != TRAIN || plan.spec().train().microbatches_in_flight() <= 1) return;
  const absl::StatusOr<PipelineStages> stages = PipelineStages::Of(plan);
  if (!stages.ok()) return;  // the planner has made the same
  PipelineReport& pipeline = *report.mutable_pipeline();
  for (int i = 0; i < stages->size(); ++i) {
    StageReport& stage = *pipeline.add_stage();
    for (const uint32_t rank : stages->ranks()[i]) {
      if (stage.ranks_size() > 0 && rank == stage.ranks().rbegin()->first() + stage.ranks().rbegin()->count()) {
        RankRun& run = *stage.mutable_ranks(stage.ranks_size() - 1);
        run.set_count(run.count() + 1);
        continue;
      }
      RankRun& run = *stage.add_ranks();
      run.set_first(rank);
      run.set_count(1);
    }
    stage.set_in_flight(static_cast<uint32_t>(stages->in_flight()[i]));
  }
  if (plan.program().empty()) return;
  for (const LayerPlan& layer : plan.program(0).layer()) {
    const int stage = stages->StageOf(static_cast<int>(RanksOf(layer.compute()).at(0)));
    pipeline.mutable_stage(stage)->add_layer(layer.name());
  }
  pipeline.set_idle_share(IdleShareOf(plan, *stages));
}

PlanReport MakePlanReport(const Plan& plan, const CostModel& model) {
  PlanReport report;
  report.set_name(plan.spec().name());
  report.set_kind(Kind_Name(plan.spec().kind()));
  report.set_ranks(plan.spec().ranks());
  report.set_plan(Planner::Hash(plan));
  for (const ProgramPlan& program : plan.program()) *report.add_program() = ProgramOf(plan, program);
  for (const ParameterPlan& parameter : plan.parameter()) *report.add_parameter() = ParameterOf(parameter);
  // The planner has counted the same sums.
  AddSums(plan, report).IgnoreError();
  Summarise(plan, report);
  AddPipeline(plan, report);
  for (std::string& warning : PlanWarnings(plan)) report.add_warning(std::move(warning));
  if (absl::StatusOr<MemoryReport> memory = MakeMemoryReport(plan); memory.ok()) {
    *report.mutable_memory() = *std::move(memory);
    WarnOfLimit(plan, report);
  }
  if (const auto time = PredictStepTime(plan, model); time.ok()) *report.mutable_time() = ReportOf(*time, model);
  return report;
}

}  // namespace adjoin
