#include "planner/auto/layout_diff.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_ranges.h"
#include "layers/rules/roles.h"
#include "planner/memory/local_sizes.h"
#include "planner/plan/pipeline_stages.h"

namespace adjoin {
namespace {

// The dim of "S(2)"; -1 for others.
int SplitDim(const std::string& placement) {
  return placement.size() > 3 && placement[0] == 'S' ? std::stoi(placement.substr(2)) : -1;
}

// The layout in which a layer reads an input, wherever that lies.
const LayoutPlan& ReadLayout(const ProgramPlan& program, const LayerPlan& layer, int input) {
  const OperatorPlan* const op = OperatorOf(program, layer, InputRole(input));
  if (op == nullptr) return program.value(static_cast<int>(layer.input(input))).layout();
  if (op->reading().empty()) return op->to();
  return op->has_read() ? op->read() : op->from();
}

// How a layer is cut, in one line.
std::string LayerText(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer) {
  const std::string compute = CutText(layer.compute());
  std::vector<std::string> reads;
  for (int i = 0; i < layer.input_size(); ++i) reads.push_back(CutText(ReadLayout(program, layer, i)));
  // All inputs alike are one; else each has its place.
  if (std::equal(reads.begin() + (reads.empty() ? 0 : 1), reads.end(), reads.begin())) reads.resize(!reads.empty());
  if (reads.size() == 1 && reads[0] == compute) reads.clear();
  std::string text = reads.empty() ? compute : absl::StrCat(absl::StrJoin(reads, ","), " -> ", compute);
  const std::string output = CutText(program.value(static_cast<int>(layer.output())).layout());
  if (output != compute) absl::StrAppend(&text, " -> ", output);
  std::string homes;
  for (const ParameterUse& use : layer.parameter()) {
    const ParameterPlan& parameter = plan.parameter(static_cast<int>(use.index()));
    const auto& placements = parameter.home().placement();
    const bool whole = parameter.home().mesh_size() > 0 && RanksOf(parameter.home()).size() > 1 &&
                       std::all_of(placements.begin(), placements.end(), [](const auto& p) { return p == "B"; });
    if (parameter.buffer() || whole) continue;
    absl::StrAppend(&homes, homes.empty() ? "" : ", ", use.role(), " ", CutText(parameter.home()));
  }
  if (!homes.empty()) absl::StrAppend(&text, " (", homes, ")");
  if (layer.spec().recompute()) absl::StrAppend(&text, ", computed again");
  return text;
}

std::vector<std::pair<std::string, std::string>> LayerTexts(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> texts;
  if (plan.program().empty()) return texts;
  const ProgramPlan& program = plan.program(0);
  for (const LayerPlan& layer : program.layer()) texts.emplace_back(layer.name(), LayerText(plan, program, layer));
  return texts;
}

}  // namespace

std::string CutText(const LayoutPlan& layout) {
  const int dims = layout.shape_size();
  std::vector<int64_t> sizes;
  std::vector<std::string> placements;
  for (int axis = 0; axis < layout.mesh_size(); ++axis) {
    if (layout.mesh(axis) == 1) continue;
    // The same values along two axes in a row are the same along one.
    if (layout.placement(axis) == "B" && !placements.empty() && placements.back() == "B") {
      sizes.back() *= layout.mesh(axis);
      continue;
    }
    sizes.push_back(layout.mesh(axis));
    placements.push_back(layout.placement(axis));
  }
  // A partition: every axis cuts a dim of its own, in order of the dims.
  std::vector<int64_t> parts(dims, 1);
  bool partition = dims > 0;
  int last = -1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const int dim = SplitDim(placements[axis]);
    partition = partition && dim > last && dim < dims;
    if (!partition) break;
    parts[dim] = sizes[axis];
    last = dim;
  }
  std::string text = absl::StrJoin(parts, "x");
  if (!partition) {
    text = sizes.empty() ? "1" : absl::StrJoin(sizes, "x");
    for (std::string placement : placements) {
      placement.erase(std::remove_if(placement.begin(), placement.end(), [](char c) { return c == '(' || c == ')'; }),
                      placement.end());
      absl::StrAppend(&text, ".", placement);
    }
  }
  const std::vector<uint32_t> ranks = RanksOf(layout);
  std::vector<uint32_t> first(ranks.size());
  std::iota(first.begin(), first.end(), 0u);
  if (ranks != first) absl::StrAppend(&text, " on ", ranks.size() == 1 ? "rank " : "ranks ", NumberRanges(ranks));
  for (const Cut& cut : layout.cut()) {
    absl::StrAppend(&text, " [dim ", cut.dim(), ": ", absl::StrJoin(cut.size(), "+"), "]");
  }
  return text;
}

std::string DiffOfLayouts(const Plan& before, const Plan& after) {
  std::map<std::string, std::string> old;
  for (auto& [name, text] : LayerTexts(before)) old.emplace(std::move(name), std::move(text));
  struct Line {
    std::string first, last, what;
  };
  std::vector<Line> lines;
  const auto add = [&lines](const std::string& layer, const std::string& what, bool follows) {
    if (follows && !lines.empty() && lines.back().what == what) {
      lines.back().last = layer;
    } else {
      lines.push_back({layer, layer, what});
    }
  };
  bool follows = false;  // the layer before differs as well
  for (const auto& [name, now] : LayerTexts(after)) {
    const auto found = old.find(name);
    if (found == old.end()) {
      add(name, "only here", follows);
      follows = true;
      continue;
    }
    const bool differs = found->second != now;
    if (differs) add(name, absl::StrCat(now, ", was ", found->second), follows);
    follows = differs;
    old.erase(found);
  }
  for (const auto& [name, layer] : LayerTexts(before)) {
    if (old.count(name) > 0) add(name, "only there", false);
  }
  std::string text;
  for (const Line& line : lines) {
    absl::StrAppend(&text, "  ", line.first, line.first == line.last ? "" : absl::StrCat(" .. ", line.last), ": ",
                    line.what, "\n");
  }
  return text.empty() ? "  no layer differs\n" : text;
}

}  // namespace adjoin
