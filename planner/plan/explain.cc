// Planner::Explain: the plan as tables for people.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/number_ranges.h"
#include "base/text_table.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  return TextTable(rows, {.indent = 2, .gap = 3});
}

// Returns "1x1x2x2 on ranks 0-3" where every axis cuts its own dim, in order; else the mesh with its placements.
std::string LayoutText(const LayoutPlan& layout) {
  bool partition = layout.mesh_size() == layout.shape_size();
  for (int i = 0; i < layout.placement_size(); ++i) {
    partition = partition && layout.placement(i) == absl::StrCat("S(", i, ")");
  }
  std::string text;
  if (layout.rank_size() == 1) {
    text = absl::StrCat("rank ", layout.rank(0));
  } else {
    const std::string placements = partition ? "" : absl::StrCat(" ", absl::StrJoin(layout.placement(), " "));
    text = absl::StrCat(absl::StrJoin(layout.mesh(), "x"), placements, " on ranks ", NumberRanges(layout.rank()));
  }
  for (const Cut& cut : layout.cut()) absl::StrAppend(&text, ", dim ", cut.dim(), " ", absl::StrJoin(cut.size(), "+"));
  return text;
}

template <typename List>
int64_t Sum(const List& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0});
}

// Returns "dim 2: 0,2 2,0": left and right of each part.
std::string HaloText(const LayerPlan& layer) {
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

// Returns the window of a convolution whose halo in `dim` moves as edges of the parts: stride 1, as many outputs as
// inputs.
std::string EdgeText(const WindowSpec& spec, uint32_t dim, int64_t reach) {
  const auto in_dim = [dim](const auto& list, int64_t absent) -> int64_t {
    return list.empty() ? absent : list.size() == 1 ? list.Get(0) : list.Get(static_cast<int>(dim) - 2);
  };
  WindowPlan window;
  window.set_kernel(in_dim(spec.kernel(), 1));
  window.set_stride(1);
  window.set_dilation(in_dim(spec.dilation(), 1));
  window.set_pad_lo(reach);
  window.set_pad_hi(reach);
  return KernelText(window);
}

// Returns the window of the layer's halo in `dim`: of an input, or of a movement between the layer's steps.
std::string WindowInDim(const ProgramPlan& program, const LayerPlan& layer, uint32_t dim) {
  for (const InputReading& input : layer.reading()) {
    for (const ReadingPlan& reading : input.dim()) {
      if (reading.dim() == dim) return ReadingText(reading);
    }
  }
  for (const OperatorUse& use : layer.op()) {
    for (const ReadingPlan& reading : program.op(use.index()).reading()) {
      if (reading.dim() != dim) continue;
      if (reading.has_edge()) return EdgeText(layer.spec().conv().window(), dim, reading.edge().reach());
      return ReadingText(reading);
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

bool HasNegativeHalo(const ProgramPlan& program) {
  const auto negative = [](int64_t width) { return width < 0; };
  for (const LayerPlan& layer : program.layer()) {
    for (const OutputWindow& halo : layer.halo()) {
      if (std::any_of(halo.left().begin(), halo.left().end(), negative)) return true;
      if (std::any_of(halo.right().begin(), halo.right().end(), negative)) return true;
    }
  }
  return false;
}

std::vector<std::string> MovementRow(absl::string_view role, const OperatorPlan& op) {
  return {std::string(role),
          op.algorithm(),
          absl::StrCat(Sum(op.bytes_forward())),
          op.differentiable() ? absl::StrCat(Sum(op.bytes_adjoint())) : "-",
          LayoutText(op.from()),
          LayoutText(op.to())};
}

std::string LayersText(const ProgramPlan& program) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "kind", "output", "layout", "halo (left,right of each part)", "window", "Mflop"}};
  for (const LayerPlan& layer : program.layer()) {
    const LayoutPlan& output = program.value(layer.output()).layout();
    rows.push_back({layer.name(), KindOf(layer.spec()), ShapeText(output.shape()), LayoutText(output), HaloText(layer),
                    WindowsText(program, layer), absl::StrFormat("%.3g", layer.flops() / 1e6)});
  }
  std::string text = Table(rows);
  if (HasNegativeHalo(program)) {
    absl::StrAppend(&text, "  a negative halo width: the part reads fewer cells than it stores\n");
  }
  return text;
}

std::string MovementsText(const ProgramPlan& program) {
  std::vector<std::vector<std::string>> rows = {
      {"movement", "algorithm", "bytes forward", "bytes backward", "from", "to"}};
  for (const OperatorPlan& op : program.op()) rows.push_back(MovementRow(op.name(), op));
  return Table(rows);
}

// Returns a line for each field that is read from the files together with the halo of its layer.
std::string FieldsText(const ProgramPlan& program) {
  std::string text;
  for (const ValuePlan& value : program.value()) {
    if (!value.has_read()) continue;
    absl::StrAppend(&text, "  field \"", value.field(), "\": each rank reads from the files what ", value.read().name(),
                    " would fetch, halo included\n");
  }
  return text.empty() ? text : absl::StrCat("\n", text);
}

std::string ParametersText(const Plan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "shape", "home", "bytes", "gradient's sum, bytes per step"}};
  for (const ParameterPlan& parameter : plan.parameter()) {
    const auto home = LayoutFromProto(parameter.home());
    int64_t bytes = 0;
    if (home.ok()) {
      for (int rank : home->mesh().ranks()) bytes += home->BoxOf(rank).Volume() * SizeOf(home->dtype());
    }
    const std::string sync = parameter.buffer()   ? "not trained"
                             : parameter.frozen() ? "frozen"
                                                  : absl::StrCat(Sum(parameter.sync().bytes_forward()));
    rows.push_back({parameter.name(), ShapeText(parameter.home().shape()), LayoutText(parameter.home()),
                    absl::StrCat(bytes), sync});
  }
  return Table(rows);
}

std::string StepText(const ProgramPlan& program) {
  std::vector<std::vector<std::string>> rows = {{"rank", "bytes sent per step"}};
  for (int rank = 0; rank < program.bytes_per_step_size(); ++rank) {
    rows.push_back({absl::StrCat(rank), absl::StrCat(program.bytes_per_step(rank))});
  }
  rows.push_back({"all", absl::StrCat(Sum(program.bytes_per_step()))});
  return Table(rows);
}

}  // namespace

std::string Planner::Explain(const Plan& plan) {
  std::string text =
      absl::StrCat("job \"", plan.spec().name(), "\": ", Kind_Name(plan.spec().kind()), " on ", plan.spec().ranks(),
                   plan.spec().ranks() == 1 ? " rank" : " ranks", ", plan ", Hash(plan), "\n");
  for (const ProgramPlan& program : plan.program()) {
    absl::StrAppend(&text, "\nprogram \"", program.name(), "\": a batch of ", program.batch(),
                    " samples of data set \"", program.dataset(), "\"",
                    program.training() ? ", forward and backward" : ", forward only", "\n");
    // The other programs differ from the first in the batch only.
    if (&program == &plan.program(0)) {
      absl::StrAppend(&text, "\n", LayersText(program), FieldsText(program), "\n", MovementsText(program));
    }
    absl::StrAppend(&text, "\n", StepText(program));
  }
  absl::StrAppend(&text, "\n", ParametersText(plan));
  return text;
}

}  // namespace adjoin
