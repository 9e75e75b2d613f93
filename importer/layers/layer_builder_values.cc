// Values of LayerBuilder in other shapes and orders, parts of them, and parameters that are values.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {
namespace {

Layer CropOf(size_t dims, size_t dim, int64_t before, int64_t after) {
  Layer layer;
  Shape& crop = *layer.mutable_crop();
  for (size_t i = dims - 1; i > dim; --i) {
    crop.add_arg(0);
    crop.add_arg(0);
  }
  crop.add_arg(before);
  crop.add_arg(after);
  return layer;
}

}  // namespace

int64_t AlignedInputs::DimOf(int64_t dim) const {
  if (of_parameters) return dim + 1;
  const int64_t batch = static_cast<int64_t>(batch_dim);
  if (dim == batch) return -1;
  if (!moved) return dim;
  return dim < batch ? dim + 1 : dim + (beside.first != 1) + (beside.second != 1);
}

absl::StatusOr<ValueView> AlignedInputs::Restored(const ValueView& view, const std::vector<int64_t>& shape) const {
  if (!moved) return view;
  std::vector<int64_t> order;
  int64_t next = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != batch_dim) {
      order.push_back(next++);
      continue;
    }
    if (beside.first != 1) order.push_back(next++);
    order.push_back(0);
    if (beside.second != 1) order.push_back(next++);
  }
  if (order.size() != view.dims()) return absl::InvalidArgumentError("its result has other dims than its inputs");
  return view.Permuted(order).Reshaped(shape);
}

absl::StatusOr<ValueView> AlignedInputs::ResultOf(const std::vector<int64_t>& shape, int64_t batch) const {
  if (of_parameters) return ValueView::OfParameters(shape);
  if (!moved) return ValueView::OfValue(shape);
  if (batch_dim >= shape.size()) return absl::InvalidArgumentError("its result lacks the dim of the batch");
  std::vector<int64_t> base = {batch};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != batch_dim) base.push_back(shape[i]);
    if (i == batch_dim && beside.first != 1) base.push_back(beside.first);
    if (i == batch_dim && beside.second != 1) base.push_back(beside.second);
  }
  return Restored(ValueView::Of(base), shape);
}

absl::StatusOr<AlignedInputs> LayerBuilder::Align(const std::vector<std::string>& values) {
  std::vector<std::pair<std::string, ValueView>> views;
  size_t dims = 0;
  for (const std::string& name : values) {
    ADJOIN_RETURN_IF_ERROR(CheckReadable(name));
    ValueView view = ValueOf(name).view;
    dims = std::max(dims, view.dims());
    views.emplace_back(name, std::move(view));
  }
  for (auto& [name, view] : views) {
    while (view.dims() < dims && (view.dims() > 0 || !view.HasBatch())) view = view.WithDim(0);
  }
  return Align(views);
}

absl::StatusOr<AlignedInputs> LayerBuilder::Align(const std::vector<std::pair<std::string, ValueView>>& values) {
  AlignedInputs aligned;
  bool first = true;
  aligned.of_parameters = !values.empty();
  for (const auto& [name, view] : values) {
    aligned.of_parameters = aligned.of_parameters && ValueOf(name).IsShapeKnown() && !view.HasBatch();
  }
  for (const auto& [name, view] : values) {
    if (!view.HasBatch()) continue;
    const size_t dim = view.BatchDim();
    const bool moved = dim != 0 || !view.BatchIsAlone();
    const std::pair<int64_t, int64_t> beside = view.BesideBatch();
    if (first) {
      aligned.moved = moved;
      aligned.batch_dim = dim;
      aligned.beside = beside;
    } else if (moved != aligned.moved || dim != aligned.batch_dim || beside != aligned.beside) {
      return absl::InvalidArgumentError("its inputs have the batch in different places; right would be dim 0 of both");
    }
    first = false;
  }
  for (const auto& [name, view] : values) {
    ADJOIN_RETURN_IF_ERROR(CheckReadable(name));
    Value value = ValueOf(name);
    const bool known = value.IsShapeKnown();
    if (!known && aligned.moved) {
      return absl::InvalidArgumentError(absl::StrCat("the shape of its tensor ", PrintableText(name), " is not known"));
    }
    value.view = aligned.moved ? view.BatchFirst() : view;
    if (known && !view.HasBatch() && !aligned.of_parameters) {
      // Beside the batch of the others, and beside what is in one dim with it.
      if (aligned.batch_dim >= view.dims()) return absl::InvalidArgumentError("its inputs have other numbers of dims");
      if (view.shape()[aligned.batch_dim] != 1) {
        return absl::InvalidArgumentError("it has a function of parameters with elements for each sample of the batch");
      }
      value.view = view.WithoutDim(aligned.batch_dim);
      const int beside = (aligned.beside.first != 1) + (aligned.beside.second != 1);
      for (int i = 0; i < beside; ++i) value.view = value.view.WithDim(aligned.batch_dim);
      value.view = value.view.WithDim(0).WithBatch(0);
    }
    ADJOIN_ASSIGN_OR_RETURN(std::string source, Materialize(std::move(value)));
    aligned.sources.push_back(std::move(source));
  }
  return aligned;
}

