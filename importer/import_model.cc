#include "importer/import_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/constants/constant_evaluator.h"
#include "importer/layers/attention_pattern.h"
#include "importer/layers/attention_product.h"
#include "importer/layers/boundary_padding.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/window_attention_pattern.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

constexpr size_t kMaxShown = 300;
constexpr size_t kMaxRefusals = 12;  // in one message

bool IsFieldName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

// What could not be imported, each kind once.
class Refusals {
 public:
  void Add(const OpNode& node, const std::string& why) {
    Entry& entry = entries_[{node.target, why}];
    if (++entry.count > 1) return;
    entry.module = node.module;
    order_.push_back({node.target, why});
  }
  bool empty() const { return order_.empty(); }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const auto& key : order_) {
      if (lines.size() == kMaxRefusals) {
        lines.push_back(absl::StrCat(order_.size() - kMaxRefusals, " more"));
        break;
      }
      const Entry& entry = entries_.at(key);
      lines.push_back(
          PrintableText(absl::StrCat(key.first, " (", entry.count, entry.count == 1 ? " time" : " times, first", " in ",
                                     entry.module.empty() ? "the model itself" : absl::StrCat("module ", entry.module),
                                     "): ", key.second),
                        kMaxShown));
    }
    return lines;
  }

 private:
  struct Entry {
    int count = 0;
    std::string module;
  };
  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::vector<std::pair<std::string, std::string>> order_;
};

class Importer {
 public:
  Importer(const ModelArchive& archive, const OpGraph& graph, const ImportOptions& options,
           const std::vector<std::string>& fields)
      : archive_(archive),
        graph_(graph),
        options_(options),
        constants_(archive, graph),
        builder_(graph, constants_, fields) {}

