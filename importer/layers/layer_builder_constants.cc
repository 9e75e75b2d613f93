// What a program computes of no input, as buffers of LayerBuilder's layers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/layers/layer_builder.h"

namespace adjoin {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 26;  // of all constants that are written

// Only the first of the slices of a dim, which are all alike. False where they are not.
bool KeepFirst(size_t dim, ConstantTensor& constant) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < constant.shape.size(); ++i) (i < dim ? outer : inner) *= i == dim ? 1 : constant.shape[i];
  const int64_t extent = constant.shape[dim];
  const auto keep = [&](auto& elements) {
    if (elements.empty()) return true;
    std::decay_t<decltype(elements)> kept;
    for (int64_t o = 0; o < outer; ++o) {
      const auto slice = elements.begin() + o * extent * inner;
      for (int64_t e = 1; e < extent; ++e) {
        if (!std::equal(slice, slice + inner, slice + e * inner)) return false;
      }
      kept.insert(kept.end(), slice, slice + inner);
    }
    elements = std::move(kept);
    return true;
  };
  if (!keep(constant.reals) || !keep(constant.wholes)) return false;
  constant.shape[dim] = 1;
  return true;
}

bool AreEqual(const ConstantTensor& a, const ConstantTensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.reals == b.reals && a.wholes == b.wholes;
}

}  // namespace

absl::StatusOr<std::optional<double>> LayerBuilder::NumberOf(const std::string& value) const {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantTensor constant, ConstantOf(value));
  const int64_t count = constant.Elements();
  if (count == 0) return absl::InvalidArgumentError("it reads a constant without elements");
  for (int64_t i = 1; i < count; ++i) {
    if (constant.At(i) != constant.At(0)) return std::nullopt;
  }
  return constant.At(0);
}

// An equal one that another layer has is shared.
absl::Status LayerBuilder::TakeConstant(ConstantTensor constant, Layer& layer) {
  if (constant.Elements() == 0) return absl::InvalidArgumentError("it reads a constant without elements");
  constant_kinds_[layer.name()] = ElementsOf(constant);
  for (const ImportedWeight& weight : weights_) {
    if (!weight.constant.has_value() || !AreEqual(*weight.constant, constant)) continue;
    layer.set_weights_of(constant_owner_.at(weight.name));
    return absl::OkStatus();
  }
  constant_elements_ += constant.Elements();
  if (constant_elements_ > kMostElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("the constants of the program have more than ", kMostElements, " elements"));
  }
  // A name that tells whoever loads the weights into the module that it lacks this one.
  std::string name;
  do {
    name = absl::StrCat("computed_constant_", next_constant_++);
  } while (parameter_names_.count(name) > 0);
  (*layer.mutable_parameter_name())["weight"] = name;
  constant_owner_[name] = layer.name();
  ImportedWeight weight;
  weight.name = std::move(name);
  weight.constant = std::move(constant);
  weights_.push_back(std::move(weight));
  return absl::OkStatus();
}

