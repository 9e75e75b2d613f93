#include "verify/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/optimizer.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/shape_text.h"
#include "verify/serial_optimizer.h"

namespace adjoin {
namespace {

// Zero where there is none.
double LargestOf(const at::Tensor& whole) {
  if (!whole.defined() || whole.numel() == 0) return 0;
  const at::Tensor sizes = whole.to(at::kDouble).abs();
  const at::Tensor finite = sizes.masked_select(at::isfinite(sizes));
  return finite.numel() == 0 ? 0 : finite.max().item<double>();
}

// Gradients are as small as the loss makes them; one that is zero but for rounding, as that of a bias before a batch
// norm, is compared by the largest of its step.
double LeastScaleOfGradients(const SerialStep& step) {
  double largest = 0;
  for (const auto* gradients : {&step.cotangents, &step.parameter_grads}) {
    for (const auto& entry : *gradients) largest = std::max(largest, LargestOf(entry.second));
  }
  return largest > 0 ? std::min(1.0, largest) : 1.0;
}

// Compares the parts of one tensor in one step with the whole.
class PartsOfTensor {
 public:
  PartsOfTensor(const at::Tensor& whole, Layout layout, int64_t step, Difference* worst, double least_scale = 1)
      : whole_(whole),
        layout_(std::move(layout)),
        scale_(std::max(least_scale, LargestOf(whole))),
        step_(step),
        worst_(*worst) {
    worst_.compared = true;
    if (whole.sizes() != at::IntArrayRef(layout_.shape())) {
      Mismatch(
          -1, absl::StrCat("is ", ShapeText(layout_.shape()), " in the plan, ", ShapeText(whole.sizes()), " serially"));
    }
  }

  bool fits() const { return whole_.sizes() == at::IntArrayRef(layout_.shape()); }
  const Layout& layout() const { return layout_; }

  // What cannot be a number: "is [2], should be [3]".
  void Mismatch(int rank, std::string shape) {
    worst_.relative = std::numeric_limits<double>::infinity();
    worst_.rank = rank;
    worst_.step = step_;
    worst_.shape = std::move(shape);
  }

  void Part(int rank, const at::Tensor& found) { Part(rank, found, PartOnRank(whole_, layout_, rank)); }

  // `expected`: of this rank's part.
  void Part(int rank, const at::Tensor& found, const at::Tensor& expected) {
    if (found.sizes() != expected.sizes()) {
      return Mismatch(rank, absl::StrCat("is ", ShapeText(found.sizes()), ", should be ", ShapeText(expected.sizes())));
    }
    if (found.numel() == 0) return;
    const at::Tensor a = found.to(at::kDouble).contiguous(), b = expected.to(at::kDouble).contiguous();
    at::Tensor error = at::where(a == b, at::zeros_like(a), (a - b).abs());
    const double infinite = std::numeric_limits<double>::infinity();
    error = at::nan_to_num(error, infinite, infinite, infinite);
    const int64_t at = error.argmax().item<int64_t>();
    const double relative = error.view({-1})[at].item<double>() / scale_;
    if (worst_.rank >= 0 && !(relative > worst_.relative)) return;
    worst_.relative = relative;
    worst_.found = a.view({-1})[at].item<double>();
    worst_.expected = b.view({-1})[at].item<double>();
    worst_.rank = rank;
    worst_.position = GlobalPosition(rank, at);
    worst_.step = step_;
  }

 private:
  std::vector<int64_t> GlobalPosition(int rank, int64_t at) const {
    const Box box = layout_.BoxOf(rank);
    std::vector<int64_t> position(box.dims());
    for (int dim = box.dims() - 1; dim >= 0; --dim) {
      position[dim] = box[dim].lo + at % box[dim].size();
      at /= box[dim].size();
    }
    return position;
  }