  absl::StatusOr<ImportedModel> Run() {
    const std::vector<bool> live = LiveNodes();
    FindPatterns(live);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!live[i]) continue;
      const auto found = attention_.find(i);
      const auto chain = chains_.find(i);
      const auto window = windows_.find(i);
      const auto padded = padded_.find(i);
      if (window != windows_.end()) {
        ImportWindows(window->second);
      } else if (found != attention_.end()) {
        ImportAttention(found->second);
      } else if (chain != chains_.end()) {
        ImportChain(chain->second);
      } else if (padded != padded_.end()) {
        ImportNode(padded->second.convolution);
      } else if (within_.count(i) == 0) {
        ImportNode(graph_.nodes[i]);
      }
    }
    if (!refusals_.empty() && !options_.outline) {
      return absl::InvalidArgumentError(absl::StrCat(
          archive_.path(), ": no layers for ", absl::StrJoin(refusals_.Lines(), "; "), ". --outline imports the rest"));
    }
    ImportedModel model;
    model.notes = refusals_.Lines();
    for (const std::string& output : graph_.outputs) {
      absl::StatusOr<std::string> source = builder_.SourceOf(output);
      if (builder_.IsOfParameters(output)) {
        source = absl::InvalidArgumentError("it follows of parameters alone; right would be one for each sample");
      }
      if (source.ok()) {
        model.outputs.push_back(*source);
      } else if (!options_.outline) {
        return absl::InvalidArgumentError(
            absl::StrCat(archive_.path(), ": the model's result: ", std::string(source.status().message())));
      }
    }
    // Those that change the shape of a result were added last.
    model.layers = builder_.layers();
    model.weights = builder_.weights();
    if (model.layers.empty()) return absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": it has no layers"));
    ADJOIN_RETURN_IF_ERROR(SetType(model));
    return model;
  }

 private:
  // Operators that are one layer together. It reads all at the place of the last one, so nothing may change in between.
  void FindPatterns(const std::vector<bool>& live) {
    std::vector<size_t> changes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (live[i] && (!graph_.nodes[i].Changed().empty() || ChangesWhatItMay(graph_.nodes[i]))) changes.push_back(i);
    }
    const auto is_disturbed = [&](const std::set<size_t>& nodes, size_t last) {
      const size_t first = nodes.empty() ? last : std::min(*nodes.begin(), last);
      for (auto at = std::lower_bound(changes.begin(), changes.end(), first); at != changes.end() && *at < last; ++at) {
        if (nodes.count(*at) == 0) return true;
      }
      return false;
    };
    for (WindowAttentionPattern& pattern : FindWindowAttention(graph_, constants_)) {
      if (is_disturbed(pattern.nodes, pattern.last)) continue;
      within_.insert(pattern.nodes.begin(), pattern.nodes.end());
      const size_t last = pattern.last;
      windows_[last] = std::move(pattern);
    }
    for (AttentionPattern& pattern : FindAttention(graph_)) {
      if (is_disturbed(pattern.nodes, pattern.last)) continue;
      within_.insert(pattern.nodes.begin(), pattern.nodes.end());
      const size_t last = pattern.last;
      attention_[last] = std::move(pattern);
    }
    for (AttentionChain& chain : FindAttentionChains(graph_)) {
      const bool is_taken =
          std::any_of(chain.nodes.begin(), chain.nodes.end(), [&](size_t i) { return within_.count(i) > 0; });
      if (is_taken || is_disturbed(chain.nodes, chain.last)) continue;
      within_.insert(chain.nodes.begin(), chain.nodes.end());
      const size_t last = chain.last;
      chains_[last] = std::move(chain);
    }
    for (PaddedConvolution& padded : FindPaddedConvolutions(graph_)) {
      if (within_.count(padded.pad) + within_.count(padded.last) > 0 || is_disturbed({padded.pad}, padded.last))
        continue;
      within_.insert(padded.pad);
      const size_t last = padded.last;
      padded_[last] = std::move(padded);
    }
  }

  // Nodes whose result, or the change that they make in place, is read by what the model returns. A change is read
  // where any tensor is needed that may have elements in common with what changes.
  std::vector<bool> LiveNodes() const {
    const std::map<std::string, std::string> base = Bases();
    const auto base_of = [&](const std::string& value) {
      const auto found = base.find(value);
      return found == base.end() ? value : found->second;
    };
    std::set<std::string> needed, needed_bases;
    const auto need = [&](const std::vector<std::string>& values) {
      for (const std::string& value : values) {
        if (value.empty()) continue;
        needed.insert(value);
        needed_bases.insert(base_of(value));
      }
    };
    need(graph_.outputs);
    std::vector<bool> live(graph_.nodes.size(), false);
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const OpNode& node = graph_.nodes[i];
      std::vector<std::string> changed = node.Changed();
      if (ChangesWhatItMay(node)) {
        for (const auto& [name, argument] : node.arguments) {
          changed.insert(changed.end(), argument.tensors.begin(), argument.tensors.end());
        }
      }
      live[i] = std::any_of(changed.begin(), changed.end(),
                            [&](const auto& name) { return needed_bases.count(base_of(name)) > 0; }) ||
                std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](const auto& name) { return needed.count(name) > 0; });
      if (!live[i]) continue;
      for (const auto& [name, argument] : node.arguments) need(argument.tensors);
    }
    return live;
  }

  // An operator from outside of ATen that returns nothing is there for what it changes.
  static bool ChangesWhatItMay(const OpNode& node) { return node.outputs.empty() && node.op == node.target; }

  // One value to stand for all that may have elements in common: those that operators connect whose result may be a
  // view, which are all but those that are known to return something new.
  std::map<std::string, std::string> Bases() const {
    std::map<std::string, std::string> base;
    // Follows the chain, and makes all of it point to its end, so that no chain is followed twice.
    const auto base_of = [&](const std::string& value) {
      std::string end = value;
      for (auto found = base.find(end); found != base.end(); found = base.find(end)) end = found->second;
      for (std::string at = value; at != end;) {
        std::string& next = base[at];
        at = std::exchange(next, end);
      }
      return end;
    };
    const auto join = [&](const std::string& a, const std::string& b) {
      const std::string first = base_of(a), second = base_of(b);
      if (!a.empty() && !b.empty() && first != second) base[second] = first;
    };
    for (const OpNode& node : graph_.nodes) {
      const std::vector<std::string> changed = node.Changed();
      const bool fresh = changed.empty() && ReturnsNew(node.op);
      if (fresh || node.outputs.empty()) continue;
      // All with the first one.
      const auto first =
          std::find_if(node.outputs.begin(), node.outputs.end(), [](const auto& name) { return !name.empty(); });
      if (first == node.outputs.end()) continue;
      for (const auto& [name, argument] : node.arguments) {
        for (const std::string& value : argument.tensors) join(value, *first);
      }
      for (const std::string& output : node.outputs) join(*first, output);
    }
    std::vector<std::string> values;
    for (const auto& [value, above] : base) values.push_back(value);
    for (const std::string& value : values) base_of(value);
    return base;
  }

  std::string WhyRefused(const OpNode& node) const {
    const std::string unread = node.UnreadArgument();
    if (!unread.empty()) {
      return absl::StrCat("its argument ", unread, " is computed, or of a kind that is not read; right would be fixed");
    }
    if (node.Has("out")) return "it writes to its argument out";
    const std::vector<std::string> changed = node.Changed();
    if (!changed.empty() && !builder_.IsLayer(changed[0])) {
      return "it changes a parameter or constant in place; right would be the operator without the _";
    }
    if (node.in_place && ShapeRules().count(node.op) > 0) {
      return "it changes a tensor's shape or graph in place; right would be the operator without the _";
    }
    return "";
  }

  // What no input goes into is known when a layer reads it. A part of a buffer is also one of a parameter.
  bool ImportConstant(const OpNode& node) {
    if (node.outputs.empty()) return false;
    for (const std::string& output : node.outputs) {
      if (!output.empty() && !constants_.IsConstant(output)) return false;
    }
    const std::string input = node.Tensor(node.Has("self") ? "self" : "input");
    const OpRule* rule = FindOpRule(node.op);
    const bool of_parameter = builder_.ParameterOf(input) != nullptr && !node.in_place && rule != nullptr;
    if (of_parameter && (ShapeRules().count(node.op) > 0 || SliceRules().count(node.op) > 0)) {
      (*rule)(node, builder_).IgnoreError();
    }
    return true;
  }

  // What is computed of parameters alone, and combined with a layer's output afterwards, needs layers that return them.
  absl::Status Apply(OpRule rule, const OpNode& node) {
    const LayerBuilder::Mark before = builder_.Here();
    const absl::Status status = rule(node, builder_);
    if (!status.ok()) builder_.Undo(before, node);
    for (const LayerBuilder::Lifts lifts :
         {LayerBuilder::Lifts::kParameters, LayerBuilder::Lifts::kConstants, LayerBuilder::Lifts::kWeights}) {
      if (status.ok() || !node.Changed().empty()) break;
      const absl::StatusOr<OpNode> lifted = builder_.WithLayersOfParameters(node, lifts);
      if (lifted.ok() && rule(*lifted, builder_).ok()) return absl::OkStatus();
      builder_.Undo(before, node);
    }
    return status;
  }

  void ImportNode(const OpNode& node) {
    if (ImportConstant(node)) return;
    for (const auto& [name, argument] : node.arguments) {
      for (const std::string& tensor : argument.tensors) {
        // What follows from a refusal is not refused again.
        if (builder_.Forgotten(tensor)) return builder_.Forget(node);
      }
    }
    const OpRule* rule = FindOpRule(node.op);
    absl::Status status;
    if (node.op == "_native_multi_head_attention" || node.op == "_transformer_encoder_layer_fwd") {
      status = absl::InvalidArgumentError(
          "it is PyTorch's fast path of inference; right would be torch.jit.trace(..., check_trace=False) of eval() "
          "outside of torch.no_grad()");
    } else if (rule == nullptr) {
      const std::string nearest = NearestLayer(node.op);
      status = absl::InvalidArgumentError(
          nearest.empty() ? "it is not known" : absl::StrCat("it is not known; the nearest layer is ", nearest));
    } else if (const std::string why = WhyRefused(node); !why.empty()) {
      status = absl::InvalidArgumentError(why);
    } else {
      status = Apply(*rule, node);
    }
    if (status.ok()) return;
    refusals_.Add(node, std::string(status.message()));
    if (!options_.outline || !AddCustom(node).ok()) builder_.Forget(node);
  }

  void ImportWindows(const WindowAttentionPattern& pattern) {
    const OpNode& last = graph_.nodes[pattern.last];
    if (builder_.Forgotten(pattern.input)) return builder_.Forget(last);
    const LayerBuilder::Mark before = builder_.Here();
    const absl::Status status = AddWindowAttention(graph_, pattern, builder_);
    if (status.ok()) return;
    builder_.Undo(before, last);
    refusals_.Add(last, std::string(status.message()));
    builder_.Forget(last);
  }

  void ImportAttention(const AttentionPattern& pattern) {
    const OpNode& last = graph_.nodes[pattern.last];
    if (builder_.Forgotten(pattern.input)) return builder_.Forget(last);
    const LayerBuilder::Mark before = builder_.Here();
    const absl::Status status = AddAttention(graph_, pattern, builder_);
    if (status.ok()) return;
    builder_.Undo(before, last);
    refusals_.Add(last, std::string(status.message()));
    builder_.Forget(last);
  }

  // What is no such layer after all is imported operator by operator.
  void ImportChain(const AttentionChain& chain) {
    for (const std::string& value : {chain.query, chain.key_turned, chain.value}) {
      if (builder_.Forgotten(value)) return builder_.Forget(graph_.nodes[chain.last]);
    }
    const LayerBuilder::Mark before = builder_.Here();
    if (AddAttentionChain(graph_, chain, builder_).ok()) return;
    builder_.Undo(before, graph_.nodes[chain.last]);
    for (size_t i : chain.nodes) ImportNode(graph_.nodes[i]);
  }

  absl::Status AddCustom(const OpNode& node) {
    Layer layer;
    layer.mutable_custom()->set_type(node.op);
    std::vector<std::string> inputs;
    for (const auto& [name, argument] : node.arguments) {
      for (const std::string& tensor : argument.tensors) {
        if (builder_.SourceOf(tensor).ok()) inputs.push_back(tensor);
      }
      auto& arguments = *layer.mutable_custom()->mutable_arg();
      if (!argument.ints.empty()) arguments[name] = absl::StrJoin(argument.ints, ",");
      if (!argument.floats.empty()) arguments[name] = absl::StrJoin(argument.floats, ",");
      // A job is text of UTF-8, and an argument of a trace may be any bytes.
      if (!argument.text.empty()) arguments[name] = PrintableText(argument.text);
    }
    ADJOIN_RETURN_IF_ERROR(builder_.Add(node, std::move(layer), inputs));
    // It may be a view of any of them, of which one is enough to find what changes in place later.
    if (!inputs.empty() && !ReturnsNew(node.op)) builder_.ShareElements(node, inputs[0]);
    return absl::OkStatus();
  }

  // The job's number type is that of the weights; without any, of the input.
  absl::Status SetType(ImportedModel& model) const {
    std::set<DType> types;
    for (const ImportedWeight& weight : model.weights) {
      const ArchivedTensor* tensor = archive_.Find(weight.source);
      if (tensor != nullptr && IsFloatingPoint(tensor->dtype)) types.insert(tensor->dtype);
    }
    for (const std::string& input : graph_.inputs) {
      const auto found = graph_.tensors.find(input);
      if (types.empty() && found != graph_.tensors.end() && IsFloatingPoint(found->second.dtype)) {
        types.insert(found->second.dtype);
      }
    }
    if (types.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": its weights are of ", ToString(*types.begin()),
                                                     " and ", ToString(*types.rbegin()),
                                                     "; a job has one number type: export model.float()"));
    }
    if (!types.empty()) model.compute = *types.begin();
    if (model.compute == DType::kFloat16) {
      return absl::InvalidArgumentError(
          absl::StrCat(archive_.path(), ": its weights are of float16, which jobs do not have; export model.float()"));
    }
    return absl::OkStatus();
  }

  const ModelArchive& archive_;
  const OpGraph& graph_;
  const ImportOptions& options_;
  ConstantEvaluator constants_;
  LayerBuilder builder_;
  Refusals refusals_;
  std::set<size_t> within_;                       // nodes of patterns
  std::map<size_t, AttentionPattern> attention_;  // by their last node
  std::map<size_t, WindowAttentionPattern> windows_;
  std::map<size_t, AttentionChain> chains_;  // likewise
  std::map<size_t, PaddedConvolution> padded_;
};

}  // namespace

