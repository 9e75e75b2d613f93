#include "layers/attention/block_expansion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/pointwise/activation_functions.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

constexpr int kMostLayers = 10000;  // after expansion

absl::Status CheckBlock(const Layer& layer) {
  const Transformer& block = layer.transformer();
  if (block.heads() < 1) {
    return AtField("transformer.heads", InvalidSpec("transformer.heads is missing; it must be at least 1"));
  }
  if (block.hidden() < 1) {
    return AtField("transformer.hidden",
                   InvalidSpec("transformer.hidden, the MLP's hidden features, is missing; it must"
                               " be at least 1"));
  }
  if (!std::isfinite(block.dropout()) || block.dropout() < 0 || block.dropout() >= 1) {
    return AtField("transformer.dropout",
                   InvalidSpec("transformer.dropout is ", block.dropout(), "; it must be at least 0 and below 1"));
  }
  if (block.window().empty() && !block.shift().empty()) {
    return AtField("transformer.shift[0]",
                   InvalidSpec("transformer.shift is for a block with windows; write window, too"));
  }
  if (!block.window().empty() && block.causal()) {
    return AtField("transformer.causal", InvalidSpec("transformer.causal is not for attention within windows"));
  }
  if (!block.window().empty() && block.has_norm_first() && !block.norm_first()) {
    return AtField("transformer.norm_first", InvalidSpec("transformer.norm_first is always true with windows"));
  }
  Activation activation;
  activation.set_fn(block.activation().empty() ? "gelu" : block.activation());
  const auto arguments = ArgumentsOf(activation);
  if (!arguments.ok()) {
    return AtField("transformer.activation", absl::Status(arguments.status().code(), arguments.status().message()));
  }
  if (!layer.parameter_name().empty()) {
    return AtField("parameter_name",
                   InvalidSpec("a transformer stands for several layers, whose parameters are called \"", layer.name(),
                               ".<part>.<role>\"; leave parameter_name out, or write"
                               " the layers themselves"));
  }
  if (layer.input_size() > 1) {
    return AtField("input[1]", InvalidSpec("a transformer reads one input, but ", layer.input_size(), " are named"));
  }
  if (layer.x_size() > 1) {
    return AtField("x[1]", InvalidSpec("x names ", layer.x_size(), " layouts for one input"));
  }
  return absl::OkStatus();
}

// The MLP's layouts, by name, where w cuts the last dim.
struct MlpLayouts {
  std::string whole;   // before the first linear layer and after the second
  std::string hidden;  // between them
  int dims = 0;        // of the block's tensors, as a mesh needs it; 0: w has a partition, which has the number of dims
};

class Expander {
 public:
  explicit Expander(const JobSpec& spec) : spec_(spec) {
    result_.spec = spec;
    result_.spec.clear_layer();
    for (const LayoutSpec& layout : spec.layout()) layouts_.insert(layout.name());
    for (const Layer& layer : spec.layer()) names_.insert(layer.name());
    for (const Dataset& dataset : spec.dataset()) {
      for (const Field& field : dataset.field()) names_.insert(field.name());
    }
  }