absl::Status LayerBuilder::SetView(const OpNode& node, const std::string& value, ValueView view) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value changed = ValueOf(value);
  const std::string name = HintOf(node);
  const bool is_order = node.op == "permute" || node.op == "transpose";
  (is_order ? changed.permute_name : changed.reshape_name) = name;
  if (changed.permute_name.empty()) changed.permute_name = name;
  if (changed.reshape_name.empty()) changed.reshape_name = name;
  ADJOIN_RETURN_IF_ERROR(CheckShape(node, view.shape()));
  changed.view = std::move(view);
  values_[node.outputs[0]] = std::move(changed);
  ShareElements(node, value);
  return absl::OkStatus();
}

// Where a dim of the value is in what a layer returns, without others before it in a dim, and with `by_itself` without
// others behind it. A layer that divides that dim is added where it is needed.
absl::StatusOr<DimInBase> LayerBuilder::DimOfLayer(size_t dim, bool by_itself, Value& value) {
  std::optional<DimInBase> found = value.view.FindInBase(dim);
  if (found.has_value() && found->outer == 1 && (!by_itself || found->inner == 1)) return *found;
  Value all = value;
  const int64_t extent = value.view.shape()[dim];
  if (all.view.HasBatch() && (all.view.BatchDim() != 0 || !all.view.BatchIsAlone())) {
    if (!found.has_value()) {
      return absl::InvalidArgumentError("its dim is not one of a layer's; right would be a batch that is dim 0");
    }
    std::vector<int64_t> base = all.view.base();
    base[static_cast<size_t>(found->dim)] = found->outer;
    base.insert(base.begin() + found->dim + 1, {extent, found->inner});
    all.view = ValueView::Of(all.view.base());
    ADJOIN_ASSIGN_OR_RETURN(all.view, all.view.Reshaped(base));
    ADJOIN_ASSIGN_OR_RETURN(value.source, Materialize(all));
    // The same value of the layer that has the dim by itself.
    value.view = value.view.OfBase(base);
  } else {
    ADJOIN_ASSIGN_OR_RETURN(value.source, Materialize(all));
    value.view = all.view.HasBatch() ? ValueView::OfValue(all.view.shape()) : ValueView::OfParameters(all.view.shape());
  }
  found = value.view.FindInBase(dim);
  if (!found.has_value()) return absl::InvalidArgumentError("its dim is not one of a layer's");
  return *found;
}

