// Planner::Explain: the plan as tables for people.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/amount_text.h"
#include "base/number_ranges.h"
#include "base/text_table.h"
#include "planner/plan/layout_text.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/planner.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  return TextTable(rows, {.indent = 2, .gap = 3});
}

// Returns "dim 2: 0,2 2,0": left and right of each part.
std::string HaloText(const LayerReport& layer) {
  std::vector<std::string> dims;
  for (const OutputWindow& halo : layer.halo()) {
    std::string text = absl::StrCat("dim ", halo.dim(), ":");
    for (int part = 0; part < halo.left_size(); ++part) {
      absl::StrAppend(&text, " ", halo.left(part), ",", halo.right(part));
    }
    dims.push_back(std::move(text));
  }
  return absl::StrJoin(dims, "; ");
}

bool HasNegativeHalo(const ProgramReport& program) {
  const auto negative = [](int64_t width) { return width < 0; };
  for (const LayerReport& layer : program.layer()) {
    for (const OutputWindow& halo : layer.halo()) {
      if (std::any_of(halo.left().begin(), halo.left().end(), negative)) return true;
      if (std::any_of(halo.right().begin(), halo.right().end(), negative)) return true;
    }
  }
  return false;
}

std::string SentText(const ProgramReport& program) {
  if (program.bytes_sent_by_all() == 0) return "nothing";
  const auto most = std::max_element(program.bytes_sent().begin(), program.bytes_sent().end());
  return absl::StrCat(BytesText(program.bytes_sent_by_all()), " by all ranks together, at most ", BytesText(*most),
                      " by one (rank ", most - program.bytes_sent().begin(), ")");
}

// Returns a line for each of the largest tensors.
std::string LargestText(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const LargeTensor& large : report.largest()) {
    const TensorReport& tensor = large.tensor();
    rows.push_back({tensor.name(), large.what(), ShapeText(tensor.layout().shape()), BytesText(tensor.bytes()),
                    tensor.bytes() == tensor.bytes_of_largest_part()
                        ? "on one rank"
                        : absl::StrCat("at most ", BytesText(tensor.bytes_of_largest_part()), " on a rank")});
  }
  return TextTable(rows);
}

// Returns how much memory tensors take, when, and for what.
std::vector<std::string> MemoryLines(const MemoryReport& memory) {
  if (memory.bytes() == 0) return {};
  std::vector<std::string> parts;
  const auto add = [&parts](int64_t bytes, const char* what) {
    if (bytes > 0) parts.push_back(absl::StrCat(BytesText(bytes), " ", what));
  };
  add(memory.parameters(), "parameters");
  add(memory.gradients(), "gradients");
  add(memory.optimizer(), "optimizer");
  add(memory.data(), "data");
  add(memory.activations(), "activations");
  add(memory.kernels(), "kernels");
  std::vector<std::string> layers;
  for (const LayerMemoryReport& layer : memory.layer()) {
    layers.push_back(absl::StrCat(layer.name(), " ", BytesText(layer.bytes())));
  }
  std::vector<std::string> lines = {
      absl::StrCat("about ", BytesText(memory.bytes()), " of tensors on rank ", memory.rank(),
                   memory.during().empty() ? "" : absl::StrCat(", most in the ", memory.during())),
      absl::StrJoin(parts, ", ")};
  if (memory.resident() > 0) {
    lines.push_back(absl::StrCat("its process about ", BytesText(memory.resident()), " with ",
                                 BytesText(memory.process()), " that are no tensors"));
  }
  if (!layers.empty()) lines.push_back(absl::StrCat("held by ", absl::StrJoin(layers, ", ")));
  return lines;
}

// "12.3": in units of `unit` seconds.
std::string InUnits(double seconds, double unit) { return absl::StrFormat("%.3g", seconds / unit); }