  absl::StatusOr<ExpandedSpec> Run() {
    for (int i = 0; i < spec_.layer_size(); ++i) {
      index_ = i;
      ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("layer[", i, "]"), Add(spec_.layer(i))));
      if (result_.spec.layer_size() > kMostLayers) {
        return InvalidSpec("its layers and what its blocks stand for are more than ", kMostLayers,
                           " layers, the most that are possible");
      }
    }
    return std::move(result_);
  }

 private:
  absl::Status Add(const Layer& layer) {
    if (!layer.has_transformer()) {
      *AddLayer() = layer;
      return absl::OkStatus();
    }
    ADJOIN_RETURN_IF_ERROR(CheckBlock(layer));
    block_ = &layer;
    input_ = layer.input_size() > 0 ? layer.input(0) : index_ > 0 ? spec_.layer(index_ - 1).name() : "";
    if (input_.empty()) {
      return AtField("input", InvalidSpec("input is missing: the first layer reads a field of the data set"));
    }
    x_ = layer.x_size() > 0 ? layer.x(0) : "";
    ADJOIN_ASSIGN_OR_RETURN(mlp_, LayoutsOfMlp());
    const bool norm_first = !layer.transformer().has_norm_first() || layer.transformer().norm_first();
    return norm_first ? NormFirst() : NormLast();
  }

  absl::Status NormFirst() {
    ADJOIN_RETURN_IF_ERROR(Norm("norm1", input_, x_));
    ADJOIN_RETURN_IF_ERROR(Attention(last_, ""));
    ADJOIN_RETURN_IF_ERROR(Sum("residual1", input_, x_));
    const std::string residual = last_;
    ADJOIN_RETURN_IF_ERROR(Norm("norm2", residual, ""));
    ADJOIN_RETURN_IF_ERROR(Mlp(residual));
    return Sum("", residual, "");
  }

  absl::Status NormLast() {
    ADJOIN_RETURN_IF_ERROR(Attention(input_, x_));
    ADJOIN_RETURN_IF_ERROR(Sum("residual1", input_, x_));
    ADJOIN_RETURN_IF_ERROR(Norm("norm1", last_, ""));
    const std::string residual = last_;
    ADJOIN_RETURN_IF_ERROR(Mlp(residual));
    ADJOIN_RETURN_IF_ERROR(Sum("residual2", residual, ""));
    ADJOIN_RETURN_IF_ERROR(Norm("norm2", last_, ""));
    // The norm has the name of its parameters; the block's own is that of a layer that changes nothing.
    ADJOIN_ASSIGN_OR_RETURN(Layer* const block, Part("", last_));
    for (int side = 0; side < 2; ++side) block->mutable_pad()->add_arg(0);
    return absl::OkStatus();
  }

  absl::Status Norm(absl::string_view part, const std::string& input, const std::string& x) {
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(part, input, x));
    OwnParameters(*layer);
    layer->mutable_norm()->set_kind("layer");
    layer->mutable_norm()->set_eps(spec().has_eps() ? spec().eps() : 1e-5);
    return absl::OkStatus();
  }

  absl::Status Attention(const std::string& input, const std::string& x) {
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(windowed() ? "attn" : "self_attn", input, x));
    OwnParameters(*layer);
    OwnInit(*layer);
    layer->set_w(block_->w());
    layer->set_y(x_);
    if (windowed()) {
      WindowAttention& attention = *layer->mutable_window_attention();
      attention.set_heads(spec().heads());
      *attention.mutable_window() = spec().window();
      *attention.mutable_shift() = spec().shift();
      attention.set_dropout(spec().dropout());
      if (mlp_.dims > 0) result_.dims_of[result_.spec.layer_size() - 1] = mlp_.dims;
    } else {
      adjoin::Attention& attention = *layer->mutable_attention();
      attention.set_heads(spec().heads());
      attention.set_causal(spec().causal());
      attention.set_dropout(spec().dropout());
    }
    return Drop("dropout1");
  }

  // `residual`: the layer to whose output the MLP's result is added; both have as many features.
  absl::Status Mlp(const std::string& residual) {
    ADJOIN_RETURN_IF_ERROR(Linear(windowed() ? "mlp.0" : "linear1", spec().hidden(), mlp_.whole, mlp_.hidden));
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(windowed() ? "mlp.1" : "activation", last_));
    layer->mutable_activation()->set_fn(spec().activation().empty() ? "gelu" : spec().activation());
    ADJOIN_RETURN_IF_ERROR(Drop(windowed() ? "mlp.2" : "dropout"));
    const std::string sums = x_.empty() ? mlp_.whole : x_;
    ADJOIN_RETURN_IF_ERROR(Linear(windowed() ? "mlp.3" : "linear2", /*outputs=*/0, "", sums));
    result_.features_of[result_.spec.layer_size() - 1] = residual;
    return Drop(windowed() ? "mlp.4" : "dropout2");
  }

  absl::Status Linear(absl::string_view part, uint32_t outputs, const std::string& x, const std::string& y) {
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(part, last_, x));
    OwnParameters(*layer);
    OwnInit(*layer);
    layer->set_y(y);
    layer->mutable_linear()->set_out_features(outputs);
    return absl::OkStatus();
  }

  absl::Status Drop(absl::string_view part) {
    if (spec().dropout() == 0) return absl::OkStatus();
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(part, last_));
    layer->mutable_dropout()->set_p(spec().dropout());
    return absl::OkStatus();
  }

  // Adds `first` and the output of the last part.
  absl::Status Sum(absl::string_view part, const std::string& first, const std::string& x) {
    const std::string second = last_;
    ADJOIN_ASSIGN_OR_RETURN(Layer* const layer, Part(part, first, x));
    layer->add_input(second);
    layer->mutable_add();
    return absl::OkStatus();
  }

  // Adds the layer "<block>.<part>"; `part` "": the block's last layer, which has the block's name.
  absl::StatusOr<Layer*> Part(absl::string_view part, const std::string& input, const std::string& x = "") {
    const bool is_last = part.empty();
    const std::string name = is_last ? block_->name() : absl::StrCat(block_->name(), ".", part);
    if (!is_last && !names_.insert(name).second) {
      return AtField("name", InvalidSpec("its layer \"", name,
                                         "\" has the name of another layer or of a field of the data; rename one"));
    }
    Layer* layer = AddLayer();
    layer->set_name(name);
    layer->add_input(input);
    if (!x.empty()) layer->add_x(x);
    if (is_last) layer->set_y(block_->y());
    layer->set_recompute(block_->recompute());
    last_ = name;
    return layer;
  }

  void OwnParameters(Layer& layer) const {
    // Part by part, as two modules of PyTorch's would share them.
    if (!block_->weights_of().empty()) {
      layer.set_weights_of(absl::StrCat(block_->weights_of(), layer.name().substr(block_->name().size())));
    }
    layer.set_home(block_->home());
    layer.set_owner(block_->owner());
    layer.set_frozen(block_->frozen());
  }

  // For the weights of attention and MLP; those of the norms always begin as 1.
  void OwnInit(Layer& layer) const {
    if (block_->has_init()) *layer.mutable_init() = block_->init();
  }

  Layer* AddLayer() {
    result_.user_layer.push_back(index_);
    return result_.spec.add_layer();
  }

  // Makes the layouts from w. Returns no names where w is absent or unknown; attention's rule refuses an unknown w.
  absl::StatusOr<MlpLayouts> LayoutsOfMlp() {
    const LayoutSpec* w = nullptr;
    for (const LayoutSpec& layout : spec_.layout()) {
      if (layout.name() == block_->w()) w = &layout;
    }
    if (w == nullptr) return MlpLayouts();
    const int dims = !w->partition().empty() ? w->partition_size() : windowed() ? spec().window_size() + 2 : 3;
    const auto made = made_.find({w->name(), dims});
    if (made != made_.end()) return made->second;
    LayoutSpec hidden = *w;
    google::protobuf::RepeatedPtrField<Cut> cuts;
    for (const Cut& cut : w->cut()) {
      if (static_cast<int>(cut.dim()) != dims - 1) *cuts.Add() = cut;
    }
    *hidden.mutable_cut() = std::move(cuts);
    LayoutSpec whole = hidden;
    if (!w->partition().empty()) {
      whole.clear_partition();
      for (int dim = 0; dim < dims; ++dim) {
        whole.add_mesh()->set_size(w->partition(dim));
        whole.add_sbp(absl::StrCat("S(", dim, ")"));
      }
    }
    for (std::string& placement : *whole.mutable_sbp()) {
      if (placement == absl::StrCat("S(", dims - 1, ")")) placement = "B";
    }
    hidden.set_name(Unused(absl::StrCat(w->name(), ".hidden")));
    whole.set_name(Unused(absl::StrCat(w->name(), ".whole")));
    const MlpLayouts layouts = {
        .whole = whole.name(), .hidden = hidden.name(), .dims = w->partition().empty() ? dims : 0};
    *result_.spec.add_layout() = std::move(whole);
    *result_.spec.add_layout() = std::move(hidden);
    made_[{w->name(), dims}] = layouts;
    return layouts;
  }

  std::string Unused(std::string name) {
    while (!layouts_.insert(name).second) name += "_";
    return name;
  }

  const Transformer& spec() const { return block_->transformer(); }
  bool windowed() const { return !spec().window().empty(); }

  const JobSpec& spec_;
  ExpandedSpec result_;
  std::set<std::string> layouts_, names_;
  std::map<std::pair<std::string, int>, MlpLayouts> made_;
  int index_ = 0;
  const Layer* block_ = nullptr;
  std::string input_, x_, last_;  // last_: the part added last
  MlpLayouts mlp_;
};

