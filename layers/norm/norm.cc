// Normalisation as torch.nn.GroupNorm, InstanceNorm, LayerNorm and RMSNorm, and, by batch_norm.h, as BatchNorm: a
// builder for the registry.
//
// Sums are in float64 and of deviations from the mean of all ranks' elements (channel_statistics.h), each of them added
// up over the ranks by one movement where a cut goes through what is normalised together (kRoleMean, kRoleDeviations).
// A rank without cells adds zeros. Of the input nothing is kept for the backward pass but itself, and the normalised
// values where "layer" and "rms" have a weight. It can be differentiated twice. Local shapes: x and y alike; weight and
// bias [c] of this rank's channels, or of its part of the normalised dims. Errors: kInvalidArgument for a kind that is
// not known, and where the plan's layout is none.
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/norm/batch_norm.h"
#include "layers/norm/channel_statistics.h"
#include "layers/norm/norm_roles.h"
#include "layers/norm/norm_sums.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "layers/sum_type.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

using at::Tensor;

// What a rank's input looks like to a normalisation: rows of elements that lie one after the other and belong to the
// same set, of which a set may have several.
struct Sets {
  std::vector<int64_t> shape;  // one number per set of which this rank has a part
  int64_t elements = 0;        // in a set, on all ranks
  int64_t rows = 0;
  int64_t length = 0;  // elements in a row
  // Each channel's group for "group" and "instance", whose sets are [n, groups] and whose rows are [n, channels]. Else
  // undefined: each set has one row.
  Tensor group_of;
};

class SetNormLayer : public LayerModule {
 public:
  SetNormLayer(LayerContext context, Sets sets) : LayerModule(std::move(context)), sets_(std::move(sets)) {}

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor own = Input(inputs, 0, tape);
    const Tensor x = InSumType(own).reshape({1, sets_.rows, sets_.length});
    const auto elements = static_cast<double>(sets_.elements);
    ChannelStatistics pass;
    const Tensor of_rows = pass.Of(x);
    const Tensor count = of_rows[0], mean_of_row = of_rows[1], squares = of_rows[2];
    Tensor mean = at::zeros_like(count), apart = mean_of_row;
    if (spec().norm().kind() != "rms") {
      mean = PerRow(Move(kRoleMean, PerSet(count * mean_of_row), tape) / elements);
      apart = mean_of_row - mean;
    }
    const Tensor deviations = Move(kRoleDeviations, PerSet(squares + count * apart.square()), tape);
    const Tensor scale = PerRow(at::rsqrt(deviations / elements + spec().norm().eps()));
    const Tensor weight = Parameter(kRoleWeight, tape);
    const Tensor bias = Parameter(kRoleBias, tape);
    const Tensor y = sets_.group_of.defined() ? ByChannel(pass, x, mean, scale, weight, bias)
                                              : ByElement(pass.Normalised(x, mean, scale, {}), weight, bias);
    return Output(y.reshape(own.sizes()).to(own.scalar_type()), tape);
  }

 private:
  // [rows] to one sum per set, and back.
  Tensor PerSet(const Tensor& of_rows) const {
    if (!sets_.group_of.defined()) return of_rows.reshape(sets_.shape);
    return at::zeros(sets_.shape, of_rows.options())
        .index_add(1, sets_.group_of, of_rows.reshape({sets_.shape[0], sets_.group_of.numel()}));
  }
  Tensor PerRow(const Tensor& of_sets) const {
    return (sets_.group_of.defined() ? of_sets.index_select(1, sets_.group_of) : of_sets).reshape({sets_.rows});
  }

  // One number per channel belongs to a row of each sample.
  Tensor ByChannel(ChannelStatistics& pass, const Tensor& x, const Tensor& mean, const Tensor& scale,
                   const Tensor& weight, const Tensor& bias) const {
    if (!weight.defined()) return pass.Normalised(x, mean, scale, {});
    const std::vector<int64_t> rows = {sets_.shape[0], sets_.group_of.numel()};
    const auto per_row = [&](const Tensor& of_channels) { return of_channels.expand(rows).reshape({sets_.rows}); };
    return pass.Normalised(x, mean, scale * per_row(weight.to(at::kDouble)), per_row(bias.to(x.scalar_type())));
  }

  // Weight and bias have one number per element of a row. "rms" has no bias.
  static Tensor ByElement(const Tensor& normalised, const Tensor& weight, const Tensor& bias) {
    if (!weight.defined()) return normalised;
    const Tensor y = normalised * weight.to(normalised.scalar_type()).reshape({-1});
    return bias.defined() ? y + bias.to(normalised.scalar_type()).reshape({-1}) : y;
  }

  const Sets sets_;
};

// The sets of this rank, whose part of the input has `local` shape.
absl::StatusOr<Sets> SetsOf(const Layout& x, const Norm& norm, int rank, const std::vector<int64_t>& local,
                            at::Device device) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout sums, NormSums(x, norm, Placement::Partial()));
  Sets sets;
  sets.shape = sums.LocalShape(rank);
  sets.elements = 1;
  sets.rows = sets.length = 1;
  const int first = NormalisesGroups(norm) ? 2 : norm.dim(0);
  for (int dim = 0; dim < x.dims(); ++dim) {
    (dim < first ? sets.rows : sets.length) *= local[dim];
    if (dim >= first) sets.elements *= x.shape()[dim];
  }
  if (!NormalisesGroups(norm)) return sets;
  const int64_t size = x.shape()[1] / GroupsOf(norm, x);
  sets.elements *= size;
  sets.group_of = at::empty({0}, at::kLong);
  if (x.mesh().Has(rank)) {
    const Interval channels = x.BoxOf(rank)[1];
    const int64_t first_group = sums.BoxOf(rank)[1].lo;
    sets.group_of = at::div(at::arange(channels.lo, channels.hi), size, "floor") - first_group;
  }
  sets.group_of = sets.group_of.to(device);
  return sets;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildNorm(LayerContext context) {
  const Norm& norm = context.plan.spec().norm();
  if (norm.kind() == "batch") return BuildBatchNorm(std::move(context));
  if (!NormalisesGroups(norm) && norm.kind() != "layer" && norm.kind() != "rms") {
    return absl::InvalidArgumentError(absl::StrCat("normalisation of kind \"", norm.kind(), "\" has no builder"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(context.plan.compute()));
  ADJOIN_ASSIGN_OR_RETURN(Sets sets, SetsOf(x, norm, context.rank, context.compute_shape, context.device));
  return std::make_unique<SetNormLayer>(std::move(context), std::move(sets));
}

}  // namespace adjoin
