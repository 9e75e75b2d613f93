// Attention within windows, which may be shifted, as torchvision's ShiftedWindowAttention, of 1, 2 or 3 spatial dims.
//
// The movement "x" brings whole windows of the padded and rolled tensor, all channels of them; the kernel attends
// within each with this rank's heads; kRoleUnroll brings what they return back to where its cells belong, in the
// input's extents; the projection there is a sum over this rank's heads, which "y" completes. Relative positions, and
// the regions that do not see each other where the tensor was rolled around its ends, follow from global positions. A
// dropped weight belongs to its position in [batch, windows per dim ..., heads, cells, cells]. Local shapes:
// x [n, spatial ..., channels], y alike. Can be differentiated any number of times. Errors: kInvalidArgument where the
// plan's layout is none.
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include "base/status_macros.h"
#include "layers/attention/attention_roles.h"
#include "layers/attention/block_attention.h"
#include "layers/attention/heads.h"
#include "layers/attention/window_positions.h"
#include "layers/layer.h"
#include "layers/placed_random.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/random/philox.h"

namespace adjoin {
namespace {

using at::Tensor;

// What torchvision adds to the score of two cells that do not see each other.
constexpr double kHidden = -100;

class WindowAttentionLayer : public LayerModule {
 public:
  // `padded`: global shape of the tensor that windows divide; `part`: this rank's, with all channels.
  WindowAttentionLayer(LayerContext context, std::vector<int64_t> padded, Box part)
      : LayerModule(std::move(context)),
        window_(spec().window_attention().window().begin(), spec().window_attention().window().end()),
        shift_(spec().window_attention().shift().begin(), spec().window_attention().shift().end()),
        padded_(std::move(padded)),
        part_(std::move(part)),
        positions_({padded_.begin() + 1, padded_.end() - 1}, window_, shift_) {
    if (!part_.empty()) relative_ = positions_.RelativeIndex().reshape({-1}).to(this->context().device);
  }

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    const Tensor qkv_weight = Read(kRoleQkvWeight, x, tape), qkv_bias = Read(kRoleQkvBias, x, tape);
    const Tensor proj_weight = Read(kRoleProjWeight, x, tape), proj_bias = Read(kRoleProjBias, x, tape);
    // A row's gradient is a sum over all pairs of cells at its distance: it is added up in a type that loses nothing.
    const Tensor table = Parameter(kRolePositionBias, tape).to(SumType(x.scalar_type()));
    const int64_t heads = table.size(1);
    std::vector<int64_t> shape = part_.Shape();
    shape.back() = heads * qkv_weight.size(2);
    const bool attends = !part_.empty() && heads > 0;
    Tensor attended = attends ? Attend(x, qkv_weight, qkv_bias, table)
                              : EmptyResult(shape, {x, qkv_weight, qkv_bias, table.to(x.scalar_type())});
    attended = Move(kRoleUnroll, attended, tape);
    return Output(Project(attended, proj_weight, proj_bias), tape);
  }

 private:
  Tensor Read(const char* role, const Tensor& x, Tape& tape) {
    const Tensor parameter = Parameter(role, tape);
    return parameter.defined() ? parameter.to(x.scalar_type()) : parameter;
  }

  Tensor Attend(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& table) const {
    const int64_t heads = table.size(1), width = weight.size(2), cells = positions_.cells();
    const Tensor windows = ToWindows(x, window_);
    const int64_t count = windows.size(0), samples = x.size(0);
    const Tensor qkv = ToHeads(windows, weight, bias).reshape({3, samples, count / samples, heads, cells, width});
    // [heads, cells, cells], or of each window: the same for all samples.
    Tensor added = table.index_select(0, relative_).reshape({cells, cells, heads}).permute({2, 0, 1});
    if (positions_.AnyHidden()) {
      added = added + (positions_.Hidden(SpatialPart(), table.device()).to(table.scalar_type()) * kHidden).unsqueeze(1);
    }
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const Tensor values = DenseAttention(qkv[0] * scale, qkv[1], qkv[2], added, Factors(x));
    std::vector<int64_t> shape = part_.Shape();
    shape.back() = heads * width;
    return FromWindows(values.transpose(2, 3).reshape({count, cells, heads * width}), window_, shape);
  }

  // Factors of the weights, [samples, windows, heads, cells, cells]: 0 where one is dropped. Undefined where none is.
  Tensor Factors(const Tensor& x) const {
    const double p = spec().window_attention().dropout();
    if (p == 0 || !context().training) return Tensor();
    const Interval heads = context().parameter_boxes.at(kRolePositionBias)[1];
    const int64_t cells = positions_.cells();
    std::vector<int64_t> shape = {padded_[0]};
    Box box({part_[0]});
    std::vector<Interval> dims = {part_[0]};
    for (size_t dim = 0; dim < window_.size(); ++dim) {
      shape.push_back(padded_[dim + 1] / window_[dim]);
      dims.push_back({part_[dim + 1].lo / window_[dim], part_[dim + 1].hi / window_[dim]});
    }
    shape.insert(shape.end(), {spec().window_attention().heads(), cells, cells});
    dims.insert(dims.end(), {heads, {0, cells}, {0, cells}});
    const Tensor kept = PlacedKept(Draws(kPurposeDropout), place().first_sample, shape, Box(dims), p, x.device());
    return kept.reshape({part_[0].size(), -1, heads.size(), cells, cells}).to(SumType(x.scalar_type())) / (1 - p);
  }

  // `features`: of this rank's heads.
  Tensor Project(const Tensor& features, const Tensor& weight, const Tensor& bias) const {
    if (!runs_here()) return EmptyResult(context().compute_shape, {features, weight, bias});
    const int64_t channels = weight.size(0), own = weight.size(1) * weight.size(2);
    const Tensor rows = features.reshape({VolumeOf(context().compute_shape) / channels, own});
    Tensor y = at::mm(rows, weight.reshape({channels, own}).t()).reshape(context().compute_shape);
    return bias.defined() && bias.numel() > 0 ? y + bias : y;
  }

  std::vector<Interval> SpatialPart() const {
    std::vector<Interval> part;
    for (size_t dim = 0; dim < window_.size(); ++dim) part.push_back(part_[static_cast<int>(dim) + 1]);
    return part;
  }

  const std::vector<int64_t> window_, shift_;
  const std::vector<int64_t> padded_;
  const Box part_;
  const WindowPositions positions_;
  Tensor relative_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildWindowAttention(LayerContext context) {
  if (context.plan.reading_size() != 1) return absl::InvalidArgumentError("the plan does not say what is read");
  ADJOIN_ASSIGN_OR_RETURN(const Layout windows, LayoutFromProto(context.plan.reading(0).reader()));
  const Box part = windows.BoxOf(context.rank);
  return std::make_unique<WindowAttentionLayer>(std::move(context), windows.shape(), part);
}

}  // namespace adjoin