// Returns how long a step that trains takes, and with what.
std::vector<std::string> TimeLines(const TimeReport& time) {
  if (time.step_seconds() <= 0) return {};
  const double unit = time.step_seconds() < 1e-3 ? 1e-6 : time.step_seconds() < 1 ? 1e-3 : 1;
  std::vector<std::string> parts;
  const auto add = [&](const char* what, double seconds) {
    if (seconds >= time.step_seconds() * 1e-3) parts.push_back(absl::StrCat(what, " ", InUnits(seconds, unit)));
  };
  add("compute", time.compute_seconds());
  add("movement", time.movement_seconds());
  add("waiting", time.wait_seconds());
  add("gradients", time.gradient_seconds());
  add("update", time.update_seconds());
  return {absl::StrCat("about ", InUnits(time.step_seconds(), unit),
                       unit < 1e-5 ? " us"
                       : unit < 1  ? " ms"
                                   : " s",
                       ": ", absl::StrJoin(parts, ", ")),
          absl::StrCat("by the rates of ", time.rates())};
}

std::string RanksText(const StageReport& stage) {
  std::vector<uint32_t> ranks;
  for (const RankRun& run : stage.ranks()) {
    for (uint32_t i = 0; i < run.count(); ++i) ranks.push_back(run.first() + i);
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", NumberRanges(ranks));
}

// Returns a line for each stage, and one for what the ranks have nothing to do in.
std::vector<std::string> PipelineLines(const PipelineReport& pipeline) {
  std::vector<std::vector<std::string>> rows;
  for (const StageReport& stage : pipeline.stage()) {
    const int layers = stage.layer_size();
    rows.push_back({RanksText(stage),
                    layers == 0   ? "no layers"
                    : layers == 1 ? stage.layer(0)
                                  : absl::StrCat(stage.layer(0), " to ", stage.layer(layers - 1)),
                    absl::StrCat("at most ", stage.in_flight(), " in flight")});
  }
  const std::string table = TextTable(rows);
  std::vector<std::string> lines = absl::StrSplit(table, '\n', absl::SkipEmpty());
  if (lines.empty()) return lines;
  lines.push_back(
      absl::StrFormat("idle for %.0f%% of the passes by the layers' operations; the time above is without it",
                      100 * pipeline.idle_share()));
  return lines;
}

// What a user looks for first. The numbers are those of the first program.
std::string SummaryText(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"ranks", absl::StrCat(report.ranks(), "; ",
                             report.parts() > 1 ? absl::StrCat("tensors in up to ", report.parts(), " parts")
                                                : "no tensor is cut")},
      {"parameters",
       absl::StrCat(CountText(report.parameters()), " trained, ", BytesText(report.parameter_bytes()),
                    report.untrained() > 0 ? absl::StrCat("; ", CountText(report.untrained()), " not trained") : "")}};
  if (report.program_size() > 0) {
    const ProgramReport& program = report.program(0);
    rows.push_back({"sent per step", SentText(program)});
    rows.push_back({"forward pass", absl::StrCat(FlopsText(program.flops_forward()), " by all ranks together")});
  }
  for (const std::string& line : MemoryLines(report.memory())) {
    rows.push_back({rows.back()[0] == "forward pass" ? "memory" : "", line});
  }
  bool first = true;
  for (const std::string& line : TimeLines(report.time())) {
    rows.push_back({std::exchange(first, false) ? "step" : "", line});
  }
  first = true;
  for (const std::string& line : PipelineLines(report.pipeline())) {
    rows.push_back({std::exchange(first, false) ? "micro-batches" : "", line});
  }
  first = true;
  for (const absl::string_view line : absl::StrSplit(LargestText(report), '\n', absl::SkipEmpty())) {
    rows.push_back({std::exchange(first, false) ? "largest tensors" : "", std::string(line)});
  }
  return Table(rows);
}

std::string LayersText(const ProgramReport& program) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "kind", "output", "layout", "halo (left,right of each part)", "window", "Mflop"}};
  for (const LayerReport& layer : program.layer()) {
    const LayoutPlan& output = layer.output().layout();
    rows.push_back({layer.name(), layer.kind(), ShapeText(output.shape()), LayoutText(output), HaloText(layer),
                    layer.window(), absl::StrFormat("%.3g", layer.flops_forward() / 1e6)});
  }
  std::string text = Table(rows);
  if (HasNegativeHalo(program)) {
    absl::StrAppend(&text, "  a negative halo width: the part reads fewer cells than it stores\n");
  }
  return text;
}

