#include "importer/layers/boundary_padding.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

bool IsConvolution(const OpNode& node) {
  static const std::vector<std::string> names = {"_convolution", "conv1d", "conv2d", "conv3d", "convolution"};
  return std::find(names.begin(), names.end(), node.op) != names.end() && !node.Bool("transposed", false);
}

bool AddsNothing(const OpNode& convolution) {
  const std::string named = convolution.Text("padding", "");
  if (!named.empty()) return named == "valid";
  const std::vector<int64_t> padding = convolution.Ints("padding", {0});
  return std::all_of(padding.begin(), padding.end(), [](int64_t count) { return count == 0; });
}

// Whether a convolution's window takes it: the spatial dims of [batch, channels, ...] alone, each dim no more than
// PyTorch takes.
bool FitsWindow(const BoundaryPadding& padding, const std::vector<int64_t>& shape) {
  if (shape.size() < 3 || padding.pads.size() % 2 != 0 || padding.pads.size() / 2 > shape.size() - 2) return false;
  return std::all_of(padding.pads.begin(), padding.pads.end(), [](int64_t count) { return count >= 0; });
}

OpArgument TextArgument(const std::string& text) {
  OpArgument argument;
  argument.kind = OpArgument::Kind::kText;
  argument.text = text;
  return argument;
}

// Where the element at position `at` of a padded dim comes from, counted from the first one of the dim itself.
int64_t SourceOf(const std::string& mode, int64_t at, int64_t extent) {
  if (mode == "circular") return ((at % extent) + extent) % extent;
  if (mode == "replicate") return std::clamp<int64_t>(at, 0, extent - 1);
  if (at < 0) return -at;
  return at < extent ? at : 2 * (extent - 1) - at;
}

}  // namespace

std::optional<BoundaryPadding> BoundaryPaddingOf(const OpNode& node) {
  if (node.op == "pad") {
    const std::string mode = node.Text("mode", "constant");
    if (mode != "circular" && mode != "reflect" && mode != "replicate") return std::nullopt;
    return BoundaryPadding{mode, node.Ints("pad")};
  }
  if (DimsOfName(node.op) == 0) return std::nullopt;
  for (const auto& [prefix, mode] : {std::pair("reflection_pad", "reflect"), {"replication_pad", "replicate"}}) {
    if (node.op.rfind(prefix, 0) == 0) return BoundaryPadding{mode, node.Ints("padding")};
  }
  return std::nullopt;
}

std::vector<PaddedConvolution> FindPaddedConvolutions(const OpGraph& graph) {
  std::map<std::string, size_t> paddings;  // by what they return
  std::map<std::string, int> readers;
  for (const std::string& output : graph.outputs) ++readers[output];
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const OpNode& node = graph.nodes[i];
    for (const auto& [name, argument] : node.arguments) {
      for (const std::string& value : argument.tensors) ++readers[value];
    }
    if (node.outputs.size() == 1 && BoundaryPaddingOf(node).has_value()) paddings[node.outputs[0]] = i;
  }
  std::vector<PaddedConvolution> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const OpNode& node = graph.nodes[i];
    const auto pad = paddings.find(node.Tensor("input"));
    if (!IsConvolution(node) || !AddsNothing(node) || pad == paddings.end() || readers[pad->first] != 1) continue;
    const OpNode& before = graph.nodes[pad->second];
    const auto info = graph.tensors.find(before.Tensor("self"));
    BoundaryPadding padding = *BoundaryPaddingOf(before);
    if (!before.UnreadArgument().empty() || info == graph.tensors.end() || !FitsWindow(padding, info->second.shape)) {
      continue;
    }
    PaddedConvolution& merged = found.emplace_back();
    merged.pad = pad->second;
    merged.last = i;
    merged.convolution = node;
    merged.convolution.arguments["input"] = before.arguments.at("self");
    OpArgument& pads = merged.convolution.arguments["pad"];
    pads.kind = OpArgument::Kind::kInts;
    pads.list = true;
    pads.ints = std::move(padding.pads);
    pads.ints.resize(2 * (info->second.shape.size() - 2), 0);
    merged.convolution.arguments[kBoundaryArgument] = TextArgument(padding.mode);
  }
  return found;
}

absl::Status AddBoundaryPadding(const OpNode& node, const BoundaryPadding& padding, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(node.Tensor("self")));
  if (padding.pads.size() % 2 != 0 || padding.pads.size() / 2 > shape.size()) {
    return Unsupported("it has ", padding.pads.size(), " numbers for an input of ", shape.size(), " dims");
  }
  std::vector<LayerBuilder::Selection> selections;
  for (size_t i = 0; i < padding.pads.size() / 2; ++i) {
    const int64_t before = padding.pads[2 * i], after = padding.pads[2 * i + 1];
    if (before == 0 && after == 0) continue;
    LayerBuilder::Selection selection;
    selection.dim = shape.size() - 1 - i;
    const int64_t extent = shape[selection.dim];
    if (extent < 1) return Unsupported("it pads a dim whose extent is not fixed");
    const int64_t most = padding.mode == "circular"  ? extent
                         : padding.mode == "reflect" ? extent - 1
                                                     : std::max(before, after);
    if (before < 0 || after < 0 || before > most || after > most) {
      return Unsupported("it pads a dim of ", extent, " elements with ", before, " and ", after, " in mode \"",
                         padding.mode, "\"");
    }
    if (extent > LayerBuilder::kMostIndices || std::max(before, after) > LayerBuilder::kMostIndices) {
      return Unsupported("it pads a dim of ", extent, " elements with ", before, " and ", after, "; at most ",
                         LayerBuilder::kMostIndices, " are taken one by one");
    }
    for (int64_t at = -before; at < extent + after; ++at) {
      selection.indices.push_back(SourceOf(padding.mode, at, extent));
    }
    selections.push_back(std::move(selection));
  }
  if (selections.empty()) return builder.Alias(node, node.Tensor("self"), LayerBuilder::Shares::kNever);
  return builder.AddSelections(node, node.Tensor("self"), selections);
}

}  // namespace adjoin
