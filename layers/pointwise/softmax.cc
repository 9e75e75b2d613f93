// torch.nn.Softmax and LogSoftmax.
//
// Over a dim that is cut, each row is shifted by its largest element of all ranks (kRoleMax) and divided by the sum of
// its exponentials over all ranks (kRoleSum). A part without cells has the maximum minus infinity and the sum 0. It can
// be differentiated any number of times. Local shapes: x and y alike; of what moves, 1 in the dim. Errors:
// kInvalidArgument where the plan's layout is none.
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>

#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/pointwise/softmax_roles.h"
#include "layers/rules/layout_proto.h"
#include "layers/sum_type.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

class SoftmaxLayer : public LayerModule {
 public:
  // `row_shape`: of one number per row of this rank's part.
  SoftmaxLayer(LayerContext context, bool cut, std::vector<int64_t> row_shape)
      : LayerModule(std::move(context)),
        dim_(spec().softmax().dim()),
        log_(spec().softmax().log()),
        cut_(cut),
        row_shape_(std::move(row_shape)) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    if (cut_) return Output(OverRanks(x, tape), tape);
    return Output(log_ ? at::log_softmax(x, dim_) : at::softmax(x, dim_), tape);
  }

 private:
  at::Tensor OverRanks(const at::Tensor& x, Tape& tape) {
    const at::Tensor shifted = InSumType(x) - Move(kRoleMax, Largest(x.detach()), tape);
    const at::Tensor exponentials = at::exp(shifted);
    // A rank outside the mesh has no rows: the shape there is not x's with a 1.
    const at::Tensor own = exponentials.sum(dim_, /*keepdim=*/true).reshape(row_shape_);
    const at::Tensor sum = Move(kRoleSum, own.to(x.scalar_type()), tape);
    return (log_ ? shifted - at::log(InSumType(sum)) : exponentials / sum).to(x.scalar_type());
  }

  at::Tensor Largest(const at::Tensor& x) const {
    if (x.size(dim_) > 0) return at::amax(x, dim_, /*keepdim=*/true);
    return at::full(row_shape_, -std::numeric_limits<double>::infinity(), x.options());
  }

  const int64_t dim_;
  const bool log_;
  const bool cut_;
  const std::vector<int64_t> row_shape_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildSoftmax(LayerContext context) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, LayoutFromProto(context.plan.compute()));
  const int dim = context.plan.spec().softmax().dim();
  std::vector<int64_t> row_shape = context.compute_shape;
  if (x.mesh().Has(context.rank)) row_shape[dim] = 1;
  return std::make_unique<SoftmaxLayer>(std::move(context), x.Parts(dim) > 1, std::move(row_shape));
}

}  // namespace adjoin