absl::Status LayerBuilder::Select(const OpNode& node, size_t dim, const std::vector<int64_t>& indices, Value& value) {
  if (static_cast<int64_t>(indices.size()) > kMostIndices) {
    return absl::InvalidArgumentError(absl::StrCat("it takes more than ", kMostIndices, " elements one by one"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const DimInBase found, DimOfLayer(dim, /*by_itself=*/true, value));
  Layer layer;
  layer.mutable_index_select()->add_arg(found.dim);
  for (int64_t index : indices) layer.mutable_index_select()->add_arg(index);
  value.view = value.view.Narrowed(dim, found, static_cast<int64_t>(indices.size()));
  value.source = StepLayer(value.source, std::move(layer), HintOf(node), value.view.base());
  return absl::OkStatus();
}

absl::Status LayerBuilder::AddSelections(const OpNode& node, const std::string& value,
                                         const std::vector<Selection>& selections) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value part = ValueOf(value);
  for (const auto& [dim, indices] : selections) {
    if (dim >= part.view.dims() || dim == part.view.BatchDim()) {
      return absl::InvalidArgumentError("it takes some samples of the batch; right would be the other dims");
    }
    const int64_t extent = part.view.shape()[dim];
    for (int64_t index : indices) {
      if (index < 0 || index >= extent) return absl::InvalidArgumentError("it takes what its input does not have");
    }
    if (extent == 1 || indices.empty()) {
      return absl::InvalidArgumentError("it repeats a dim of one element, or takes nothing; right would be expand");
    }
    ADJOIN_RETURN_IF_ERROR(Select(node, dim, indices, part));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Shape(node.outputs[0]));
  if (shape != part.view.shape()) {
    ADJOIN_ASSIGN_OR_RETURN(part.view, part.view.Reshaped(shape));
  }
  part.reshape_name = part.permute_name = HintOf(node);
  return Bind(node, std::move(part));
}

absl::Status LayerBuilder::AddRange(const OpNode& node, const std::string& value, const Range& range) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  Value part = ValueOf(value);
  if (range.dim >= part.view.dims()) return absl::InvalidArgumentError("its dim is not one of its input");
  const int64_t extent = part.view.shape()[range.dim];
  const bool whole = range.begin == 0 && range.count == extent && range.step == 1;
  if (!whole) {
    if (range.dim == part.view.BatchDim()) {
      return absl::InvalidArgumentError("it takes some samples of the batch; right would be the other dims");
    }
    if (extent < 0) return absl::InvalidArgumentError("its dim has an extent that is not fixed");
    if (range.begin < 0 || range.count < 1 || range.step < 1 || range.begin >= extent ||
        (range.count - 1) > (extent - 1 - range.begin) / range.step) {
      return absl::InvalidArgumentError(
          absl::StrCat("it takes nothing, or what its input of ", extent, " elements does not have"));
    }
    if (range.step != 1) {
      std::vector<int64_t> indices;
      for (int64_t i = 0; i < std::min(range.count, kMostIndices + 1); ++i) {
        indices.push_back(range.begin + i * range.step);
      }
      ADJOIN_RETURN_IF_ERROR(Select(node, range.dim, indices, part));
    } else {
      ADJOIN_ASSIGN_OR_RETURN(const DimInBase found, DimOfLayer(range.dim, /*by_itself=*/false, part));
      Layer layer = CropOf(part.view.base().size(), static_cast<size_t>(found.dim), range.begin * found.inner,
                           (extent - range.begin - range.count) * found.inner);
      part.view = part.view.Narrowed(range.dim, found, range.count);
      part.source = StepLayer(part.source, std::move(layer), HintOf(node), part.view.base());
    }
  }
  if (range.drops) {
    if (range.dim == part.view.BatchDim()) {
      return absl::InvalidArgumentError("it takes one sample of the batch; right would be the other dims");
    }
    part.view = part.view.WithoutDim(range.dim);
  }
  ADJOIN_RETURN_IF_ERROR(CheckShape(node, part.view.shape()));
  part.reshape_name = HintOf(node);
  if (part.permute_name.empty()) part.permute_name = part.reshape_name;
  values_[node.outputs[0]] = std::move(part);
  ShareElements(node, value);
  slices_[node.outputs[0]] = {value, range};
  return absl::OkStatus();
}

const ParameterView* LayerBuilder::ParameterOf(const std::string& value) const {
  const auto found = own_.find(value);
  return found == own_.end() ? nullptr : &found->second.view;
}

absl::StatusOr<std::string> LayerBuilder::WholeParameter(const std::string& value) const {
  const auto found = own_.find(value);
  if (found == own_.end() || found->second.view.length() != found->second.view.own_shape()) {
    return absl::InvalidArgumentError("its weight is a part of a parameter; right would be all of it");
  }
  return found->second.value;
}

absl::Status LayerBuilder::SetParameterView(const OpNode& node, const std::string& value, ParameterView view) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckShape(node, view.shape()));
  OwnParameterValue own = own_.at(value);
  own.view = std::move(view);
  own_[node.outputs[0]] = std::move(own);
  own_views_[value].push_back(node.outputs[0]);
  return absl::OkStatus();
}

void LayerBuilder::WriteOwn(const ParameterView& view, bool is_buffer, const std::string& combine, OwnParameter* own) {
  for (int64_t extent : view.own_shape()) own->add_shape(extent);
  if (view.own_shape().empty()) own->add_shape(1);  // a number
  if (view.length() != view.own_shape()) {
    for (int64_t extent : view.length()) own->add_length(extent);
  }
  own->set_combine(combine);
  if (is_buffer) own->set_buffer(true);
}