std::string MovementsText(const ProgramReport& program) {
  std::vector<std::vector<std::string>> rows = {
      {"movement", "algorithm", "bytes forward", "bytes backward", "from", "to"}};
  for (const MovementReport& movement : program.movement()) {
    rows.push_back({movement.name(), movement.algorithm(), absl::StrCat(movement.bytes_forward()),
                    movement.has_bytes_backward() ? absl::StrCat(movement.bytes_backward()) : "-",
                    LayoutText(movement.from()), LayoutText(movement.to())});
  }
  return Table(rows);
}

// Returns a line for each field that is read from the files together with the halo of its layer.
std::string FieldsText(const ProgramReport& program) {
  std::string text;
  for (const FieldReport& field : program.field()) {
    if (field.halo_of().empty()) continue;
    absl::StrAppend(&text, "  field \"", field.tensor().name(), "\": each rank reads from the files what ",
                    field.halo_of(), " would fetch, halo included\n");
  }
  return text.empty() ? text : absl::StrCat("\n", text);
}

std::string ParametersText(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "shape", "home", "bytes", "gradient's sum, bytes per step"}};
  for (const ParameterReport& parameter : report.parameter()) {
    const LayoutPlan& home = parameter.home().layout();
    rows.push_back({parameter.home().name(), ShapeText(home.shape()), LayoutText(home),
                    absl::StrCat(parameter.home().bytes()),
                    parameter.state() == "trained" ? absl::StrCat(parameter.bytes_of_sum()) : parameter.state()});
  }
  return Table(rows);
}

// Returns "" where no gradient is summed over ranks.
std::string SumsText(const PlanReport& report) {
  if (report.gradient_sum().empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"sum of gradients", "parameters", "algorithm", "bytes per step", "messages of a rank"}};
  for (const GradientSumReport& sum : report.gradient_sum()) {
    rows.push_back({sum.name(), absl::StrCat(sum.parameter_size()), sum.algorithm(), absl::StrCat(sum.bytes()),
                    absl::StrCat(sum.messages())});
  }
  return absl::StrCat("\n", Table(rows));
}

std::string StepText(const ProgramReport& program) {
  std::vector<std::vector<std::string>> rows = {{"rank", "bytes sent per step"}};
  for (int rank = 0; rank < program.bytes_sent_size(); ++rank) {
    rows.push_back({absl::StrCat(rank), absl::StrCat(program.bytes_sent(rank))});
  }
  rows.push_back({"all", absl::StrCat(program.bytes_sent_by_all())});
  return Table(rows);
}

}  // namespace

std::string Planner::Explain(const PlanReport& report) {
  std::string text =
      absl::StrCat("job \"", report.name(), "\": ", report.kind(), " on ", report.ranks(),
                   report.ranks() == 1 ? " rank" : " ranks", ", plan ", report.plan(), "\n\n", SummaryText(report));
  for (const ProgramReport& program : report.program()) {
    absl::StrAppend(&text, "\nprogram \"", program.name(), "\": a batch of ", program.batch(),
                    " samples of data set \"", program.dataset(), "\"",
                    program.training() ? ", forward and backward" : ", forward only", "\n");
    // The other programs differ from the first in the batch only.
    if (&program == &report.program(0)) {
      absl::StrAppend(&text, "\n", LayersText(program), FieldsText(program), "\n", MovementsText(program));
    }
    absl::StrAppend(&text, "\n", StepText(program));
  }
  absl::StrAppend(&text, "\n", ParametersText(report), SumsText(report));
  if (!report.warning().empty()) absl::StrAppend(&text, "\n");
  for (const std::string& warning : report.warning()) absl::StrAppend(&text, "warning: ", warning, "\n");
  return text;
}

std::string Planner::Explain(const Plan& plan) { return Explain(MakePlanReport(plan)); }

}  // namespace adjoin
