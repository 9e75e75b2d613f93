// Layers whose outputs each are one element of the input: roll, flip, repeat and index_select, over any dims, cut or
// not.
//
// Each is a reading (primitives/geometry/index_selection.h): a rank fetches the cells that its part of the output
// holds, each once, and nothing is left to compute. The output is cut as the input, in dims of another extent evenly,
// or has the layout y. The rule of the kinds "flip", "index_select", "repeat" and "roll".
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/index_selection.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {
namespace {

// Each dim that is rolled doubles the pieces that are moved.
constexpr size_t kMostRolled = 6;

// By tensor dim: those in which an output is not the input's element of the same index.
using Selections = std::map<int, IndexSelection>;

std::string At(int i) { return absl::StrCat("arg[", i, "]"); }

absl::StatusOr<Selections> Roll(Shape& spec, const std::vector<int64_t>& input) {
  if (spec.arg().empty() || spec.arg_size() % 2 != 0) {
    return AtField("arg", InvalidSpec("roll has pairs of a dim and by how much, as in arg: [2, 3, 3, -1]; ",
                                      spec.arg_size(), " values are given"));
  }
  std::map<int, int64_t> shifts;
  for (int i = 0; i < spec.arg_size(); i += 2) {
    ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(At(i), spec.arg(i), static_cast<int>(input.size())));
    spec.set_arg(i, dim);
    // As PyTorch: a dim that comes twice is rolled twice.
    if (input[dim] > 0) shifts[dim] = (shifts[dim] + spec.arg(i + 1) % input[dim]) % input[dim];
  }
  Selections selections;
  for (const auto& [dim, shift] : shifts) {
    if (shift == 0) continue;
    if (selections.size() == kMostRolled) {
      return AtField("arg",
                     InvalidSpec("more than ", kMostRolled, " dims are rolled, which cuts the tensor in more than ",
                                 1 << kMostRolled, " pieces; put another roll after this one for the others"));
    }
    ADJOIN_ASSIGN_OR_RETURN(IndexSelection roll, IndexSelection::Cyclic({input[dim], -shift, 1, input[dim]}));
    selections.emplace(dim, std::move(roll));
  }
  return selections;
}

absl::StatusOr<Selections> Flip(Shape& spec, const std::vector<int64_t>& input) {
  if (spec.arg().empty()) return AtField("arg", InvalidSpec("flip names no dim; write which, as in arg: [2, 3]"));
  Selections selections;
  std::set<int> seen;
  for (int i = 0; i < spec.arg_size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(At(i), spec.arg(i), static_cast<int>(input.size())));
    spec.set_arg(i, dim);
    if (!seen.insert(dim).second) return AtField(At(i), InvalidSpec("dim ", dim, " is named twice"));
    if (input[dim] < 2) continue;
    ADJOIN_ASSIGN_OR_RETURN(IndexSelection flip, IndexSelection::Cyclic({input[dim], input[dim] - 1, -1, input[dim]}));
    selections.emplace(dim, std::move(flip));
  }
  return selections;
}

absl::StatusOr<Selections> Repeat(Shape& spec, const std::vector<int64_t>& input) {
  if (spec.arg_size() != static_cast<int>(input.size())) {
    return AtField("arg",
                   InvalidSpec("repeat has ", spec.arg_size(), " values for an input of shape ", ShapeText(input),
                               "; write how often for each dim, the batch too, 1 for what stays"));
  }
  Selections selections;
  for (int dim = 0; dim < spec.arg_size(); ++dim) {
    const int64_t times = spec.arg(dim);
    if (times < 0 || (input[dim] > 0 && times > kMaxElements / input[dim])) {
      return AtField(At(dim), InvalidSpec("dim ", dim, " of ", input[dim], " elements cannot be repeated ", times,
                                          " times; 0 or more, up to 2^46 elements, are possible"));
    }
    if (times == 1 || input[dim] == 0) continue;
    ADJOIN_ASSIGN_OR_RETURN(IndexSelection all, IndexSelection::Cyclic({times * input[dim], 0, 1, input[dim]}));
    selections.emplace(dim, std::move(all));
  }
  return selections;
}

absl::StatusOr<Selections> IndexSelect(Shape& spec, const std::vector<int64_t>& input) {
  if (spec.arg_size() < 2) {
    return AtField("arg",
                   InvalidSpec("index_select has a dim and then the indices, as in arg: [1, 0, 2] for the channels"
                               " 0 and 2; ",
                               spec.arg_size(), " values are given"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const int dim, CheckedDim(At(0), spec.arg(0), static_cast<int>(input.size())));
  spec.set_arg(0, dim);
  std::vector<int64_t> indices;
  for (int i = 1; i < spec.arg_size(); ++i) {
    if (spec.arg(i) < 0 || spec.arg(i) >= input[dim]) {
      return AtField(At(i),
                     InvalidSpec("index ", spec.arg(i), " of dim ", dim, ", which has ", input[dim], " elements; ",
                                 input[dim] > 0 ? absl::StrCat("0 to ", input[dim] - 1, " are possible")
                                                : std::string("there is nothing to select")));
    }
    indices.push_back(spec.arg(i));
  }
  ADJOIN_ASSIGN_OR_RETURN(IndexSelection list, IndexSelection::Of(std::move(indices)));
  return Selections{{dim, std::move(list)}};
}

// `spec`: its dims become those counted from the first.
absl::StatusOr<Selections> SelectionsOf(Layer& spec, const std::vector<int64_t>& input) {
  if (spec.has_roll()) return Roll(*spec.mutable_roll(), input);
  if (spec.has_flip()) return Flip(*spec.mutable_flip(), input);
  if (spec.has_repeat()) return Repeat(*spec.mutable_repeat(), input);
  return IndexSelect(*spec.mutable_index_select(), input);
}

}  // namespace

absl::StatusOr<LayerOutcome> SelectionRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(request.spec));
  const Layout& x = request.input[0];
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(x.shape()).status());
  Layer spec = request.spec;
  auto selections = SelectionsOf(spec, x.shape());
  if (!selections.ok()) return AtField(KindOf(spec), selections.status());

  InputNeed need;
  std::vector<int64_t> shape = x.shape();
  std::set<int> selected, resized;
  for (const auto& [dim, selection] : *selections) {
    ADJOIN_ASSIGN_OR_RETURN(shape[dim], selection.OutputSize(x.shape()[dim]));
    selected.insert(dim);
    if (shape[dim] != x.shape()[dim]) resized.insert(dim);
    need.readings.emplace(dim, selection);
  }
  auto volume = CheckedVolume(shape);
  if (!volume.ok()) return AtField(KindOf(spec), volume.status());
  ADJOIN_ASSIGN_OR_RETURN(const Layout natural, LayoutLike(x, shape, resized));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, natural));
  if (!SameButFor(selected, natural, output)) {
    // Fetched from where it is to where the output is: other dims cut as there.
    ADJOIN_ASSIGN_OR_RETURN(need.layout, LayoutLike(output, x.shape(), resized));
  }
  return LayerOutcome{.spec = std::move(spec), .input = {std::move(need)}, .compute = output, .output = output};
}

}  // namespace adjoin