absl::StatusOr<ImportedModel> ImportModel(const ModelArchive& archive, const OpGraph& graph,
                                          const ImportOptions& options) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(archive.path(), ": ", PrintableText(what, kMaxShown)));
  };
  const std::vector<std::string>& fields = options.inputs.empty() ? graph.inputs : options.inputs;
  if (fields.size() != graph.inputs.size()) {
    return bad(absl::StrCat("forward has ", graph.inputs.size(), " tensor arguments (",
                            absl::StrJoin(graph.inputs, ", "), "), but --input names ", fields.size()));
  }
  std::vector<ImportedInput> inputs;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (std::count(fields.begin(), fields.end(), fields[i]) > 1) {
      return bad(absl::StrCat("--input names ", fields[i], " twice; right would be a field for each argument"));
    }
    if (!IsFieldName(fields[i])) return bad(absl::StrCat(fields[i], " is no name of a field; --input names others"));
    const auto found = graph.tensors.find(graph.inputs[i]);
    if (found == graph.tensors.end()) return bad(absl::StrCat("the type of argument ", fields[i], " is not supported"));
    inputs.push_back({fields[i], found->second.dtype, found->second.shape});
    std::vector<int64_t>& shape = inputs.back().shape;
    if (shape.empty() || shape[0] != inputs[0].shape[0] || shape[0] == kComputedExtent ||
        std::any_of(shape.begin() + 1, shape.end(), [](int64_t extent) { return extent < 0; })) {
      return bad(absl::StrCat("argument ", fields[i], " must have a batch as its dim 0, the same as the others, ",
                              "and other dims of a fixed extent"));
    }
    if (shape.size() == 1) shape.push_back(1);  // one number a sample
  }
  ADJOIN_ASSIGN_OR_RETURN(ImportedModel model, Importer(archive, graph, options, fields).Run());
  model.inputs = std::move(inputs);
  return model;
}