  const at::Tensor whole_;
  const Layout layout_;
  const double scale_;
  const int64_t step_;
  Difference& worst_;
};

// The ranks that hold copies of what `rank` holds, itself first; none where it is not the first of them.
std::vector<int> CopiesOf(const Layout& layout, int rank) {
  const auto coords = layout.mesh().CoordsOf(rank);
  if (!coords.has_value()) return {};
  std::vector<int> copies;
  for (int other : layout.mesh().ranks()) {
    const std::vector<int64_t> at = *layout.mesh().CoordsOf(other);
    bool same = true;
    for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
      const bool copied = layout.placements()[axis].kind == Placement::Kind::kBroadcast;
      if (copied && (*coords)[axis] != 0) return {};
      if (!copied && at[axis] != (*coords)[axis]) same = false;
    }
    if (same) copies.push_back(other);
  }
  return copies;
}

at::Tensor Find(const NamedTensors& tensors, const std::string& name) {
  auto found = tensors.find(name);
  return found == tensors.end() ? at::Tensor() : found->second;
}

// What LibTorch's optimizer makes, step by step, of a rank's block of a parameter by the gradients that this rank had.
// Those gradients are compared with the serial ones before. An optimizer that divides, as Adam does, can make any
// number of the rounding of a gradient that is zero, so that the serial parameters are no measure.
std::vector<at::Tensor> OptimizedBlocks(const Optimizer& spec, const at::Tensor& initial, const RankSteps& steps,
                                        size_t index) {
  at::Tensor block = initial.detach().clone();
  block.set_requires_grad(true);
  const std::unique_ptr<torch::optim::Optimizer> optimizer = SerialOptimizer(spec, {block});
  std::vector<at::Tensor> blocks;
  for (const RankStep& step : steps) {
    const at::Tensor& grad = step.parameter_grads[index];
    const bool fits = grad.defined() && grad.sizes() == block.sizes();  // else it is found to deviate
    block.mutable_grad() = fits ? grad.clone() : at::zeros_like(block);
    optimizer->step();
    blocks.push_back(block.detach().clone());
  }
  return blocks;
}

class Comparer {
 public:
  Comparer(const Plan& plan, const ProgramPlan& program, const std::vector<SerialStep>& serial,
           const NamedTensors& initial, const std::vector<RankSteps>& ranks)
      : plan_(plan), program_(program), serial_(serial), initial_(initial), ranks_(ranks) {
    for (const SerialStep& step : serial) least_scale_.push_back(LeastScaleOfGradients(step));
  }

  absl::StatusOr<Comparison> Run() {
    for (const LayerPlan& layer : program_.layer()) {
      LayerComparison entry;
      entry.name = layer.name();
      entry.kind = KindOf(layer.spec());
      NoteAlias(program_.value(layer.output()));
      for (size_t step = 0; step < serial_.size(); ++step) ADJOIN_RETURN_IF_ERROR(CompareLayer(layer, step, entry));
      result_.layers.push_back(std::move(entry));
    }
    for (size_t step = 0; step < serial_.size(); ++step) CompareLoss(step);
    ADJOIN_RETURN_IF_ERROR(CompareSteps());
    return std::move(result_);
  }

 private:
  // Whether on every rank that holds any of it the value is another one's tensor.
  void NoteAlias(const ValuePlan& value) {
    std::string of;
    for (const RankSteps& rank : ranks_) {
      if (rank[0].values.at(value.name()).numel() == 0) continue;
      auto same = rank[0].same_as.find(value.name());
      if (same == rank[0].same_as.end()) return;
      of = same->second;
    }
    if (!of.empty()) result_.same_as[value.name()] = of;
  }

  absl::Status CompareLayer(const LayerPlan& layer, size_t step, LayerComparison& entry) {
    const ValuePlan& value = program_.value(layer.output());
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    PartsOfTensor output(serial_[step].values.at(layer.name()), layout, Number(step), &entry.output);
    for (size_t rank = 0; output.fits() && rank < ranks_.size(); ++rank) {
      output.Part(static_cast<int>(rank), ranks_[rank][step].values.at(value.name()));
    }
    CompareCotangent(value, layout, step, entry);
    for (const ParameterUse& use : layer.parameter())
      ADJOIN_RETURN_IF_ERROR(CompareParameter(use.index(), step, entry));
    return absl::OkStatus();
  }

