// Parameters and constants as values of LayerBuilder's layers, where a program computes with them before it combines
// them with a layer's output.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {
namespace {

// The part of a parameter that `of` reads, of a layer that returns the elements of each dim that are read.
absl::StatusOr<ValueView> ViewOfLayer(const ParameterView& of) {
  ValueView view = ValueView::OfParameters(of.length());
  std::vector<int64_t> order;  // of those dims that are read; the others have one element
  std::vector<bool> is_read(of.length().size(), false);
  for (const ParameterView::Dim& dim : of.dims()) {
    const int64_t own = dim.own < 0 ? 1 : of.length()[static_cast<size_t>(dim.own)];
    if (dim.extent != own) {
      return absl::InvalidArgumentError("it repeats a parameter, and computes with it; right would be the other order");
    }
    if (dim.own >= 0) is_read[static_cast<size_t>(dim.own)] = true;
  }
  std::vector<int64_t> place(is_read.size(), 0);
  for (size_t i = is_read.size(); i-- > 0;) {
    if (!is_read[i]) view = view.WithoutDim(i);
  }
  for (size_t i = 1; i < is_read.size(); ++i) place[i] = place[i - 1] + (is_read[i - 1] ? 1 : 0);
  for (const ParameterView::Dim& dim : of.dims()) {
    if (dim.own >= 0) order.push_back(place[static_cast<size_t>(dim.own)]);
  }
  view = view.Permuted(order);
  for (size_t i = 0; i < of.dims().size(); ++i) {
    if (of.dims()[i].own < 0) view = view.WithDim(i);
  }
  return view;
}

}  // namespace

void LayerBuilder::SetLifted(const std::string& name, const std::string& source, ValueView view, DType dtype) {
  lifted_[name] = {dtype, view.shape()};
  Value value;
  value.source = source;
  value.view = std::move(view);
  values_[name] = std::move(value);
}

void LayerBuilder::Declare(const std::string& name, std::vector<int64_t> shape, const std::string& like) {
  const TensorInfo* info = InfoOf(like);
  lifted_[name] = {info == nullptr ? DType::kFloat32 : info->dtype, std::move(shape)};
}

absl::StatusOr<std::string> LayerBuilder::Reordered(const std::string& value, const std::vector<int64_t>& order) {
  const std::string name = absl::StrCat(value, " as ", absl::StrJoin(order, ","));
  const auto own = own_.find(value);
  if (own != own_.end()) {
    OwnParameterValue turned = own->second;
    ADJOIN_ASSIGN_OR_RETURN(turned.view, turned.view.Permuted(order));
    Declare(name, turned.view.shape(), value);
    own_[name] = std::move(turned);
    return name;
  }
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value turned = ValueOf(value);
  turned.view = turned.view.Permuted(order);
  Declare(name, turned.view.shape(), value);
  values_[name] = std::move(turned);
  return name;
}

absl::StatusOr<std::string> LayerBuilder::LayerOfParameter(const OpNode& node, const OwnParameterValue& own) {
  ADJOIN_RETURN_IF_ERROR(CheckUnchanged(own));
  const std::string key = absl::StrCat(own.value, " ", absl::StrJoin(own.view.length(), ","));
  const auto found = parameter_layers_.find(key);
  if (found != parameter_layers_.end()) return found->second;
  Layer layer;
  WriteOwn(own.view, graph_.buffers.count(own.value) > 0, "value", layer.mutable_parameter());
  layer.set_name(own.name);
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, Append(node, std::move(layer), {beside_}, {{"weight", own.value}}));
  parameter_layers_[key] = made;
  return made;
}

absl::StatusOr<std::string> LayerBuilder::LayerOfConstant(const OpNode& node, ConstantTensor constant) {
  if (!IsFloatingPoint(constant.dtype)) return absl::InvalidArgumentError("its constant is of whole numbers");
  if (constant.shape.empty()) constant.shape = {1};
  Layer layer;
  for (int64_t extent : constant.shape) layer.mutable_parameter()->add_shape(extent);
  layer.mutable_parameter()->set_combine("value");
  layer.mutable_parameter()->set_buffer(true);
  layer.set_name(Unique(absl::StrCat(HintOf(node), ".constant")));
  ADJOIN_RETURN_IF_ERROR(TakeConstant(std::move(constant), layer));
  return Append(node, std::move(layer), {beside_});
}