absl::Status LayerBuilder::AddParameter(const OpNode& node, const std::string& value, const std::string& parameter,
                                        const std::string& combine) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  const OwnParameterValue own = own_.at(parameter);
  if (!IsFloat(value) || !SameType(value, own.value)) {
    return absl::InvalidArgumentError("its two arguments are of different types; right would be one type of numbers");
  }
  ADJOIN_RETURN_IF_ERROR(CheckUnchanged(own));
  Value x = ValueOf(value);
  const size_t batch_dim = x.view.BatchDim();
  if (!x.view.HasBatch()) return absl::InvalidArgumentError("it combines parameters before a layer's output");
  if (!x.view.BatchIsAlone()) return absl::InvalidArgumentError("its batch is in one dim with others");
  const std::vector<int64_t> shape = x.view.shape();
  // The batch in front, then the dims in the order that the parameter has them.
  std::vector<int64_t> front(shape.size());
  std::iota(front.begin(), front.end(), 0);
  std::rotate(front.begin(), front.begin() + static_cast<ptrdiff_t>(batch_dim),
              front.begin() + static_cast<ptrdiff_t>(batch_dim) + 1);
  ParameterView view = own.view;
  std::vector<int64_t> turned;
  for (int64_t dim : front) turned.push_back(shape[static_cast<size_t>(dim)]);
  if (batch_dim != 0) {
    if (view.dims().size() > shape.size()) return absl::InvalidArgumentError("its parameter has more dims");
    while (view.dims().size() < shape.size()) {
      ADJOIN_ASSIGN_OR_RETURN(view, view.WithDim(0));
    }
    ADJOIN_ASSIGN_OR_RETURN(view, view.Permuted(front));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> beside, view.OrderBeside(turned));
  std::vector<int64_t> order, back(shape.size());
  for (int64_t dim : beside) order.push_back(front[static_cast<size_t>(dim)]);
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  x.view = x.view.Permuted(order);
  const ValueView read = x.view;
  ADJOIN_ASSIGN_OR_RETURN(const std::string source, Materialize(x));
  Layer layer;
  WriteOwn(view, graph_.buffers.count(own.value) > 0, combine, layer.mutable_parameter());
  layer.set_name(own.name);
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, Append(node, std::move(layer), {source}, {{"weight", own.value}}));
  return SetResult(node, made, ValueView::OfValue(read.shape()).Permuted(back));
}

// A buffer that the program changes is none of a layer's.
absl::Status LayerBuilder::CheckUnchanged(const OwnParameterValue& own) const {
  if (graph_.buffers.count(own.value) == 0 || IsConstant(own.value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it reads the buffer ", graph_.parameters.at(own.value),
                                                 ", which the program changes; right would be one that stays"));
}

absl::StatusOr<std::string> LayerBuilder::PerSample(const std::string& parameter, const ParameterView& view,
                                                    const std::string& beside) {
  OwnParameterValue own = own_.at(parameter);
  own.view = view;
  return ParameterPerSample(own, beside);
}

absl::StatusOr<std::string> LayerBuilder::ParameterPerSample(const OwnParameterValue& own, const std::string& beside) {
  ADJOIN_RETURN_IF_ERROR(CheckUnchanged(own));
  const auto found = shapes_.find(beside);
  const std::vector<int64_t> base = found == shapes_.end() ? std::vector<int64_t>() : found->second;
  if (base.empty()) return absl::InvalidArgumentError("it has no other input beside a parameter");
  Layer layer;
  if (own.view.IsOnePerSample(base[0])) {
    WriteOwn(own.view, graph_.buffers.count(own.value) > 0, "expand", layer.mutable_parameter());
  } else if (own.view.IsWholePerSample(base[0]) && own.view.own_shape().size() == 2 &&
             graph_.buffers.count(own.value) == 0 && base.size() >= 2 && own.view.own_shape()[1] == base.back()) {
    layer.mutable_tokens()->set_count(static_cast<uint64_t>(own.view.own_shape()[0]));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("it reads the parameter ", graph_.parameters.at(own.value),
                     " as a tensor; right would be one with 1 as its dim 0, expanded to the batch"));
  }
  layer.set_name(own.name);
  std::vector<int64_t> shape = own.view.length();
  if (layer.has_tokens()) shape.insert(shape.begin(), base[0]);
  shape[0] = base[0];
  ADJOIN_ASSIGN_OR_RETURN(std::string made, Append(OpNode(), std::move(layer), {beside}, {{"weight", own.value}}));
  shapes_[made] = std::move(shape);
  return made;
}

}  // namespace adjoin