  void CompareCotangent(const ValuePlan& value, const Layout& layout, size_t step, LayerComparison& entry) {
    const at::Tensor expected = Find(serial_[step].cotangents, entry.name);
    if (!expected.defined() || result_.same_as.count(value.name()) > 0) return;
    PartsOfTensor parts(expected, layout, Number(step), &entry.cotangent, least_scale_[step]);
    for (size_t rank = 0; parts.fits() && rank < ranks_.size(); ++rank) {
      // Each of several copies has a share of the gradient.
      at::Tensor sum;
      for (int copy : CopiesOf(layout, static_cast<int>(rank))) {
        const at::Tensor share = Find(ranks_[copy][step].cotangents, value.name());
        if (share.defined()) sum = sum.defined() ? sum + share : share;
      }
      if (CopiesOf(layout, static_cast<int>(rank)).empty()) continue;
      if (!sum.defined()) sum = at::zeros(layout.LocalShape(static_cast<int>(rank)), at::kDouble);
      parts.Part(static_cast<int>(rank), sum);
    }
  }

  absl::Status CompareParameter(uint32_t index, size_t step, LayerComparison& entry) {
    const ParameterPlan& parameter = plan_.parameter(static_cast<int>(index));
    ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(parameter.home()));
    const at::Tensor expected = Find(serial_[step].parameter_grads, parameter.name());
    if (!expected.defined()) {  // a buffer, or frozen
      PartsOfTensor after(serial_[step].parameters.at(parameter.name()).reshape(home.shape()), home, Number(step),
                          &entry.parameters[parameter.name()]);
      for (size_t rank = 0; after.fits() && rank < ranks_.size(); ++rank) {
        after.Part(static_cast<int>(rank), ranks_[rank][step].parameters[index]);
      }
      return absl::OkStatus();
    }
    // A sum of products with the layer's cotangent: where they cancel, their rounding is left.
    const double least_scale = std::max(least_scale_[step], LargestOf(Find(serial_[step].cotangents, entry.name)));
    PartsOfTensor gradient(expected.reshape(home.shape()), home, Number(step), &entry.gradients[parameter.name()],
                           least_scale);
    for (size_t rank = 0; gradient.fits() && rank < ranks_.size(); ++rank) {
      const at::Tensor found = ranks_[rank][step].parameter_grads[index];
      gradient.Part(static_cast<int>(rank), found.defined() ? found : at::empty({0}));
    }
    return absl::OkStatus();
  }