absl::StatusOr<OpNode> LayerBuilder::WithLayersOfParameters(const OpNode& node, Lifts lifts) {
  OpNode lifted = node;
  bool any = false;
  for (auto& [argument, of] : lifted.arguments) {
    if (lifts != Lifts::kWeights && (argument == "weight" || argument == "bias")) continue;
    if (of.kind != OpArgument::Kind::kTensors) continue;
    for (std::string& tensor : of.tensors) {
      const auto own = own_.find(tensor);
      const bool is_own = own != own_.end();
      if (tensor.empty() || IsLayer(tensor) || !IsFloat(tensor)) continue;
      if (!is_own && (lifts == Lifts::kParameters || !IsConstant(tensor))) continue;
      const std::string name = absl::StrCat(tensor, " as a layer");
      if (beside_.empty()) return absl::InvalidArgumentError("no layer or field of numbers is before it");
      const DType dtype = InfoOf(tensor)->dtype;
      std::string source;
      ValueView view;
      if (is_own && Batch() != 1 && own->second.view.IsOnePerSample(Batch())) {
        // Expanded to the batch by the program, as a class token is.
        view = ValueView::Of(own->second.view.shape());
        ADJOIN_ASSIGN_OR_RETURN(source, ParameterPerSample(own->second, beside_));
      } else if (is_own) {
        ADJOIN_ASSIGN_OR_RETURN(view, ViewOfLayer(own->second.view));
        ADJOIN_ASSIGN_OR_RETURN(source, LayerOfParameter(node, own->second));
      } else {
        ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(tensor));
        view = ValueView::OfParameters(shape);
        ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, ConstantOf(tensor));
        ADJOIN_ASSIGN_OR_RETURN(source, LayerOfConstant(node, std::move(constant)));
      }
      shapes_[source] = view.base();
      SetLifted(name, source, std::move(view), dtype);
      lifted_from_[name] = tensor;
      tensor = name;
      any = true;
    }
  }
  if (!any) return absl::InvalidArgumentError("it reads no parameter");
  return lifted;
}

absl::Status LayerBuilder::FillSlice(const OpNode& node, double number) {
  const std::string slice = node.Tensor("self");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(slice));
  const auto found = slices_.find(TensorOf(slice));
  if (found == slices_.end()) {
    return absl::InvalidArgumentError("it writes to what is no slice of a layer's output; right would be a product");
  }
  const auto& [whole, range] = found->second;
  ADJOIN_RETURN_IF_ERROR(CheckReadable(whole));
  ADJOIN_RETURN_IF_ERROR(CheckReplaceable(whole, number));
  const auto from = lifted_from_.find(whole);
  const std::string changed = from == lifted_from_.end() ? whole : from->second;
  if (graph_.parameters.count(changed) > 0) {
    return absl::InvalidArgumentError("it changes a parameter in place; right would be the operator without the _");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(whole));
  ConstantTensor keeps;
  keeps.dtype = DType::kFloat64;
  keeps.shape.assign(shape.size(), 1);
  keeps.shape[range.dim] = shape[range.dim];
  keeps.reals.assign(static_cast<size_t>(shape[range.dim]), 1);
  for (int64_t i = 0; i < range.count; ++i) keeps.reals[static_cast<size_t>(range.begin + i * range.step)] = 0;
  ConstantTensor written = keeps;
  for (double& element : written.reals) element = number * (1 - element);

  OpNode next = node;
  next.in_place = false;
  std::string value = whole;
  for (const bool adds : {false, true}) {
    if (adds && number == 0) continue;
    if (ValueOf(value).view.HasBatch()) {
      const std::string made = absl::StrCat(node.outputs[0], adds ? " of all, written" : " of all, kept");
      next.outputs = {made};
      Declare(made, shape, whole);
      ADJOIN_RETURN_IF_ERROR(AddConstant(next, value, adds ? written : keeps, adds ? "add" : "multiply"));
      value = made;
      continue;
    }
    const std::string constant = absl::StrCat(node.outputs[0], adds ? " written" : " kept");
    ADJOIN_ASSIGN_OR_RETURN(const std::string source, LayerOfConstant(node, adds ? written : keeps));
    ValueView view = ValueView::OfParameters(keeps.shape);
    shapes_[source] = view.base();
    SetLifted(constant, source, std::move(view), InfoOf(whole)->dtype);
    ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, Align({value, constant}));
    Layer layer;
    if (adds) {
      layer.mutable_add();
    } else {
      layer.mutable_multiply();
    }
    ADJOIN_ASSIGN_OR_RETURN(const std::string made, Append(next, std::move(layer), aligned.sources));
    value = absl::StrCat(node.outputs[0], adds ? " of all, written" : " of all, kept");
    next.outputs = {value};
    Declare(value, shape, whole);
    ADJOIN_RETURN_IF_ERROR(SetResult(next, made, aligned));
  }
  // All that shares its elements is another value now.
  const Value result = ValueOf(value);
  std::vector<std::string>& views = views_[BaseOf(whole)];
  views.push_back(BaseOf(whole));
  for (const std::string& view : views) stale_.insert(TensorOf(view));
  views = {TensorOf(whole)};
  stale_.erase(TensorOf(whole));
  values_[TensorOf(whole)] = result;
  if (changed == whole) return absl::OkStatus();
  for (const std::string& view : own_views_[changed]) {
    own_.erase(view);
    stale_.insert(view);
  }
  own_.erase(changed);
  values_[changed] = result;
  return absl::OkStatus();
}

}  // namespace adjoin