absl::Status WriteWeights(const ModelArchive& archive, const ImportedModel& model, const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  for (const ImportedWeight& weight : model.weights) {
    const ArchivedTensor* tensor = archive.Find(weight.source);
    if (tensor == nullptr && !weight.source.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(archive.path(), ": it has no tensor ", PrintableText(weight.source, kMaxShown)));
    }
    SafetensorsEntry entry{weight.name, DType::kInt64, {}};
    if (tensor != nullptr) entry = {weight.name, tensor->dtype, tensor->shape};
    if (weight.has_one_element) entry.shape = {1};
    if (weight.constant.has_value()) entry = {weight.name, model.compute, weight.constant->shape};
    entries.push_back(std::move(entry));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer, SafetensorsWriter::Create(path, entries));
  for (const ImportedWeight& weight : model.weights) {
    if (weight.constant.has_value()) {
      const std::string bytes = weight.constant->Bytes(model.compute);
      ADJOIN_RETURN_IF_ERROR(writer->Append(bytes.data(), static_cast<int64_t>(bytes.size())));
      continue;
    }
    if (weight.source.empty()) {
      constexpr int64_t kZero = 0;
      ADJOIN_RETURN_IF_ERROR(writer->Append(&kZero, sizeof(kZero)));
      continue;
    }
    ADJOIN_RETURN_IF_ERROR(archive.Read(*archive.Find(weight.source),
                                        [&](const char* data, int64_t bytes) { return writer->Append(data, bytes); }));
  }
  return writer->Finish();
}

}  // namespace adjoin