  // Trained parameters after each step.
  absl::Status CompareSteps() {
    for (int index = 0; index < plan_.parameter_size(); ++index) {
      const std::string& name = plan_.parameter(index).name();
      LayerComparison* entry = EntryOf(static_cast<uint32_t>(index));
      if (entry == nullptr || !Find(serial_[0].parameter_grads, name).defined()) continue;
      ADJOIN_ASSIGN_OR_RETURN(const Layout home, LayoutFromProto(plan_.parameter(index).home()));
      const at::Tensor initial = initial_.at(name).reshape(home.shape());
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::vector<at::Tensor> blocks =
            OptimizedBlocks(plan_.spec().train().optimizer(), PartOnRank(initial, home, static_cast<int>(rank)),
                            ranks_[rank], static_cast<size_t>(index));
        for (size_t step = 0; step < serial_.size(); ++step) {
          PartsOfTensor after(serial_[step].parameters.at(name).reshape(home.shape()), home, Number(step),
                              &entry->parameters[name]);
          const at::Tensor& found = ranks_[rank][step].parameters[static_cast<size_t>(index)];
          after.Part(static_cast<int>(rank), found, blocks[step]);
          // Copies stay copies only if each step gives all of them the same bits.
          for (int copy : CopiesOf(home, static_cast<int>(rank))) {
            const at::Tensor& other = ranks_[static_cast<size_t>(copy)][step].parameters[static_cast<size_t>(index)];
            if (!at::equal(found, other)) {
              after.Mismatch(copy, absl::StrCat("differs from its copy on rank ", rank));
            }
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // The first layer that uses the parameter.
  LayerComparison* EntryOf(uint32_t index) {
    for (int i = 0; i < program_.layer_size(); ++i) {
      for (const ParameterUse& use : program_.layer(i).parameter()) {
        if (use.index() == index) return &result_.layers[static_cast<size_t>(i)];
      }
    }
    return nullptr;
  }

  void CompareLoss(size_t step) {
    Difference& worst = result_.loss;
    const double expected = serial_[step].loss, found = ranks_[0][step].loss;
    double relative = std::abs(found - expected) / std::max(1.0, std::abs(expected));
    if (std::isnan(relative)) relative = std::numeric_limits<double>::infinity();
    if (worst.compared && !(relative > worst.relative)) return;
    worst.compared = true;
    worst.relative = relative;
    worst.found = found;
    worst.expected = expected;
    worst.step = Number(step);
  }

  static int64_t Number(size_t step) { return static_cast<int64_t>(step) + 1; }

  const Plan& plan_;
  const ProgramPlan& program_;
  const std::vector<SerialStep>& serial_;
  const NamedTensors& initial_;
  const std::vector<RankSteps>& ranks_;
  std::vector<double> least_scale_;  // of gradients, per step
  Comparison result_;
};

// Who reads a value: layers, also through layers that pass it on as it is, and losses.
class Readers {
 public:
  Readers(const ProgramPlan& program, const Comparison& comparison) : program_(program), comparison_(comparison) {}

  std::vector<std::string> Of(uint32_t value) const {
    std::vector<std::string> readers;
    for (const LayerPlan& layer : program_.layer()) {
      if (std::find(layer.input().begin(), layer.input().end(), value) == layer.input().end()) continue;
      if (comparison_.same_as.count(layer.name()) > 0) {
        for (std::string& reader : Of(layer.output())) readers.push_back(std::move(reader));
      } else {
        readers.push_back(layer.name());
      }
    }
    for (const LossPlan& loss : program_.loss()) {
      const bool reads = loss.input() == value || (loss.has_variance() && loss.variance() == value);
      if (reads) readers.push_back("the loss");
    }
    return readers;
  }

 private:
  const ProgramPlan& program_;
  const Comparison& comparison_;
};

std::optional<Finding> WrongParameter(const LayerComparison& layer, const std::map<std::string, Difference>& of,
                                      const std::string& what, double tolerance) {
  for (const auto& [name, difference] : of) {
    if (difference.deviates(tolerance)) return Finding{layer.name, absl::StrCat(what, name), difference};
  }
  return std::nullopt;
}

}  // namespace

Difference CompareParts(const at::Tensor& whole, const Layout& layout, const std::vector<at::Tensor>& parts,
                        double least_scale) {
  Difference worst;
  const bool zero = least_scale == 0 && LargestOf(whole) == 0;
  PartsOfTensor compared(whole, layout, /*step=*/1, &worst, zero ? 1 : least_scale);
  for (size_t rank = 0; compared.fits() && rank < parts.size(); ++rank) {
    compared.Part(static_cast<int>(rank), parts[rank]);
  }
  return worst;
}

absl::StatusOr<Comparison> Compare(const Plan& plan, const std::vector<SerialStep>& serial, const NamedTensors& initial,
                                   const std::vector<RankSteps>& ranks) {
  ADJOIN_ASSIGN_OR_RETURN(const ProgramPlan* program, VerifiedProgramOf(plan));
  return Comparer(plan, *program, serial, initial, ranks).Run();
}

std::optional<Finding> FirstDeviation(const Plan& plan, const Comparison& comparison, double tolerance) {
  for (const LayerComparison& layer : comparison.layers) {
    if (layer.output.deviates(tolerance)) return Finding{layer.name, "output", layer.output};
  }
  if (comparison.loss.deviates(tolerance)) return Finding{"the loss", "value", comparison.loss};
  const auto program = VerifiedProgramOf(plan);
  for (int i = static_cast<int>(comparison.layers.size()) - 1; program.ok() && i >= 0; --i) {
    const LayerComparison& layer = comparison.layers[i];
    if (layer.cotangent.deviates(tolerance)) {
      const auto readers = Readers(**program, comparison).Of((*program)->layer(i).output());
      return Finding{absl::StrJoin(readers, " or "),
                     absl::StrCat("gradient of its input, the output of \"", layer.name, "\""), layer.cotangent};
    }
    if (auto finding = WrongParameter(layer, layer.gradients, "gradient of ", tolerance)) return finding;
  }
  for (const LayerComparison& layer : comparison.layers) {
    if (auto finding = WrongParameter(layer, layer.parameters, "after the step, ", tolerance)) return finding;
  }
  return std::nullopt;
}

}  // namespace adjoin