// Returns the block's field that `field` of a generated layer comes from: "transformer.hidden" for
// "linear.out_features".
std::string FieldOfBlock(absl::string_view field) {
  for (const char* own : {"home", "owner", "frozen", "recompute", "input", "weights_of", "w", "y"}) {
    if (field == own || absl::StartsWith(field, absl::StrCat(own, "["))) return std::string(field);
  }
  if (absl::StartsWith(field, "init")) return std::string(field);
  if (absl::StartsWith(field, "x")) return "x[0]";
  if (absl::StartsWith(field, "linear")) return "transformer.hidden";
  if (absl::StartsWith(field, "dropout")) return "transformer.dropout";
  if (absl::StartsWith(field, "norm.eps")) return "transformer.eps";
  if (absl::StartsWith(field, "activation")) return "transformer.activation";
  for (const char* attention : {"attention.", "window_attention."}) {
    if (absl::StartsWith(field, attention)) return absl::StrCat("transformer.", field.substr(std::strlen(attention)));
  }
  return "transformer";
}

}  // namespace

absl::Status ExpandedSpec::CompleteLayer(int index, const ShapeOf& shape_of, Layer* layer) const {
  if (const auto residual = features_of.find(index); residual != features_of.end()) {
    layer->mutable_linear()->set_out_features(static_cast<uint32_t>(shape_of(residual->second).back()));
  }
  const auto dims = dims_of.find(index);
  if (dims == dims_of.end()) return absl::OkStatus();
  const std::vector<int64_t> input = shape_of(layer->input(0));
  if (static_cast<int>(input.size()) == dims->second) return absl::OkStatus();
  return AtField("window_attention.window",
                 InvalidSpec("its input, ", ShapeText(input), ", has ", input.size() - 2,
                             " spatial dims: with a"
                             " mesh as w, window needs one value for each of them, so that the last dim is known"));
}

absl::Status ExpandedSpec::AtUsersLayer(const JobSpec& user, const absl::Status& status) const {
  const std::string path = FieldOf(status);
  int index = -1;
  const size_t end = path.find(']');
  if (status.ok() || !absl::StartsWith(path, "layer[") || end == std::string::npos ||
      !absl::SimpleAtoi(path.substr(6, end - 6), &index) || index < 0 || index >= spec.layer_size()) {
    return status;
  }
  const Layer& at = user.layer(user_layer[index]);
  const absl::string_view field = absl::string_view(path).substr(std::min(end + 2, path.size()));
  const std::string location = absl::StrCat("layer[", user_layer[index], "]");
  const bool is_part = at.has_transformer();
  const std::string message = is_part ? absl::StrCat("its layer \"", spec.layer(index).name(), "\": ", status.message())
                                      : std::string(status.message());
  const std::string inner = field.empty() || !is_part ? std::string(field) : FieldOfBlock(field);
  return AtField(location, AtField(inner, absl::Status(status.code(), message)));
}

absl::StatusOr<ExpandedSpec> ExpandBlocks(const JobSpec& spec) { return Expander(spec).Run(); }

}  // namespace adjoin