absl::Status LayerBuilder::AddConstant(const OpNode& node, const std::string& value, ConstantTensor constant,
                                       const std::string& combine) {
  if (node.outputs.empty()) return absl::InvalidArgumentError("it returns nothing");
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, Align({value}));
  const std::vector<int64_t> shape = ValueOf(value).view.shape();
  if (constant.shape.size() > shape.size()) return absl::InvalidArgumentError("its constant has more dims");
  constant.shape.insert(constant.shape.begin(), shape.size() - constant.shape.size(), 1);
  if (constant.Elements() == 0) return absl::InvalidArgumentError("it reads a constant without elements");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (constant.shape[i] != 1 && constant.shape[i] != shape[i]) {
      return absl::InvalidArgumentError("its constant is not as large as its other argument, nor 1, in each dim");
    }
  }
  if (aligned.of_parameters) return absl::InvalidArgumentError("it combines a parameter with a constant");
  const size_t batch_dim = aligned.batch_dim;
  if (!shape.empty() && constant.shape[batch_dim] != 1 && !KeepFirst(batch_dim, constant)) {
    return absl::InvalidArgumentError("its constant differs from one sample of the batch to another");
  }
  // Beside the batch, in front, and what was in one dim with it.
  std::vector<int64_t> own = constant.shape;
  if (!own.empty()) own.erase(own.begin() + static_cast<ptrdiff_t>(aligned.batch_dim));
  if (aligned.moved && aligned.batch_dim > 0) {
    const size_t more = (aligned.beside.first != 1) + (aligned.beside.second != 1);
    own.insert(own.begin() + static_cast<ptrdiff_t>(aligned.batch_dim), more, 1);
  }
  while (own.size() > 1 && own[0] == 1) own.erase(own.begin());
  if (own.empty()) own.push_back(1);
  constant.shape = own;
  Layer layer;
  for (int64_t extent : own) layer.mutable_parameter()->add_shape(extent);
  layer.mutable_parameter()->set_combine(combine);
  layer.mutable_parameter()->set_buffer(true);
  layer.set_name(Unique(HintOf(node)));
  ADJOIN_RETURN_IF_ERROR(TakeConstant(std::move(constant), layer));
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, Append(node, std::move(layer), aligned.sources));
  if (!aligned.moved) return SetResult(node, made, ValueView::OfValue(shape));
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, aligned.ResultOf(shape, Batch()));
  return SetResult(node, made, std::move(view));
}

absl::Status LayerBuilder::CheckReplaceable(const std::string& value, double number) {
  ADJOIN_RETURN_IF_ERROR(CheckReadable(value));
  // Layers are read after those that they read.
  while (elements_.size() < layers_.size()) {
    const Layer& layer = layers_[elements_.size()];
    std::vector<LayerElements> inputs;
    for (const std::string& input : layer.input()) {
      const auto found = index_.find(input);
      inputs.push_back(found == index_.end() ? LayerElements() : elements_[found->second]);
    }
    LayerElements weight;
    if (const auto known = constant_kinds_.find(layer.name()); known != constant_kinds_.end()) weight = known->second;
    if (const auto buffer = buffer_of_.find(layer.name()); buffer != buffer_of_.end()) {
      const absl::StatusOr<ConstantTensor> constant = ConstantOf(buffer->second);
      weight.kind = constant.ok() ? ElementsOf(*constant).kind : LayerElements::Kind::kUnknown;
    }
    elements_.push_back(ElementsOf(layer, inputs, weight));
  }
  const auto found = index_.find(ValueOf(value).source);
  if (found == index_.end()) return absl::OkStatus();
  const LayerElements& elements = elements_[found->second];
  if (elements.kind == LayerElements::Kind::kFinite) return absl::OkStatus();
  // The sum of two minus infinities is one.
  if (elements.kind == LayerElements::Kind::kMinusInfinity && number == -INFINITY) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it replaces elements that may be infinite or NaN since ", PrintableText(elements.from),
                   ", and no layer leaves them unread; right would be finite ones, as by clamp(min=1e-6) before"));
}

absl::StatusOr<std::string> LayerBuilder::ConstantPerSample(const OpNode& node, ConstantTensor constant,
                                                            const std::string& beside) {
  Layer layer;
  for (int64_t extent : constant.shape) layer.mutable_parameter()->add_shape(extent);
  layer.mutable_parameter()->set_combine("expand");
  layer.mutable_parameter()->set_buffer(true);
  layer.set_name(Unique(absl::StrCat(HintOf(node), ".mask")));
  std::vector<int64_t> shape = constant.shape;
  shape[0] = Batch();
  ADJOIN_RETURN_IF_ERROR(TakeConstant(std::move(constant), layer));
  ADJOIN_ASSIGN_OR_RETURN(std::string made, Append(node, std::move(layer), {beside}));
  shapes_[made] = std::move(shape);
  return made;
}

}  // namespace adjoin
