// A halo exchange over a 2x2 grid of ranks, forward and backward: each rank convolves its patch of an image as the
// whole image would be, and the exchange's backward is its adjoint.
#include <cmath>
#include <cstdio>

#include <torch/torch.h>

#include "base/status_macros.h"
#include "examples/standalone/launch.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/tape.h"

using namespace adjoin;

namespace {

torch::Tensor Part(torch::Tensor whole, const Box& box) {
  for (int d = 0; d < box.dims(); ++d) whole = whole.slice(d, box[d].lo, box[d].hi);
  return whole.contiguous();
}

absl::Status Halo(Communicator& communicator) {
  torch::set_num_threads(1);
  torch::manual_seed(1);  // every rank makes the same image, keeps its patch, and has the whole to compare with
  const int rank = communicator.rank();
  ADJOIN_ASSIGN_OR_RETURN(const Layout grid,
                          Layout::Partition({2, 3, 11, 9}, DType::kFloat64, {1, 1, 2, 2}, {0, 1, 2, 3}));
  const torch::Tensor image = torch::randn(grid.shape(), torch::kDouble);
  const torch::Tensor kernel = torch::randn({4, 3, 5, 3}, torch::kDouble);

  // F: every rank gets what its outputs read, its neighbours' cells and the zeros around the image included.
  ADJOIN_ASSIGN_OR_RETURN(const Window high, Window::Create({.kernel = 5, .pad_lo = 2, .pad_hi = 2}));
  ADJOIN_ASSIGN_OR_RETURN(const Window wide, Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1}));
  ADJOIN_ASSIGN_OR_RETURN(const auto halo, HaloExchange::Create(&communicator, grid, {{2, high}, {3, wide}}, grid,
                                                                {.id = 1, .name = "halo"}));
  torch::Tensor x = Part(image, grid.BoxOf(rank)).requires_grad_();
  Tape tape;
  const torch::Tensor Fx = halo->Apply(x, tape);
  const torch::Tensor convolved = torch::conv2d(Fx.detach(), kernel);
  const torch::Tensor serial = torch::conv2d(image, kernel, {}, 1, torch::IntArrayRef{2, 1});
  Box box = grid.BoxOf(rank);
  box[1] = {0, 4};
  const torch::Tensor difference = (convolved - Part(serial, box)).abs().max();

  // F*y is what backward leaves in x.grad for the loss <Fx, y>. Both inner products are sums over ranks.
  const torch::Tensor y = torch::randn_like(Fx) + rank;
  const torch::Tensor Fx_y = (Fx * y).sum();
  tape.Backward(Fx_y);
  ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({3}, DType::kFloat64, grid.mesh().ranks()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout parts, everywhere.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const auto sum, AllSumReduce::Create(&communicator, parts, {.id = 2, .name = "sum"}));
  const torch::Tensor sums = sum->Forward(torch::stack({Fx_y.detach(), (x.detach() * x.grad()).sum(), difference}));
  const double left = sums[0].item<double>(), right = sums[1].item<double>(), worst = sums[2].item<double>();

  if (rank == 0) std::printf("<Fx, y> = %.12f\n<x, F*y> = %.12f\n", left, right);
  if (!(std::abs(left - right) <= 1e-12 * std::abs(left))) return absl::InternalError("the adjoint identity is broken");
  if (!(worst < 1e-12)) return absl::InternalError("the convolved patches differ from the convolved image");
  if (rank == 0) std::printf("equal; the convolved patches are those of the whole image\n");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return Launch(argc, argv, /*ranks=*/4, Halo); }
